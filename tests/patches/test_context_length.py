# SPDX-License-Identifier: Apache-2.0
"""Proof of context-length: OpenAI's code for a prompt that the context cannot hold."""

import httpx
import pytest

from conformance.host.engine import MODEL
from harness import LOOP
from window import CONTEXT, application, error, words

PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses"]
#: Prompts: longer by one and by many, and so long that it is not tokenized.
LONG = {"by one": CONTEXT + 1, "by many": 3 * CONTEXT, "by far": 300 * CONTEXT}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", LONG)
def test_the_body_names_it(path: str, stream: bool, name: str) -> None:
    found = error(path, words(LONG[name]), stream=stream)
    assert found["code"] == "context_length_exceeded"
    assert found["type"] == "invalid_request_error"
    assert "context length" in found["message"]


def test_the_message_has_the_true_count() -> None:
    found = error("/v1/completions", words(5000))
    assert " 5000 " in found["message"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"temperature": -1}, 400), ({"max_tokens": -1}, 400), ({"model": "no"}, 404)],
)
def test_other_errors_have_their_status(fields: dict[str, object], status: int) -> None:
    found = error("/v1/completions", "hi", status, **fields)
    assert found["code"] == status
    assert found["type"] != "invalid_request_error"


def test_openai_sdk() -> None:
    import openai

    async def code() -> str | None:
        transport = httpx.ASGITransport(application(), raise_app_exceptions=False)
        client = openai.AsyncOpenAI(
            api_key="none",
            base_url="http://tree/v1",
            http_client=httpx.AsyncClient(transport=transport),
        )
        try:
            await client.responses.create(model=MODEL, input=words(3000), stream=True)
        except openai.BadRequestError as refused:
            return str(refused.code)
        return None

    assert LOOP.run_until_complete(code()) == "context_length_exceeded"
