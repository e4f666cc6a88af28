# SPDX-License-Identifier: Apache-2.0
"""Other reasoning parsers beside ``qwen3_coder``: reasoning, text and calls in
order, on every surface (D2, D10).
"""

import pytest
from vllm.reasoning import _REASONING_PARSERS_TO_REGISTER
from vllm.tool_parsers import _TOOL_PARSERS_TO_REGISTER

from harness import answer, ask, call

PAIRS = [
    name
    for name in ("nemotron_v3", "deepseek_r1", "step3p5", "step5")
    if name in _REASONING_PARSERS_TO_REGISTER
]
CALLS = call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b"))


@pytest.mark.parametrize("width", [None, 1, 4, 100_000])
@pytest.mark.parametrize("surface", ["chat", "responses", "messages"])
@pytest.mark.parametrize("reasoning", PAIRS)
def test_in_order(reasoning: str, surface: str, width: int | None) -> None:
    text = "Hm.</think>Two:\n\n" + CALLS + "\nDone."
    options = {"surface": surface, "reasoning": reasoning, "prompt": "open"}
    calls = [("read", {"path": "/a"}), ("read", {"path": "/b"})]
    assert answer(text, width, **options) == ("Hm.", "Two:\n\nDone.", calls)


@pytest.mark.skipif("step5" not in _TOOL_PARSERS_TO_REGISTER, reason="not yet")
@pytest.mark.parametrize("width", [None, 1, 4, 100_000])
@pytest.mark.parametrize("surface", ["chat", "responses", "messages"])
def test_the_space_before_a_call_of_step_5(surface: str, width: int | None) -> None:
    """Its template renders an answer's text and the call behind it as they are."""
    options = {"surface": surface, "parser": "step5", "prompt": "open"}
    calls = [("read", {"path": "/a"}), ("read", {"path": "/b"})]
    for text, content in (
        ("", ""),
        ("\n\n", ""),
        ("I look.", "I look."),
        ("\nI look.\n\n", "\nI look.\n\n"),
    ):
        output = f"Hm.\n</think>{text}{CALLS}\n"
        taken = answer(output, width, reasoning="step5", **options)
        assert taken == ("Hm.\n", content, calls)
    quoted = f"```\n{CALLS}\n```\nNot now."
    taken = answer(f"Hm.\n</think>{quoted}", width, reasoning="step5", **options)
    assert taken == ("Hm.\n", quoted, [])


@pytest.mark.skipif("nemotron_v3" not in PAIRS, reason="not in this release")
@pytest.mark.parametrize("width", [None, 1, 100_000])
def test_reasoning_that_must_be_the_answer(width: int | None) -> None:
    for output, content in (
        ("All of it.", "All of it."),
        ("Hm.</think>Yes.", "Yes."),
        ("Hm.</think>" + CALLS, ""),
    ):
        reading = ask(
            output,
            width,
            reasoning="nemotron_v3",
            prompt="open",
            chat_template_kwargs={"force_nonempty_content": True},
        )
        assert reading.content == content
