# SPDX-License-Identifier: Apache-2.0
"""Forgotten closers are forgiven; a call without any is cut, and no JSON (D3, D7)."""

import pytest

from harness import call, messages

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
        (
            "<parameter=path>\n/a\n</parameter>\n<parameter=path>\n/b\n"
            "</parameter>\n</function>\n</tool_call>",
            '{"path": "/a", "path": "/b"}',
        ),
    ],
)
def test_text_of_the_arguments(said: str, arguments: str) -> None:
    for message in messages("<tool_call>\n<function=write>\n" + said):
        assert message.calls == [("write", arguments)]
