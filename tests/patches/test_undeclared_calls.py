# SPDX-License-Identifier: Apache-2.0
"""Undeclared names are text, but for a whole block at the end of the answer (D5)."""

import pytest

from harness import Message, call, messages

UNKNOWN = call("unknown", ("x", "1"))
READ = call("read", ("path", "/a"))
FENCED = f"```xml\n{UNKNOWN}\n```"
FOUND = ("unknown", '{"x": "1"}')
DECLARED = ("read", '{"path": "/a"}')


TEXTS = (
    FENCED,
    f"Write {UNKNOWN} here.",
    UNKNOWN[: UNKNOWN.index("</parameter>")],
    UNKNOWN + " is a call.",
    f"Like this:\n{UNKNOWN}\nand so on.",
    "See <function=unknown> for that.",
    "See <tool_call>\n<function=> for that.",
    "See <function=write for that.",
)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (UNKNOWN, "", [FOUND]),
        (f"I look it up.\n\n{UNKNOWN}\n  \n", "I look it up.", [FOUND]),
        ("Write " + UNKNOWN.removesuffix("</tool_call>"), "Write", [FOUND]),
        (f"{UNKNOWN}\n{READ}", "", [FOUND, DECLARED]),
        (f"{UNKNOWN}\nand now\n{READ}", f"{UNKNOWN}\nand now", [DECLARED]),
        *((text, text, []) for text in TEXTS),
    ],
)
def test_calls_and_text(text: str, content: str, calls: list[tuple[str, str]]) -> None:
    for message in messages(text):
        assert message == Message("", content, calls)


def test_request_without_tools_has_no_calls() -> None:
    for message in messages(UNKNOWN, tools=[]):
        assert message == Message("", UNKNOWN)


def test_quoted_in_the_reasoning_then_real() -> None:
    thought = f"The format is\n{UNKNOWN}\nas I know.\n"
    for message in messages(f"{thought}</think>\n\n{READ}", reasoning=True):
        assert message == Message(thought, "", [DECLARED])
