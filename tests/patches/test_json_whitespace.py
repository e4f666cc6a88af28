# SPDX-License-Identifier: Apache-2.0
"""Proof of json-whitespace: the grammar of JSON ends white space between two tokens."""

import functools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.host.engine import use_cpu_platform
from harness import wrapped_tokenizer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {}},
    "required": ["a"],
}


@functools.cache
def backend(disable: bool) -> Any:
    """The release's own, for a configuration that has what it asks for."""
    use_cpu_platform()
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

    options = SimpleNamespace(disable_any_whitespace=disable)
    config = SimpleNamespace(
        structured_outputs_config=options, speculative_config=None, model_config=None
    )
    tokenizer = wrapped_tokenizer()
    return XgrammarBackend(config, tokenizer, len(tokenizer))


def takes(text: str, schema: Any = SCHEMA, *, disable: bool = False) -> bool:
    """Whether the grammar of a schema, or of any object, takes a text."""
    import xgrammar
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions

    kind = (
        StructuredOutputOptions.JSON if schema else StructuredOutputOptions.JSON_OBJECT
    )
    made = backend(disable).compile_grammar(kind, json.dumps(schema))
    matcher = xgrammar.GrammarMatcher(made.ctx, terminate_without_stop_token=True)
    return bool(matcher.accept_string(text))


@pytest.mark.parametrize("schema", [SCHEMA, None])
@pytest.mark.parametrize("space", [" ", "\t", "\n"])
@pytest.mark.parametrize("before", ["{", '{"a":', '{"a": "x"', '{"a": "x",'])
def test_white_space_ends(schema: Any, space: str, before: str) -> None:
    assert takes(before + 256 * space, schema)
    assert not takes(before + 257 * space, schema)


@pytest.mark.parametrize("indent", [None, 1, 2, 4, 8, "\t"])
@pytest.mark.parametrize("depth", [1, 10, 30])
def test_indented_json_is_taken(indent: int | str | None, depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = {"k": [value]} if depth < 30 else {"k": value}
    text = json.dumps({"a": "x", "b": value}, indent=indent)
    assert takes(text, None)
    assert takes(text)


def test_white_space_in_a_string_has_no_bound() -> None:
    assert takes('{"a": "' + 3000 * " " + '"}')


def test_an_option_that_allows_none_is_kept() -> None:
    # Releases that do not name their separators have one space behind a colon.
    assert takes('{"a":"x"}', disable=True) != takes('{"a": "x"}', disable=True)
    for text in ('{  "a":"x"}', '{  "a": "x"}'):
        assert not takes(text, disable=True)


@pytest.mark.parametrize("params", [{"json": SCHEMA}, {"json_object": True}])
def test_it_ends_where_tools_are_joined(params: dict[str, Any]) -> None:
    use_cpu_platform()
    import xgrammar
    from vllm.parser import abstract_parser
    from vllm.sampling_params import StructuredOutputsParams

    joined = getattr(abstract_parser, "structured_outputs_to_format", None)
    if joined is None:  # before v0.31.0
        return
    tag = xgrammar.StructuralTag(format=joined(StructuredOutputsParams(**params)))
    grammar = xgrammar.Grammar.from_structural_tag(tag)
    info = xgrammar.TokenizerInfo.from_huggingface(wrapped_tokenizer())
    made = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(grammar)
    for count, is_taken in ((256, True), (257, False)):
        matcher = xgrammar.GrammarMatcher(made, terminate_without_stop_token=True)
        assert matcher.accept_string("{" + count * "\n") == is_taken
