# SPDX-License-Identifier: Apache-2.0
"""Proof of tool-schema-names: what the reader asks about a tool's schema, by the names of later releases."""

from __future__ import annotations

from openai.types.responses import FunctionTool


def test_function_tool() -> None:
    from vllm.tool_parsers.utils import iter_response_function_tool_info

    schema = {"type": "object"}
    tool = FunctionTool(type="function", name="f", parameters=schema, strict=False)
    assert iter_response_function_tool_info(tool) == [("f", schema)]


def test_other_tool() -> None:
    from openai.types.responses.tool import CodeInterpreter
    from vllm.tool_parsers.utils import iter_response_function_tool_info

    tool = CodeInterpreter(type="code_interpreter", container="c")
    assert iter_response_function_tool_info(tool) == []


def test_types() -> None:
    from vllm.tool_parsers.utils import extract_types_from_schema

    assert set(extract_types_from_schema({"type": "string"})) == {"string"}
    assert set(extract_types_from_schema({"type": ["string", "null"]})) == {"string", "null"}
