# SPDX-License-Identifier: Apache-2.0
"""The transcripts, and the messages that are expected of them."""

import json

import pytest

from cpu import transcripts
from cpu.transcripts import Call, Message, Transcript

ALL = transcripts.load()


def test_text_and_message_of_a_call_with_text_before_it() -> None:
    made = ALL["one-call-preface"]
    assert made.text == (
        "I will save it for you.\n\n<tool_call>\n<function=write>\n<parameter=path>\n/home/ada/list.txt\n</parameter>\n"
        "<parameter=content>\nbread\nmilk\nsix apples\n</parameter>\n</function>\n</tool_call>"
    )
    call = Call(
        "write", {"path": "/home/ada/list.txt", "content": "bread\nmilk\nsix apples"}
    )
    assert made.message == Message("", "I will save it for you.", (call,), "tool_calls")


def test_thinking_ends_with_its_tag_unless_a_call_ends_it() -> None:
    assert "prime.\n</think>\n\nYes" in ALL["think-answer"].text
    assert "</think>" not in ALL["think-call-inside"].text
    assert ALL["think-call-inside"].message.reasoning == "No time to lose."


def test_values_that_quote_markup_stay_one_value() -> None:
    made = ALL["value-two-blocks"]
    assert made.text.count("<tool_call>") == 3
    assert len(made.message.calls) == 1
    assert made.message.calls[0].arguments["content"].count("<tool_call>") == 2


@pytest.mark.parametrize("made", ALL.values(), ids=lambda made: made.id)
def test_every_transcript_asks_for_tools_that_exist_and_expects_them(
    made: Transcript,
) -> None:
    schemas = transcripts.tool_schemas(made.tools)
    assert {call.name for call in made.message.calls} <= set(schemas)
    assert made.tool_choice in ("auto", "required", "none", *made.tools)
    for call in made.message.calls:
        for value in call.arguments.values():
            assert not isinstance(value, str) or value in made.text


def test_there_are_values_of_some_thousand_characters() -> None:
    lengths = [
        len(value)
        for made in ALL.values()
        for call in made.message.calls
        for value in call.arguments.values()
        if isinstance(value, str)
    ]
    assert max(lengths) > 3000


CUT = ALL["cut"]


def cut_after(text: str) -> Message:
    assert text in CUT.text
    return CUT.cut(CUT.text.index(text) + len(text))


def test_text_cut_before_a_call_began_is_content() -> None:
    assert cut_after("Storing").content == "Storing"
    assert (
        cut_after("<tool_call>\n<func").content
        == "Storing it now.\n\n<tool_call>\n<func"
    )
    assert cut_after("<function=write").calls == ()


def test_a_call_cut_before_its_first_value_is_empty() -> None:
    assert cut_after("<function=write>").calls == (Call("write", {}),)
    assert cut_after("<parameter=pat").calls == (Call("write", {}),)
    assert cut_after("<function=write>").content == "Storing it now."


def test_a_cut_value_keeps_what_cannot_be_frame() -> None:
    assert cut_after("The fog com").calls[0].arguments["content"] == "The fog com"
    assert cut_after("The fog comes\n").calls[0].arguments["content"] == "The fog comes"
    assert cut_after("looking <").calls[0].arguments["content"].endswith("looking ")
    assert cut_after("looking <b").calls[0].arguments["content"].endswith("looking <b")
    assert cut_after("harbor.\n").calls[0].arguments["content"].endswith("harbor.")
    assert (
        cut_after("harbor.\n\n</para")
        .calls[0]
        .arguments["content"]
        .endswith("harbor.\n")
    )


def test_every_cut_grows_out_of_the_one_before_it() -> None:
    whole = CUT.message.calls[0].arguments
    before: dict[str, str] = {}
    for length in range(1, len(CUT.text) + 1):
        message = CUT.cut(length)
        assert message.finish == "length"
        now = message.calls[0].arguments if message.calls else {}
        assert all(
            now[key].startswith(value) or value.startswith(now[key])
            for key, value in before.items()
        )
        assert all(whole[key].startswith(value) for key, value in now.items())
        before = now
    assert before == whole


def test_a_malformed_call_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match="not rendered regularly"):
        ALL["given-twice"].cut(5)


def test_a_second_turn_sends_the_call_and_its_result() -> None:
    history = transcripts.chat_messages(ALL["turn-answer"], ALL)
    assert [message["role"] for message in history] == ["user", "assistant", "tool"]
    assert json.loads(history[1]["tool_calls"][0]["function"]["arguments"]) == {
        "path": "/home/ada/notes.txt"
    }
    assert history[1]["tool_calls"][0]["id"] == history[2]["tool_call_id"]
