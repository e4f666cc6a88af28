# SPDX-License-Identifier: Apache-2.0
"""Proof of left-out-media: an image in a tool's result does not end a session with a
text-only model.
"""

from typing import Any

import pytest

from harness import raw

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPhfDwAChAGA"
    "60e6kgAAAABJRU5ErkJggg=="
)
URL = f"data:image/png;base64,{PIXEL}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": PIXEL}
FUNCTION = {"name": "read", "arguments": '{"path": "/a"}'}
CALL = {"id": "one", "type": "function", "function": FUNCTION}
USE = {"type": "tool_use", "id": "one", "name": "read", "input": {"path": "/a"}}
CHAT = {"type": "image_url", "image_url": {"url": URL}}
INPUT = {"type": "input_image", "image_url": URL, "detail": "auto"}
BLOCK = {"type": "image", "source": SOURCE}
HISTORIES: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "tool_calls": [CALL]},
            {
                "role": "tool",
                "tool_call_id": "one",
                "content": [{"type": "text", "text": "A picture:"}, CHAT],
            },
        ]
    },
    "responses": {
        "input": [
            {"role": "user", "content": "look"},
            {"type": "function_call", "call_id": "one", **FUNCTION},
            {"type": "function_call_output", "call_id": "one", "output": [INPUT]},
        ]
    },
    "messages": {
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [USE]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "one", "content": [BLOCK]}
                ],
            },
        ]
    },
}


@pytest.mark.parametrize("surface", HISTORIES)
@pytest.mark.parametrize("width", [None, 1])
def test_the_session_goes_on(surface: str, width: int | None) -> None:
    status, body = raw("I see.", width, surface=surface, **HISTORIES[surface])
    assert status == 200, body
    assert b"I see." in body or width == 1


def test_an_image_of_the_user_is_refused_as_before() -> None:
    assert raw("Yes.", messages=[{"role": "user", "content": [CHAT]}])[0] == 400


def test_words_say_what_was_left_out() -> None:
    from vllm.renderers.left_out_media import name_media

    text = {"type": "text", "text": "A picture:"}
    kept, named = name_media([text, CHAT])
    assert kept == text
    assert named["type"] == "text"
    assert "image" in named["text"]
    assert name_media("words") == "words"
