# SPDX-License-Identifier: Apache-2.0
"""The transcripts, and the messages that are expected of them."""

import pytest

from conformance.case import Call, Expected
from cpu import transcripts
from cpu.transcripts import Transcript

ALL = transcripts.load()


def test_text_and_message_of_a_call_with_text_before_it() -> None:
    made = ALL["one-call-preface"]
    assert made.text == (
        "I will save it for you.\n\n<tool_call>\n<function=write>\n<parameter=path>\n/home/ada/list.txt\n</parameter>\n"
        "<parameter=content>\nbread\nmilk\nsix apples\n</parameter>\n</function>\n</tool_call>"
    )
    given = {"path": "/home/ada/list.txt", "content": "bread\nmilk\nsix apples"}
    assert made.expected == Expected(
        content="I will save it for you.",
        calls=(Call(name="write", arguments=given),),
        finish_reason="tool_calls",
    )


def test_thinking_ends_with_its_tag_unless_a_call_ends_it() -> None:
    assert "prime.\n</think>\n\nYes" in ALL["think-answer"].text
    assert "</think>" not in ALL["think-call-inside"].text
    assert ALL["think-call-inside"].expected.reasoning == "No time to lose."


def test_values_that_quote_markup_stay_one_value() -> None:
    made = ALL["value-two-blocks"]
    assert made.text.count("<tool_call>") == 3
    assert len(made.expected.calls) == 1
    assert made.expected.calls[0].arguments["content"].count("<tool_call>") == 2


@pytest.mark.parametrize("made", ALL.values(), ids=lambda made: made.id)
def test_every_transcript_asks_for_tools_that_exist_and_expects_them(
    made: Transcript,
) -> None:
    schemas = transcripts.tool_schemas(made.tools)
    assert {call.name for call in made.expected.calls} <= set(schemas)
    assert made.tool_choice in ("auto", "required", "none", *made.tools)
    for call in made.expected.calls:
        for value in call.arguments.values():
            assert not isinstance(value, str) or value in made.text


def test_there_are_values_of_some_thousand_characters() -> None:
    lengths = [
        len(value)
        for made in ALL.values()
        for call in made.expected.calls
        for value in call.arguments.values()
        if isinstance(value, str)
    ]
    assert max(lengths) > 3000


CUT = ALL["cut"]


def cut_after(text: str) -> Expected:
    assert text in CUT.text
    return CUT.cut(CUT.text.index(text) + len(text))


def opened_after(text: str) -> str | None:
    """The argument text of an answer that is cut behind ``text``."""
    (call,) = cut_after(text).calls
    return call.argument_text


def test_a_call_that_has_not_begun_is_text() -> None:
    assert cut_after("Storing").content == "Storing"
    for text in ("<tool_call>\n<func", "<function=write>\n", "<parameter=pat"):
        said = cut_after(text)
        assert said.content.endswith(text) and not said.calls


def test_a_cut_call_stays_open() -> None:
    assert opened_after("<parameter=path>") == '{"path": "'
    assert opened_after("/poem") == '{"path": "/poem'
    for text in ("/poem.txt\n", "/poem.txt\n</par", "/poem.txt\n</parameter>\n"):
        assert opened_after(text) == '{"path": "/poem.txt'
    before = '{"path": "/poem.txt", "content": "'
    assert opened_after("<parameter=content>") == before
    assert opened_after("The fog comes\n") == before + "The fog comes"
    assert str(opened_after("harbor.\n\n</para")).endswith("harbor.\\n")
    assert cut_after("The fog").content == "Storing it now."


def test_a_cut_never_leaves_a_whole_call() -> None:
    for length in range(1, len(CUT.text) + 1):
        said = CUT.cut(length)
        assert said.finish_reason == "length" and all(c.cut for c in said.calls)


def test_a_second_turn_sends_the_call_and_its_result() -> None:
    history = transcripts.prompt_messages(ALL["turn-answer"], ALL)
    assert [message["role"] for message in history] == ["user", "assistant", "tool"]
    function = history[1]["tool_calls"][0]["function"]
    assert function["arguments"] == {"path": "/home/ada/notes.txt"}
