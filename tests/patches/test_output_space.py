# SPDX-License-Identifier: Apache-2.0
"""Proof of output-space: response_format beside a strict tool, where white space behind
the reasoning leaves the model a call alone.
"""

from typing import Any

import pytest

import grammar
import harness
from harness import THINKING, call, tool

PATHS = harness.strings("path") | {"additionalProperties": False}
STRICT = [tool("read", PATHS, strict=True)]
NUMBER = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OBJECT: dict[str, Any] = {"type": "json_object"}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": NUMBER}}


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("space", ["", "\n", "\n\n"])
@pytest.mark.parametrize("form", [OBJECT, SCHEMA], ids=["object", "schema"])
def test_json_behind_white_space(form: dict[str, Any], space: str, k: int) -> None:
    for start, options in (("T</think>", THINKING), ("", {})):
        asked: Any = {"tools": STRICT, "response_format": form, **options}
        for said in ('{"a": 1}', call("read", ("path", "/a"))):
            assert grammar.stop(start + space + said, k, **asked) is None, said
        assert grammar.stop(f"{start}{space}Hi", k, **asked) is not None
