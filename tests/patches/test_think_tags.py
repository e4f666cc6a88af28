# SPDX-License-Identifier: Apache-2.0
"""Think tags are frame until the answer has text; then they reach the client."""

import pytest

from harness import Message, call, messages

READ = call("read", ("path", "/a"))
VALUE = "a </think> b <think> c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Easy.</think>I close with <think>.",
            Message("Easy.", "I close with <think>."),
        ),
        ("Easy.</think>See </think> here.", Message("Easy.", "See </think> here.")),
        ("a</think>\n<think>b</think>\ndone", Message("a\nb", "\ndone")),
        (
            "Hm.</think>" + call("read", ("path", VALUE)),
            Message("Hm.", "", [("read", f'{{"path": "{VALUE}"}}')]),
        ),
        (
            "a</think><think>b</think>" + READ,
            Message("ab", "", [("read", '{"path": "/a"}')]),
        ),
    ],
)
def test_think_tags(text: str, expected: Message) -> None:
    for message in messages(text, reasoning=True):
        assert message == expected
