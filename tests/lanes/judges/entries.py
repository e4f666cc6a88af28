# SPDX-License-Identifier: Apache-2.0
"""The Berkeley Function Calling Leaderboard's entries with a published answer, out
of the package ``bfcl-eval``.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jinja2
import jsonschema

#: The single-turn categories. Of the others no answer is published as calls.
CATEGORIES = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)

Calls = list[tuple[str, dict[str, Any]]]


def bfcl(folder: Path) -> tuple[ModuleType, ModuleType]:
    """Return BFCL's modules that load entries and that check calls; ``folder`` is for
    the folders that it makes when imported.
    """
    os.environ["BFCL_PROJECT_ROOT"] = str(folder)
    # The leaderboard's table of models imports every vendor's client. The checker reads
    # one field of a model's row: whether the model writes "_" for the "." of a name,
    # which Qwen's format has no need of.
    models = ModuleType("bfcl_eval.constants.model_config")
    rows = {"qwen": SimpleNamespace(underscore_to_dot=False)}
    models.MODEL_CONFIG_MAPPING = rows  # type: ignore[attr-defined]
    sys.modules[models.__name__] = models
    import bfcl_eval.eval_checker.ast_eval.ast_checker as checker
    import bfcl_eval.utils as utils

    return utils, checker


@dataclass(frozen=True)
class Entry:
    name: str
    category: str
    functions: list[dict[str, Any]]
    truth: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    #: None where BFCL's checker refuses every answer that BFCL publishes for it, or an
    #: answer is not of its own schema.
    calls: Calls | None = None

    def right(self, checker: Any, calls: Calls) -> bool:
        from bfcl_eval.constants.enums import Language

        language = {
            "simple_java": Language.JAVA,
            "simple_javascript": Language.JAVASCRIPT,
        }
        said = checker.ast_checker(
            self.functions,
            [{name: arguments} for name, arguments in calls],
            self.truth,
            language.get(self.category, Language.PYTHON),
            self.category,
            "qwen",
        )
        return bool(said["valid"])


def load(folder: Path) -> tuple[list[Entry], Any]:
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI

    utils, checker = bfcl(folder)
    entries = []
    for category in CATEGORIES:
        raw = utils.load_dataset_entry(category, include_language_specific_hint=False)
        documents = utils.load_dataset_entry(category)
        for plain, hinted, truth in zip(
            raw, documents, utils.load_ground_truth_entry(category), strict=True
        ):
            tools = [
                {
                    "name": one["name"],
                    "description": one["description"],
                    "parameters": _schema(one["parameters"], GORILLA_TO_OPENAPI),
                }
                for one in hinted["function"]
            ]
            entry = Entry(
                plain["id"], category, plain["function"], truth["ground_truth"], tools
            )
            possible = (
                calls
                for calls in _answers(entry)
                if _fits(entry, calls) and entry.right(checker, calls)
            )
            entries.append(replace(entry, calls=next(possible, None)))
    return entries, checker


def _answers(entry: Entry) -> Iterator[Calls]:
    """Yield the published answer: the first value of each parameter, with optional ones
    and without, then the last value.
    """
    for leave_out, last in ((False, False), (True, False), (False, True), (True, True)):
        calls = []
        for call in entry.truth:
            ((name, values),) = call.items()
            named = (one for one in entry.functions if one["name"] == name)
            function = next(named, entry.functions[0])
            properties, arguments = function["parameters"]["properties"], {}
            for key, choices in values.items():
                given = [choice for choice in choices if choice != ""]
                if given and not (leave_out and "" in choices):
                    arguments[key] = _value(
                        given[-1 if last else 0],
                        properties.get(key, {}),
                        entry.category,
                    )
            calls.append((name, arguments))
        yield calls


def _value(choice: Any, schema: dict[str, Any], category: str) -> Any:
    """Return a published value.

    In a dict each key has a list of choices; values of Java and JavaScript are text of
    that language.
    """
    if schema.get("type") in ("dict", "HashMap") and isinstance(choice, dict):
        choice = _chosen(choice)
    elif isinstance(choice, list) and schema.get("items", {}).get("type") == "dict":
        choice = [_chosen(one) if isinstance(one, dict) else one for one in choice]
    if category == "simple_java" and schema.get("type") not in ("String", "any"):
        return _java(choice, schema)
    if category == "simple_javascript" and not isinstance(choice, str):
        return (
            f"{choice}n"
            if schema.get("type") == "Bigint"
            else json.dumps(choice, ensure_ascii=False)
        )
    return choice


def _chosen(choices: dict[str, Any]) -> dict[str, Any]:
    return {
        key: next(value for value in values if value != "")
        if isinstance(values, list)
        else values
        for key, values in choices.items()
        if not isinstance(values, list) or any(value != "" for value in values)
    }


def _java(value: Any, schema: dict[str, Any]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        is_array = schema.get("type") == "Array"
        written = _java if is_array else _quoted  # BFCL leaves quotes around the former
        inner = ", ".join(written(one, schema.get("items", {})) for one in value)
        if is_array:
            return f"new Object[]{{{inner}}}"
        return f"new ArrayList<>({f'Arrays.asList({inner})' if value else ''})"
    if isinstance(value, dict):
        puts = " ".join(
            f'put("{key}", {_quoted(element, {})});' for key, element in value.items()
        )
        return f"new HashMap<>() {{{{ {puts} }}}}"
    if isinstance(value, str):
        return value
    return f"{value}{ {'long': 'L', 'float': 'f'}.get(schema.get('type', ''), '') }"


def _quoted(value: Any, schema: dict[str, Any]) -> str:
    return f'"{value}"' if isinstance(value, str) else _java(value, schema)


def _schema(schema: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return BFCL's schema as a JSON schema: its type names replaced, in properties and
    items alike.
    """
    out = dict(schema)
    if isinstance(kind := schema.get("type"), str):
        out["type"] = names.get(kind, "string")
    if isinstance(items := schema.get("items"), dict):
        out["items"] = _schema(items, names)
    if isinstance(properties := schema.get("properties"), dict):
        out["properties"] = {
            key: _schema(one, names) for key, one in properties.items()
        }
    for field in ("optional", "required", "default"):
        if not isinstance(schema.get(field), list):
            out.pop(field, None)
    return out


def _fits(entry: Entry, calls: Calls) -> bool:
    """Return whether each argument is of the type that its tool declares.

    Another cannot be told from text: the format has no types.
    """
    declared = {
        tool["name"]: tool["parameters"].get("properties", {}) for tool in entry.tools
    }
    schema_of = jsonschema.Draft202012Validator
    return all(
        key in declared.get(name, {}) and schema_of(declared[name][key]).is_valid(value)
        for name, arguments in calls
        for key, value in arguments.items()
    )


class Template:
    """Writes calls as Qwen3-Coder's chat template does."""

    def __init__(self, file: Path) -> None:
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        # As the renderers of chat templates have it: no HTML escapes.
        environment.filters["tojson"] = lambda value, **_: json.dumps(
            value, ensure_ascii=False
        )
        self._template = environment.from_string(file.read_text(encoding="utf-8"))

    def output(self, calls: Calls) -> str:
        said = [
            {"function": {"name": name, "arguments": arguments}}
            for name, arguments in calls
        ]
        messages = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "", "tool_calls": said},
        ]
        text: str = self._template.render(messages=messages)
        return text.rpartition("<|im_start|>assistant\n")[2].removesuffix(
            "<|im_end|>\n"
        )
