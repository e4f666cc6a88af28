# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: Copyright contributors to the vLLM project
"""The grammar of calls in the Qwen3-Coder format, as QwenToolReader reads them.

The tag that xgrammar has for the format forbids what the chat template writes, a call
without arguments, and what a model may mean: a tag in a value or in the answer.  It
is made again here, of the same tools:

- A call of a strict tool has its schema's arguments, but a string any length:
  xgrammar's grammar of a bounded string takes any text for an enum, and takes longer
  for a token than a model does.  A list of which nothing is said has any items.  A
  value that is no JSON has one newline at each end, not any white space.  A pattern
  is searched for, where xgrammar takes it for the whole string, and what stands
  beside the properties counts as well.  A string of which nothing is said holds tags:
  it ends at a </parameter> that the next parameter or the call's end follows, but not
  within a call that it quotes.
- A call of another tool has its frame.  Only the first call that the request requires
  is told from text that quotes one.
- All else is text.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import regex as re
from xgrammar import StructuralTag
from xgrammar.structural_tag import (
    AnyTextFormat,
    ConstStringFormat,
    Format,
    JSONSchemaFormat,
    OptionalFormat,
    OrFormat,
    RegexFormat,
    SequenceFormat,
    StarFormat,
    TagFormat,
    TriggeredTagsFormat,
)

from vllm.tool_parsers.abstract_tool_parser import ToolParser

_FUNCTION = "<function="
_CALL = "<tool_call>\n"
_ENDS = ["\n</function>\n</tool_call>", "</function>\n</tool_call>"]
# White space behind the reasoning.  A release whose grammar begins behind the tag with
# which a call ends the reasoning has read <tool_call> already.
_BEFORE_CALL = r"[ \t\n]{0,16}(<tool_call>)?\n?"
_SPACE = r"[ \t\n]{0,256}"
_VALUE_END = "</parameter>"
# What no string holds, but in a call that it quotes.
_BREAKS = [
    f"{_VALUE_END}{space}{tag}"
    for space in ("", "\n", "\n\n")
    for tag in ("<parameter=", "</function>")
]
_QUOTES = ("<tool_call><function=", _CALL + _FUNCTION)
_LENGTHS = ("minLength", "maxLength")
# What holds schemas by name, and what holds no schema.
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_KEYS = ("properties", "patternProperties", "additionalProperties", "$ref")
_VALUES = ("enum", "const", "default", "examples")
# What a schema of parameters may say that stand one behind the other.
_DEFINITIONS = ("$defs", "definitions")
_NOTES = ("$schema", "$id", "title", "description", "strict")
_LISTED = {"type", "properties", "required", "additionalProperties"}
_LISTED |= {*_DEFINITIONS, *_NOTES}
_UNIONS = ("anyOf", "oneOf")
_BESIDE = ("allOf", *_UNIONS)
_MAX_ALTERNATIVES = 16
# A regular expression's escapes and classes, which are one part each.
_PART = re.compile(r"\\.|\[(?:\\.|[^\]\\])*+\]?|.", re.DOTALL)
# Parts that a tag could be taken for, and what may stand before a match.
_WILD = re.compile(r"\.|<|\\[DSW]|\[\^.*|\[.*[<DSW].*", re.DOTALL)
_BEFORE_MATCH = "([^<]|<[^/])*"
# What a schema may say that takes any text.
_NOTED = {"type", "default", "examples", *_NOTES, *_UNIONS}
_PYTHON = {"boolean": "True|False", "null": "None"}
_SCALARS = ("string", "integer", "number", "boolean", "null")


def reader_structural_tag(
    tag: StructuralTag, strict: Collection[str] | None = None
) -> StructuralTag:
    """Make xgrammar's tag of a request's tools the reader's.

    Args:
        tag: For ``auto``, ``required`` or a named tool.
        strict: Names of the tools that are strict, where the tag does not say it.

    """
    made = tag.format
    is_auto = isinstance(made, TriggeredTagsFormat) and not made.at_least_one
    tags = getattr(made, "tags", [made])  # of a named tool, the tag alone
    if not all(isinstance(one, TagFormat) for one in tags):
        return tag  # no tool can be called
    calls = [_call(one, strict) for one in tags]
    strict_calls = [one for one in calls if not isinstance(one.content, AnyTextFormat)]
    triggered = (strict_calls or calls) if is_auto else strict_calls
    text = _text(triggered)
    if is_auto:
        return StructuralTag(format=text)
    first = calls[0] if len(calls) == 1 else OrFormat(elements=calls)
    before = RegexFormat(pattern=_BEFORE_CALL)
    return StructuralTag(format=SequenceFormat(elements=[before, first, text]))


class ReaderTag(ToolParser):
    """Gives requests that QwenToolReader answers its grammar."""

    reads_whole_output = False

    def get_structural_tag(self, request: Any, **options: Any) -> StructuralTag | None:
        tag = super().get_structural_tag(request, **options)
        if tag is None or not self.reads_whole_output:
            return tag
        if "strict_level" in options:  # which the tag obeys
            return reader_structural_tag(tag)
        functions = [getattr(tool, "function", tool) for tool in request.tools]
        strict = {one.name for one in functions if getattr(one, "strict", None) is True}
        return reader_structural_tag(tag, strict)


def _call(tag: TagFormat, strict: Collection[str] | None) -> TagFormat:
    """A call of the tool that xgrammar's tag is for, from its ``<function=`` on."""
    begin = tag.begin[tag.begin.index(_FUNCTION) :]
    content = tag.content
    schema = content.json_schema
    name = begin[len(_FUNCTION) : begin.rindex(">")]
    if schema is True or (strict is not None and name not in strict):
        return TagFormat(begin=begin, content=AnyTextFormat(), end="</tool_call>")
    return TagFormat(begin=begin, content=_arguments(content), end=_ENDS)


