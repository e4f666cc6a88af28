# SPDX-License-Identifier: Apache-2.0
"""Says outputs under the grammar that the tree's own application gives a request."""

import functools
from typing import Any

import harness
from conformance import tokens
from grammars.manager import Manager, Recorder, Stop

END = tokens.load().token_to_id(tokens.EOS)


@functools.cache
def recorder(reasoning: str) -> Recorder:
    """What the application with a reasoning parser, or "none", makes of requests."""
    return Recorder(harness.application(reasoning, "qwen3_coder"))


@functools.cache
def manager(reasoning: str, k: int) -> Manager:
    """The tree's manager of grammars for ``k`` drafts a step."""
    return Manager(recorder(reasoning).config, k)


def post(
    output: str = "x", *, reasoning: str = "none", prompt: str = "none", **fields: Any
) -> tuple[int, bytes]:
    """Status and body of a chat request for which the model says this."""
    body = harness.body_of("chat", prompt, False, []) | fields
    app = harness.application(reasoning, "qwen3_coder")
    said = harness.script(output, 9)
    return harness.post(app, harness.SURFACES["chat"].PATH, body, said)


def stop(
    output: str,
    k: int = 0,
    *,
    reasoning: str = "none",
    prompt: str = "none",
    tools: list[dict[str, Any]] = harness.TOOLS,
    **fields: Any,
) -> Stop | None:
    """Where the grammar of a chat request refuses an output, its end included.

    Args:
        prompt: What its end does to the reasoning: "open", "closed" or "none".
        fields: Of the request.
    """
    taken, drafting = recorder(reasoning), manager(reasoning, k)
    given: dict[str, Any] = {"tools": tools} if tools else {}
    status, answer = post(reasoning=reasoning, prompt=prompt, **given, **fields)
    assert status == 200, answer
    request = drafting.open(taken.request)
    return request and drafting.walk(request, [*harness.ids(output), END])


def said(output: str, k: int, **options: Any) -> str:
    """What a model that wants to say an output can say, up to what is refused."""
    refused = stop(output, k, **options)
    ids = harness.ids(output)
    return output if refused is None else tokens.load().decode(ids[: refused.at])
