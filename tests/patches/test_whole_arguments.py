# SPDX-License-Identifier: Apache-2.0
"""Forgotten closers are forgiven; a call without any is cut, and no JSON (D3, D7)."""

from __future__ import annotations

import pytest

from harness import Message, call, messages

READ = call("read", ("path", "/b"))


@pytest.mark.parametrize(
    ("inside", "arguments"),
    [
        (
            "<parameter=path>\n/a\n<parameter=content>\nx\n</parameter>\n"
            "</function>\n</tool_call>",
            {"path": "/a", "content": "x"},
        ),
        ("<parameter=path>\n/a\n</function>\n</tool_call>", {"path": "/a"}),
        ("<parameter=path>\n/a\n</function>", {"path": "/a"}),
        ("<parameter=path>\n/a\n</tool_call>", {"path": "/a"}),
        ("<parameter=path>\n/a\n</parameter>\n</tool_call>", {"path": "/a"}),
        ("<parameter=path>\n/a\n</parameter>\n</function>", {"path": "/a"}),
    ],
)
@pytest.mark.parametrize("then", ["", "\n" + READ], ids=["end", "call"])
def test_forgotten_closers(inside: str, arguments: dict[str, str], then: str) -> None:
    expected = [("write", arguments)] + [("read", {"path": "/b"})] * bool(then)
    for message in messages("<tool_call>\n<function=write>\n" + inside + then):
        assert message.arguments == expected
        assert message.content == ""


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        (
            "<parameter=path>\n/a\n</parameter>\n<parameter=content>\nabc",
            '{"path": "/a", "content": "abc',
        ),
        ("<parameter=content>\nabc", '{"content": "abc'),
        ("<parameter=content>\nabc\n</parameter>", '{"content": "abc"}'),
        ("<parameter=content>\n", '{"content": "'),
    ],
)
def test_end_without_closing_tags(said: str, arguments: str) -> None:
    for message in messages("<tool_call>\n<function=write>\n" + said):
        assert message.calls == [("write", arguments)]


def test_opening_alone_is_a_mention() -> None:
    text = "<tool_call>\n<function=write>\n"
    for message in messages(text):
        assert message == Message("", text)


def test_parameter_given_twice() -> None:
    for message in messages(call("read", ("path", "/a"), ("path", "/b"))):
        assert message.calls == [("read", '{"path": "/a", "path": "/b"}')]