def _arguments(content: JSONSchemaFormat) -> Format:
    """The parameters of a strict tool, in their order."""

    def of(schema: Any) -> JSONSchemaFormat:
        return content.model_copy(update={"json_schema": schema})

    schemas = _alternatives(content.json_schema)
    if len(schemas) > 1:
        return OrFormat(elements=[_arguments(of(one)) for one in schemas])
    schema, declared = _loosened(schemas[0], is_root=True), schemas[0]
    definitions = {key: schema[key] for key in _DEFINITIONS if key in schema}
    if not _is_listed(schema, definitions):
        return of(schema)
    space = RegexFormat(pattern=_SPACE)
    parameters: list[Format] = [space]
    for name, value in schema["properties"].items():
        one: Format
        is_scalar = _is_scalar(value, definitions)
        searched = _searched(declared["properties"].get(name)) if is_scalar else None
        if is_scalar and searched is None and _is_free(value):
            one = _tagged(f"<parameter={name}>")
        elif is_scalar:
            literal: Format = searched or of({**definitions, **value})
            if words := _words(value):
                literal = OrFormat(elements=[literal, RegexFormat(pattern=words)])
            exact = [RegexFormat(pattern="\n?"), literal]
            one = TagFormat(
                begin=f"<parameter={name}>",
                content=SequenceFormat(elements=exact),
                end=["\n" + _VALUE_END, _VALUE_END],
            )
        else:
            one = of({**schema, "properties": {name: value}, "required": [name]})
        one = SequenceFormat(elements=[one, space])
        is_required = name in schema.get("required", ())
        parameters.append(one if is_required else OptionalFormat(content=one))
    return SequenceFormat(elements=parameters)


