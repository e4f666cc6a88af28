# SPDX-License-Identifier: Apache-2.0
"""Proof of left-out-media: an image in a tool's result does not end a session with a
server that reads none: here, a model of text alone; of others the limits are asked.
"""

from types import SimpleNamespace
from typing import Any

import pytest

import harness
from conformance.host.engine import MODEL

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
TEXT = {"type": "text", "text": "A picture:"}
LOOK = {"role": "user", "content": "look"}
CALLED = {"role": "assistant", "tool_calls": [CALL]}


def result(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "one", "content": list(content)}


def chat(*behind: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"messages": [LOOK, CALLED, *behind]}


HISTORIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": chat(result(TEXT, CHAT)),
    "embeddings": chat(result({"type": "image_embeds", "image_embeds": "AAAA"})),
    "in a message of the user": chat(
        result(TEXT), {"role": "user", "content": [TEXT, CHAT]}
    ),
    "responses": (
        "/v1/responses",
        {
            "input": [
                LOOK,
                {"type": "function_call", "call_id": "one", **FUNCTION},
                {"type": "function_call_output", "call_id": "one", "output": [INPUT]},
            ]
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 9,
            "messages": [
                LOOK,
                {"role": "assistant", "content": [USE]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "one",
                            "content": [TEXT, BLOCK],
                        }
                    ],
                },
            ],
        },
    ),
}


def ask(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    said = harness.script("I see.", 100_000)
    app = harness.application("none", "qwen3_coder")
    return harness.post(app, path, {"model": MODEL, **body}, said)


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("stream", [False, True])
def test_the_session_goes_on(history: str, stream: bool) -> None:
    path, body = HISTORIES[history]
    status, answer = ask(path, {**body, "stream": stream})
    assert status == 200, answer
    assert b"I see." in answer


def test_another_image_of_the_user_is_refused_as_before() -> None:
    said = {"messages": [{"role": "user", "content": [CHAT]}]}
    assert ask("/v1/chat/completions", said)[0] == 400


IMAGE = "[image left out: this server reads no image]"
AUDIO = "[audio left out: this server reads no audio]"


class Limits(SimpleNamespace):
    """What a release's configuration says of its kinds."""

    enable_mm_embeds = False

    def get_limit_per_prompt(self, kind: str) -> int:
        return 0 if kind == "image" else 1


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (CHAT, IMAGE),
        (INPUT, IMAGE),
        ({"image_url": URL}, IMAGE),
        ({"image_embeds": "AAAA"}, IMAGE),
        ({"type": "input_audio", "input_audio": {}}, AUDIO),
        ({"type": "audio_embeds", "audio_embeds": "AAAA"}, AUDIO),
        (TEXT, None),
        ({"type": "tool_reference", "name": "read"}, None),
        ({"type": ["image_url"]}, None),
        ("words", None),
    ],
)
def test_words_name_the_kind(part: Any, words: str | None) -> None:
    """A kind that is read stays; here, audio by the second server."""
    from vllm.renderers.left_out_media import name_media

    asked = [LOOK, CALLED, result(part)]
    kept = {"type": "text", "text": words} if words else part
    text, some = (SimpleNamespace(multimodal_config=c) for c in (None, Limits()))
    assert name_media(asked, text) == [LOOK, CALLED, result(kept)]
    kept = part if words == AUDIO else kept
    assert name_media(asked, some) == [LOOK, CALLED, result(kept)]
    assert asked == [LOOK, CALLED, result(part)]
