# SPDX-License-Identifier: Apache-2.0
"""Proof of nearest-effort: a reasoning effort that the chat template refuses is
rendered as the nearest that it takes.
"""

import json
from typing import Any

import pytest

from application import QWEN35, Application, application

USER = {"role": "user", "content": "Do it."}
LATE = {"role": "system", "content": "It is late."}
#: Begins as Qwen3.8's template does, and shows the effort.
TEMPLATE = """
{%%- if enable_thinking is undefined or enable_thinking is true %%}
  {%%- set level = reasoning_effort|default('xhigh') %%}
  {%%- if level not in %s %%}
    {{- raise_exception('Unexpected reasoning effort ' ~ level ~ '.') }}
  {%%- endif %%}
  {{- '[' ~ level ~ ']' }}
{%%- endif %%}"""


def _template(*levels: str) -> str:
    return TEMPLATE % json.dumps(levels) + QWEN35.read_text()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Application:
    path = tmp_path_factory.mktemp("template") / "qwen38.jinja"
    path.write_text(_template("xhigh", "medium", "low"))
    return Application("qwen3", path)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"messages": [USER], "reasoning_effort": "high"}),
        ("responses", {"input": "Do it.", "reasoning": {"effort": "high"}}),
        ("messages", {"messages": [USER], "output_config": {"effort": "high"}}),
        ("chat/completions", {"messages": [USER, LATE], "reasoning_effort": "high"}),
        ("chat/completions", {"messages": [USER]}),
    ],
    ids=["chat", "responses", "messages", "late-system", "without"],
)
def test_endpoints(served: Application, path: str, body: dict[str, Any]) -> None:
    served.json(f"/v1/{path}", {**body, "max_tokens": 9} if "m" in path else body)
    assert served.prompt.startswith("[xhigh]<|im_start|>user\nDo it.<|im_end|>\n")


def test_tokens_are_counted(served: Application) -> None:
    first, second = (
        served.post(
            "/v1/messages/count_tokens",
            {"messages": [USER], "output_config": {"effort": effort}},
        )
        for effort in ("high", "xhigh")
    )
    if first[0] == 404:
        pytest.skip("this release counts no tokens of a request")
    assert first == second
    assert first[0] == 200


@pytest.mark.parametrize(
    ("takes", "effort", "rendered"),
    [
        (("xhigh", "medium", "low"), "high", "[xhigh]"),
        (("xhigh", "medium", "low"), "max", "[xhigh]"),
        (("xhigh", "medium", "low"), "minimal", "[low]"),
        (("xhigh", "medium", "low"), "medium", "[medium]"),
        (("medium", "low"), "high", "[medium]"),
        (("low",), "xhigh", "[low]"),
        (("max", "high"), "medium", "[high]"),
        (("max", "low"), "medium", "[low]"),
        (("low",), "none", ""),
    ],
)
def test_nearest(takes: tuple[str, ...], effort: str, rendered: str) -> None:
    fields = {"chat_template": _template(*takes)}
    kwargs: dict[str, Any] = {"reasoning_effort": effort}
    if effort != "none":  # which switches thinking off
        kwargs["enable_thinking"] = True
    prompt = application().rendered([USER], **fields, chat_template_kwargs=kwargs)
    assert prompt.startswith(f"{rendered}<|im_start|>")


@pytest.mark.parametrize("effort", ["turbo", "none"])
def test_other_refusals_stay(effort: str) -> None:
    fields = {"chat_template": _template("low"), "messages": [USER]}
    kwargs = {"reasoning_effort": effort, "enable_thinking": True}
    body = {**fields, "chat_template_kwargs": kwargs}
    status, _ = application().post("/v1/chat/completions", body)
    assert status != 200
