# SPDX-License-Identifier: Apache-2.0
"""Quoted, padded and mangled names (D6)."""

import pytest

from harness import messages, strings, tool


@pytest.mark.parametrize("function", ["write", " write ", '"write"', "'write'"])
@pytest.mark.parametrize("parameter", ["path", " path ", '"path"', "'path'"])
def test_trimmed(function: str, parameter: str) -> None:
    value = f"<parameter={parameter}>\n/a\n</parameter>"
    text = f"<tool_call>\n<function={function}>\n{value}\n</function>\n</tool_call>"
    for message in messages(text):
        assert message.arguments == [("write", {"path": "/a"})]


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("<parameter=command=ls>\n</parameter>", {"command": "ls"}),
        ("<parameter=command=ls -la>\n/tmp\n</parameter>", {"command": "ls -la\n/tmp"}),
        ("<parameter=other=x>\n1x\n</parameter>", {"other=x": "1x"}),
    ],
)
def test_value_in_the_tag(tag: str, expected: dict[str, str]) -> None:
    tools = [tool("bash", strings("command", "other=x"))]
    for message in messages(
        f"<tool_call>\n<function=bash>\n{tag}\n</function>\n</tool_call>", tools=tools
    ):
        assert message.arguments == [("bash", expected)]
