# SPDX-License-Identifier: Apache-2.0
"""Proof of sse-line-separators: a client that splits an event stream at every line
separator of Unicode loses nothing.
"""

import json
from typing import Any

import pytest

from application import application
from harness import SURFACES, TOOLS, body_of, call

#: All that ``str.splitlines`` splits at and JSON does not escape, beside text that
#: stays as it is.
TEXT = "one\x85two\u2028three\u2029four é \U0001f600"
STEPS = ("</think>\n\n", TEXT, "\n\n", call("write", ("path", TEXT), ("content", "x")))

ASKED = {
    surface.PATH: body_of(name, "open", True, TOOLS)
    for name, surface in SURFACES.items()
}


def _texts(found: Any) -> str:
    """All strings of a document, one behind the other."""
    if isinstance(found, dict):
        return "".join(_texts(value) for value in found.values())
    if isinstance(found, list):
        return "".join(_texts(value) for value in found)
    return found if isinstance(found, str) else ""


@pytest.mark.parametrize("path", ASKED)
def test_every_line_of_the_stream_is_whole(path: str) -> None:
    status, answer = application().post(path, ASKED[path], *STEPS)
    assert status == 200, answer
    found = ""
    for line in answer.splitlines():
        kind, _, value = line.partition(":")
        assert kind in ("", "event", "data"), f"half an event: {line!r}"
        if kind == "data" and value.strip() != "[DONE]":
            assert value.endswith("}"), f"half an event: {line!r}"
            found += _texts(json.loads(value))
    # In the content; in the arguments, JSON within JSON, the same characters stand
    # again.
    assert TEXT in found
    assert found.count("one\x85two\u2028three\u2029four") >= 2


@pytest.mark.parametrize("path", ASKED)
def test_other_text_goes_out_as_it_was(path: str) -> None:
    _, answer = application().post(
        path, ASKED[path], "</think>\n\n", "é \U0001f600\x7f"
    )
    assert "é \U0001f600\x7f" in answer