def _alternatives(schema: Any) -> list[Any]:
    """Schemas that say with their properties what a schema says beside them.

    xgrammar leaves out either.  What cannot be said so is left out here.
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return [schema]
    alternatives = [{key: schema[key] for key in schema if key not in _BESIDE}]
    within = [schema["properties"], *(schema.get(key) for key in _BESIDE)]
    # Alternatives within alternatives would multiply.
    is_one = not _is_plain(alternatives[0]) or _has_alternatives(within)
    for key in () if is_one else _BESIDE:
        branches = schema.get(key)
        if not isinstance(branches, list) or len(branches) > _MAX_ALTERNATIVES:
            continue
        if not all(map(_is_plain, branches)):
            continue
        if key == "allOf":
            for branch in branches:
                alternatives = [_merged(one, branch) for one in alternatives]
        elif len(alternatives) * len(branches) <= _MAX_ALTERNATIVES and branches:
            alternatives = [_merged(one, by) for one in alternatives for by in branches]
    return alternatives


def _has_alternatives(schemas: list[Any]) -> bool:
    """Whether one of these schemas, or one within, says more than its properties."""
    left = schemas
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if "properties" in one and not one.keys().isdisjoint(_BESIDE):
                return True
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return False


def _is_plain(schema: Any) -> bool:
    """Whether a schema is a well-formed one of an object, with no more than a list."""
    if not isinstance(schema, dict) or not _LISTED.issuperset(schema):
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        schema.get("type", "object") == "object"
        and isinstance(properties, dict)
        and all(isinstance(one, dict) for one in properties.values())
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
        and isinstance(schema.get("additionalProperties", False), bool)
    )


def _merged(schema: dict[str, Any], branch: dict[str, Any]) -> dict[str, Any]:
    """A schema of what both take."""
    each = [one.get("properties", {}) for one in (schema, branch)]
    properties = {
        name: {**each[0].get(name, {}), **each[1].get(name, {})}
        for name in {**each[0], **each[1]}
    }
    for one, own in zip((schema, branch), each, strict=True):
        if one.get("additionalProperties") is False:
            properties = {name: properties[name] for name in properties if name in own}
    required = [*schema.get("required", ()), *branch.get("required", ())]
    required = [*dict.fromkeys(required)]
    return {**schema, "properties": properties, "required": required}


def _anchors(pattern: str) -> tuple[list[str], bool, bool] | None:
    """The parts between a pattern's anchors, and whether it has the two.

    None if it has anchors elsewhere.
    """
    parts = _PART.findall(pattern)
    begins, ends = parts[:1] == ["^"], len(parts) > 1 and parts[-1] == "$"
    core = parts[begins : len(parts) - ends]
    depth, is_split = 0, False
    for part in core:
        depth += (part == "(") - (part == ")")
        is_split = is_split or (part == "|" and not depth)
    is_other = "^" in core or "$" in core or (is_split and (begins or ends))
    return None if is_other else (core, begins, ends)


def _is_whole(pattern: Any) -> bool:
    """Whether a pattern is for the whole string, as xgrammar takes it."""
    anchors = _anchors(pattern) if isinstance(pattern, str) else None
    return not isinstance(pattern, str) or (anchors is not None and all(anchors[1:]))


def _searched(schema: Any) -> Format | None:
    """A string that has a match of its pattern, where xgrammar can say it."""
    if not isinstance(schema, dict) or schema.get("type") != "string":
        return None
    pattern = schema.get("pattern")
    is_alone = schema.keys() <= {"type", "pattern", "default", *_LENGTHS, *_NOTES}
    if not is_alone or not isinstance(pattern, str) or _is_whole(pattern):
        return None
    anchors = _anchors(pattern)
    if anchors is None or not anchors[0] or any(map(_WILD.fullmatch, anchors[0])):
        return None
    core, begins, ends = anchors
    before = "" if begins else _BEFORE_MATCH
    match = RegexFormat(pattern=f"{before}({''.join(core)})")
    rest = [] if ends else [AnyTextFormat()]
    return SequenceFormat(elements=[match, *rest])


def _is_listed(schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Whether a schema lists its parameters, says nothing else and is well formed."""
    properties = schema.get("properties")
    return (
        _LISTED.issuperset(schema)
        and not schema.get("additionalProperties")
        and isinstance(properties, dict)
        and bool(properties)
        and isinstance(schema.get("required", []), list)
        and all(isinstance(named, dict) for named in definitions.values())
    )


