# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""Tool results for a server that does not read their images.

An agent that looks at an image sends the result of its tool with every later
request of the session, so one image that cannot be read ends the session.
"""

from __future__ import annotations

from typing import Any

#: The kind of a part, by its type; one without a type has its data under this key.
_KINDS = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "image_pil": "image",
    "image_embeds": "image",
    "audio_url": "audio",
    "input_audio": "audio",
    "audio_embeds": "audio",
    "video_url": "video",
    "video_embeds": "video",
}


def name_media(messages: Any, model_config: Any) -> Any:
    """A conversation whose tool results say what was left out of them.

    So does a message of the user directly behind a tool result, where some agents,
    and the conversion of ``/v1/messages``, put its images. Any other image of the
    user stays, and is refused.
    """
    if not isinstance(messages, list):
        return messages
    config = model_config.multimodal_config
    named, before = [], None
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        content = message.get("content") if role in ("tool", "user") else None
        if "tool" in (role, before) and not isinstance(content, (str, type(None))):
            content = [_named(part, config) for part in content]
            message = {**message, "content": content}
        named.append(message)
        before = role
    return named


def _named(part: Any, config: Any) -> Any:
    """A part, or words in its place if it is of a kind that the server reads not."""
    if not isinstance(part, dict):
        return part
    type_ = part.get("type") or next((key for key in _KINDS if key in part), None)
    kind = _KINDS.get(type_) if isinstance(type_, str) else None
    if kind is None or _is_read(kind, type_.endswith("_embeds"), config):
        return part
    words = f"[{kind} left out: this server reads no {kind}]"
    return {"type": "text", "text": words}


def _is_read(kind: str, is_embedded: bool, config: Any) -> bool:
    if config is None:
        return False
    if is_embedded and config.enable_mm_embeds:
        return True
    return bool(config.get_limit_per_prompt(kind))
