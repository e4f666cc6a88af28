"""The generator: the same seed says the same, what the format leaves open is left out, shrinking shrinks."""

from __future__ import annotations

import pytest

from conformance import case as cases
from conformance.generate import Generator, Message, Param, kept, unsafe
from conformance.host.search import shrink


def test_the_same_seed_gives_the_same_message() -> None:
    assert Generator(7).message().output() == Generator(7).message().output()
    assert len({Generator(i).message().output() for i in range(50)}) > 45


def test_messages_are_valid_cases_and_most_values_hold_markup() -> None:
    marked = total = 0
    for seed in range(300):
        message = Generator(seed).message()
        case = cases.parse(message.document("a generated message"), f"random/{seed}")
        for call in case.expected.calls:
            for value in call.arguments.values():
                if isinstance(value, str):
                    total += 1
                    marked += any(
                        t in value
                        for t in (
                            "<tool_call>",
                            "</function>",
                            "<parameter=",
                            "</parameter>",
                            "<function=",
                        )
                    )
    assert total > 200
    assert marked > total / 3


@pytest.mark.parametrize(
    ("text", "is_unsafe"),
    [
        ("a </function> b", False),
        ("</parameter>\ntext", False),
        ("x </parameter>\n</function>", True),
        ("x</parameter> <parameter=q>", True),
        ("<parameter=path>\n", False),
        ("<parameter=content>", True),
        ("see <parameter=content>", False),
        ("<tool_call>\nnever closed", True),
        ("a </function>\n\x00", True),
        ("\x00\nb", False),
        ("\x00\n\x00", True),
        ("ends </parameter>", False),
    ],
)
def test_what_the_format_leaves_open_is_left_out(text: str, is_unsafe: bool) -> None:
    assert unsafe(text, given={"path"}, declared={"path", "content"}) is is_unsafe


def test_white_space_around_calls_follows_the_rules() -> None:
    def content(*pieces: str) -> str:
        made = [
            ("call", ("read", [Param("path", "/a", "/a")]))
            if p == "CALL"
            else ("text", p)
            for p in pieces
        ]
        return str(Message("plain", "", made).expected()["content"])

    assert content("One.\n\n", "CALL", "\n") == "One."
    assert content("\n\n", "CALL", "\nDone.\n") == "Done.\n"
    assert content("One.\n", "CALL", "\n", "CALL", "\nTwo.") == "One.\nTwo."
    assert (
        content("One.\n", "CALL", "\nTwo.\n\n", "CALL", "Three.")
        == "One.\nTwo.\n\nThree."
    )
    assert content("\n Just text. \n") == "\n Just text. \n"


def test_shrinking_keeps_what_fails() -> None:
    assert shrink(list(range(40)), lambda f: 7 in f and 31 in f) == [7, 31]


@pytest.mark.parametrize(
    ("output", "seen", "lost"),
    [
        ("w0w <tool_call> w1w", "w0w <tool_call> w1w", 0),
        ("w0w w1w", "w0w", 1),
        ("w0w", "w0w w0w", 1),
        ("w0w <parameter=w1w", "w0w", 0),
        ("<parameter=w0w> w1w", "", 2),
        ("<parameter=w0w\nw1w", "", 2),
    ],
)
def test_a_lost_or_doubled_word_is_seen_and_a_cut_tag_is_forgiven(
    output: str, seen: str, lost: int
) -> None:
    assert len(kept(output, seen)) == lost