def _words(schema: dict[str, Any]) -> str:
    """What the chat template writes for values that JSON writes otherwise."""
    if "enum" in schema or "const" in schema:
        return ""
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = [_PYTHON[kind] for kind in kinds if kind in _PYTHON]
    for key in _UNIONS:
        words += filter(None, map(_words, schema.get(key, ())))
    return "|".join(words)


def _is_scalar(schema: Any, definitions: dict[str, Any]) -> bool:
    """Whether no value of a schema is written as JSON with an end of its own."""
    if not isinstance(schema, dict):
        return False
    if "$ref" in schema:
        _, _, name = str(schema["$ref"]).rpartition("/")
        named = {key: one for by in definitions.values() for key, one in by.items()}
        return _is_scalar(named.get(name), {})
    unions = [schema[key] for key in _UNIONS if key in schema]
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds = schema.get("type", [] if values or unions else ["object"])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not all(isinstance(each, list) for each in (*unions, values, kinds)):
        return False
    return (
        all(_is_scalar(one, definitions) for union in unions for one in union)
        and all(kind in _SCALARS for kind in kinds)
        and not any(isinstance(one, dict | list) for one in values)
    )


def _is_free(schema: dict[str, Any]) -> bool:
    """Whether any text is a value of a schema of scalars."""
    kinds = schema.get("type")
    if "string" in (kinds if isinstance(kinds, list) else [kinds]):
        return _NOTED.issuperset(schema)
    unions = [one for key in _UNIONS for one in schema.get(key, ())]
    return _NOTED.issuperset(schema) and any(map(_is_free, unions))


def _tagged(begin: str) -> Format:
    """A string that may hold tags, in its own."""
    text = AnyTextFormat(excludes=_BREAKS)
    calls = [
        TagFormat(begin=opening, content=AnyTextFormat(), end="</tool_call>")
        for opening in _QUOTES
    ]
    quoted = SequenceFormat(elements=[OrFormat(elements=calls), text])
    first, last = (ConstStringFormat(value=tag) for tag in (begin, _VALUE_END))
    return SequenceFormat(elements=[first, text, StarFormat(content=quoted), last])


def _text(calls: list[TagFormat]) -> AnyTextFormat | TriggeredTagsFormat:
    """Text in which an opening of these calls must become the whole call."""
    if not calls:
        return AnyTextFormat()
    tags = [one.model_copy(update={"begin": _CALL + one.begin}) for one in calls]
    triggers = [one.begin.removesuffix("\n") for one in tags]
    return TriggeredTagsFormat(triggers=triggers, tags=tags)


def _loosened(schema: Any, *, is_root: bool = False) -> Any:
    """A schema whose strings have any length, and lists and objects any items.

    xgrammar takes a list for an empty one if nothing is said of its items, and an
    object without properties likewise.
    """
    if isinstance(schema, list):
        return [_loosened(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    alternatives = _alternatives(schema)
    if len(alternatives) > 1:  # not of the root, which has one
        return {"anyOf": [_loosened(one) for one in alternatives]}
    kept: dict[str, Any] = {}
    for key, value in alternatives[0].items():
        if key in _BY_NAME and isinstance(value, dict):
            kept[key] = {name: _loosened(one) for name, one in value.items()}
        elif key in _VALUES:
            kept[key] = value
        elif key == "pattern" and not _is_whole(value):
            continue
        elif key not in _LENGTHS:
            kept[key] = _loosened(value)
    if _is_plain(kept) and kept.get("additionalProperties") is not False:
        for name in kept.get("required", ()) if "properties" in kept else ():
            kept["properties"].setdefault(name, {})
    names = kept.get("patternProperties")
    if isinstance(names, dict) and not all(map(_is_whole, names)):
        del kept["patternProperties"]
        kept["additionalProperties"] = {}
    if kept.get("type") == "array" and "prefixItems" not in kept:
        kept.setdefault("items", {})
    if kept.get("type") == "object" and not is_root and kept.keys().isdisjoint(_KEYS):
        kept["additionalProperties"] = {}
    return kept
