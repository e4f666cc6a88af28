# SPDX-License-Identifier: Apache-2.0
"""The API surfaces: how a case becomes a request, and how a response becomes a
reading.

Each is a module with ``NAME``, ``PATH``, ``request``, ``read_full`` and
``read_stream``.
"""

from typing import Any

from conformance.surfaces import chat, messages, responses


def surfaces() -> dict[str, Any]:
    return {m.NAME: m for m in (chat, responses, messages)}
