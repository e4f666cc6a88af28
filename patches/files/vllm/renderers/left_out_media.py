# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Tool results for a model that reads text alone.

An agent that looks at an image sends the result of its tool with every later
request of the session, so one image that cannot be read ends the session.
"""

from __future__ import annotations

from typing import Any

_KINDS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio_url": "sound",
    "input_audio": "sound",
    "video_url": "video",
}


def name_media(parts: Any) -> Any:
    """The parts of a tool result, with words in the place of what is no text."""
    if not isinstance(parts, list):
        return parts
    return [
        {"type": "text", "text": f"[{kind} left out: this model reads text alone]"}
        if isinstance(part, dict) and (kind := _KINDS.get(str(part.get("type"))))
        else part
        for part in parts
    ]


def name_media_of_blocks(messages: list[Any]) -> None:
    """Do so in the tool results of a request to ``/v1/messages``."""
    for message in messages:
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "tool_result":
                block.content = name_media(block.content)
