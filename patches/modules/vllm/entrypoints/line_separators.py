# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Line separators in server-sent events.

JSON may hold U+0085, U+2028 and U+2029 as they are, and they end no line of an
event stream.  Clients that split it with ``str.splitlines()`` cut the JSON at
them all the same and lose the event, so they go out as escapes.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing


def escape_line_separators(event: str) -> str:
    """The event, with these characters as escapes of JSON."""
    if event.isascii():  # a flag of the string, so ASCII is not searched
        return event
    event = event.replace("\x85", "\\u0085")
    return event.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


async def escape_stream(stream: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """The events of a stream, escaped."""
    async with aclosing(stream):
        async for event in stream:
            yield escape_line_separators(event)
