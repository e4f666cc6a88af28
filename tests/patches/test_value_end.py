# SPDX-License-Identifier: Apache-2.0
"""Tag-like text in a value reaches the client, and opens no second call (D4)."""

import pytest

from harness import call, messages

BLOCK = call("read", ("path", "/y"))


@pytest.mark.parametrize("then", ["", "\n" + call("read", ("path", "/b"))])
@pytest.mark.parametrize(
    "value",
    [
        "a </function> b",
        "a\n</parameter>\nb",
        "see <parameter=x> here",
        "x <function=read> y",
        "a </parameter> b\n\n",
        f"Like this:\n{BLOCK}\nas you see",
        f"Like this:\n{BLOCK}",
        f"{BLOCK}\n\nor\n{BLOCK}",
        "<function=read>\n<parameter=path>\n/y\n</parameter>\n</function>\nend",
        "</tool_call>\n<tool_call>\n",
        "a line\n<function=read> that opens nothing",
    ],
)
def test_value_is_kept(value: str, then: str) -> None:
    text = call("write", ("path", "/a"), ("mode", "fast"), ("content", value))
    expected = [("write", {"path": "/a", "mode": "fast", "content": value})]
    expected += [("read", {"path": "/b"})] * bool(then)
    for message in messages(text + then):
        assert message.arguments == expected
        assert message.content == ""
