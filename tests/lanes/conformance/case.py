# SPDX-License-Identifier: Apache-2.0
"""The case format: data that says what a model said and what the client must read.

A case never depends on the code under test: ``expected`` is written by hand, or by the
writer that also wrote the output.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from patchset.errors import PatchsetError

CASES = Path(__file__).with_name("cases")

StartName = Literal["plain", "closed", "sealed", "thought", "open", "bare"]
FinishReason = Literal["stop", "tool_calls", "length"]

#: What is or looks like a tag.
_TAG = re.compile(r"</?(?:tool|func|para|think)")
_CLOSED = re.compile(r"</function>\s*(?:</tool_call>\s*)?\Z")
TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}

#: The reasoning that the start ``thought`` puts before an output.
THOUGHT = "Let me think.\n"
#: What stands between ``</think>`` and the output in the start ``thought``.
THOUGHT_GAP = "\n\n"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Start(_Strict):
    """An initial state: which reasoning parser the server has, and what the prompt
    ends with.
    """

    name: StartName
    reasoning: Literal["qwen3", "none"]
    prompt: Literal["none", "open", "closed"]
    enable_thinking: bool | None = None


#: ``closed``: the request switches thinking off and the prompt ends with an empty think
#: block; ``sealed``: the same prompt without the switch; ``thought``: the prompt opens
#: the reasoning and the output is preceded by a short one; ``open``: the prompt opens
#: the reasoning, the output is taken as it stands; ``bare``: the output itself opens
#: it.
STARTS: dict[str, Start] = {
    s.name: s
    for s in (
        Start(name="plain", reasoning="none", prompt="none"),
        Start(name="closed", reasoning="qwen3", prompt="closed", enable_thinking=False),
        Start(name="sealed", reasoning="qwen3", prompt="closed"),
        Start(name="thought", reasoning="qwen3", prompt="open"),
        Start(name="open", reasoning="qwen3", prompt="open"),
        Start(name="bare", reasoning="qwen3", prompt="none"),
    )
}


class Tool(_Strict):
    """A function the request declares; ``parameters`` is a JSON schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any]

    def is_plain(self, arguments: dict[str, Any]) -> bool:
        """Return whether each argument is declared with its own type alone."""
        schemas = self.parameters.get("properties", {})
        for name, value in arguments.items():
            schema = schemas.get(name, {})
            known = TYPES.get(str(schema.get("type")), ())
            if set(schema) - {"type", "description", "items"} or not isinstance(
                value, known
            ):
                return False
        return True


class Call(_Strict):
    """An expected call: its arguments, compared parsed, or the exact text of
    arguments that were cut.
    """

    def __init__(
        self, name: str, arguments: dict[str, Any] | None = None, **more: Any
    ) -> None:
        if arguments is not None:
            more["arguments"] = arguments
        super().__init__(**{"name": name, **more})

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    #: The argument text of a call that is cut: it is no JSON, and nothing presents the
    #: call as whole.
    argument_text: str | None = None
    #: The model had closed it when it was cut; what comes behind could still belong to
    #: it.
    closed: bool = False

    @model_validator(mode="after")
    def _says_one(self) -> Call:
        if self.argument_text is None:
            if "arguments" in self.model_fields_set:
                return self
            raise ValueError(
                "a call has `arguments` or, when it is cut, `argument_text`"
            )
        if self.arguments:
            raise ValueError(
                "a call that is cut has no `arguments` beside its `argument_text`"
            )
        try:
            json.loads(self.argument_text)
        except ValueError:
            return self
        raise ValueError("the argument text of a call that is cut is not valid JSON")

    def texts(self) -> dict[str, str]:
        """Return the arguments as a model writes them."""
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in self.arguments.items()
        }

    def rendered(self) -> str:
        text = f"<tool_call>\n<function={self.name}>\n"
        for name, value in self.texts().items():
            text += f"<parameter={name}>\n{value}\n</parameter>\n"
        return text + "</function>\n</tool_call>"

    @property
    def cut(self) -> bool:
        return self.argument_text is not None


class Expected(_Strict):
    """The normalised message. Absent and empty text are the same."""

    #: None, as for ``content``: several texts would do, none is compared.
    reasoning: str | None = ""
    content: str | None = ""
    calls: tuple[Call, ...] = ()
    #: Calls that the output only writes about: none of them may run.
    quoted: tuple[Call, ...] = ()
    #: Of an output that is cut or ended anywhere: how many of the calls, which are
    #: given as they would have become, are certainly whole, and how many may be. The
    #: next one may be missing, and is never whole.
    whole: tuple[int, int] | None = None
    #: White space of the texts is not compared.
    loose: bool = False
    #: None: not compared.
    finish_reason: FinishReason | None
    #: The tools that a client can run, if that is known.
    tools: tuple[Tool, ...] | None = None


class Run(_Strict):
    """A case from one start: exactly what the model says, and what must be read."""

    start: Start
    output: str
    expected: Expected


class Case(_Strict):
    """One behaviour. ``name`` is ``<group>/<file name>``."""

    name: str = ""
    #: What it shows.
    description: str = Field(min_length=8)
    #: ``must-not``: markup that is no call, or text that must stay;
    #: ``implementation-defined``: the format leaves it open, and a difference is no
    #: failure.
    class_: Literal["must", "must-not", "implementation-defined"] = Field(alias="class")
    #: Its thread (``#22975``), defect (``D3``) or rule (``format.md#HEADING``).
    source: str = Field(min_length=2)
    #: In a file, also the name of a list under the file's ``tools``; none: the request
    #: has none.
    tools: tuple[Tool, ...] = ()
    tool_choice: Literal["auto", "none", "required"] = "auto"
    #: Fields of the request, by surface; other surfaces are not asked. ``messages`` and
    #: ``input`` come before the question, any other field is put in place of the
    #: surface's own. A custom tool's call is expected as ``{"input": TEXT}``, a
    #: namespace's tool as ``NAMESPACE__NAME``.
    request: dict[Literal["chat", "responses", "messages"], dict[str, Any]] = {}
    #: The first release that knows what the request holds (``0.25.1``); older ones are
    #: not asked.
    since: str = ""
    starts: tuple[StartName, ...] = ("plain", "closed", "thought")
    #: White space before the output: ``call``: frame; ``text``: content.
    opens_with: Literal["text", "call"] = "text"
    #: What the model says, special tokens written out.
    output: str
    #: What the model says instead where the release constrains a required call to JSON,
    #: whatever the model's own format.
    output_as_json: str | None = None
    end: Literal["stop", "length", "stop-string", "stop-token"] = "stop"
    #: With the end ``stop-string``: the string of the request that ended the output;
    #: the output does not hold it.
    stop_string: str = ""
    #: With the end ``stop-token``: the text of the token among the request's
    #: ``stop_token_ids`` that ended the output, which does not hold it (not on
    #: ``/v1/messages``).
    stop_token: str = ""
    #: Tokens taken off the end of the output: the only way to cut inside a character.
    drop_tokens: int = Field(0, ge=0)
    #: The tags of calls and reasoning are spelled out in ordinary tokens.
    ordinary_tags: bool = False
    #: At one token a step at least this many deltas carry argument text (an argument
    #: may not arrive all at its end).
    min_argument_deltas: int = Field(0, ge=0)
    expected: Expected

    @model_validator(mode="after")
    def _agree(self) -> Case:
        calls, finish = self.expected.calls, self.expected.finish_reason
        whole = bool(calls) and not calls[-1].cut
        as_json = self.output_as_json is not None
        tools = self.tools or any("tools" in r for r in self.request.values())
        rules = {
            "a case needs a start": bool(self.starts),
            "the start `thought` brings its own reasoning: a case with reasoning "
            "lists `open` or `bare`": (
                "thought" not in self.starts or not self.expected.reasoning
            ),
            "an output cut by length finishes with `length`": (
                self.end != "length" or finish == "length"
            ),
            "an output that stopped finishes with `tool_calls` when its last call is "
            "whole, else with `stop`": (
                self.end != "stop" or not finish or (finish == "tool_calls") == whole
            ),
            "only the last call can be cut": not any(c.cut for c in calls[:-1]),
            "the end `stop-string`, and no other, has a `stop_string`": (
                (self.end == "stop-string") == bool(self.stop_string)
            ),
            "the end `stop-token`, and no other, has a `stop_token`": (
                (self.end == "stop-token") == bool(self.stop_token)
            ),
            "an output that a stop string or token cut finishes with `stop`": (
                self.end not in ("stop-string", "stop-token")
                or finish == "stop"
                or (finish == "tool_calls" and whole)
            ),
            "a required call, and no other, has an output for releases that constrain "
            "it to JSON": as_json == (self.tool_choice == "required"),
            "output constrained to JSON has no reasoning before it": (
                not as_json or "thought" not in self.starts
            ),
            "no call to open with": self.opens_with != "call" or bool(calls),
            "a request without tools has no calls": not calls or bool(tools),
        }
        for rule, holds in rules.items():
            if not holds:
                raise ValueError(rule)
        return self

    @property
    def ordinary(self) -> bool:
        """Whether it is traffic as every day brings it.

        The model ended an output that is what the chat template writes of the expected
        message: no other tag in it, tools and parameters declared, schemas plain.
        """
        rest = self.output
        for call in self.expected.calls:
            tool = next((t for t in self.tools if t.name == call.name), None)
            if tool is None or call.cut or not tool.is_plain(call.arguments):
                return False
            rest = rest.replace(call.rendered(), "", 1)
        if self.expected.reasoning:
            rest = rest.removeprefix("<think>").replace("</think>", "", 1)
        return (
            self.end == "stop"
            and self.class_ != "implementation-defined"
            and not (self.ordinary_tags or _TAG.search(rest))
            and not any(_TAG.search(str(c.arguments)) for c in self.expected.calls)
        )

    def run(self, start: str, *, json_calls: bool = False) -> Run:
        """Return the case from the named start; ``json_calls``: the release constrains
        required calls to JSON.
        """
        state = STARTS[start]
        expected = self.expected
        calls = expected.calls
        if calls and calls[-1].cut:
            closed = bool(_CLOSED.search(self.output))
            calls = (*calls[:-1], calls[-1].model_copy(update={"closed": closed}))
        tools = None if self.request else self.tools
        expected = expected.model_copy(update={"calls": calls, "tools": tools})
        if start != "thought":
            output = (json_calls and self.output_as_json) or self.output
            return Run(start=state, output=output, expected=expected)
        gap = THOUGHT_GAP if self.opens_with == "text" else ""
        content = expected.content
        update = {
            "reasoning": THOUGHT,
            "content": None if content is None else gap + content,
        }
        expected = expected.model_copy(update=update)
        return Run(
            start=state,
            output=f"{THOUGHT}</think>{THOUGHT_GAP}{self.output}",
            expected=expected,
        )


def parse(document: dict[str, Any], name: str) -> Case:
    """Return a case from its JSON document; raises ``pydantic.ValidationError``."""
    return Case.model_validate({**document, "name": name})


def document(case: Case) -> dict[str, Any]:
    """Return a case as JSON, its name apart: what ``parse`` takes."""
    return case.model_dump(mode="json", by_alias=True, exclude={"name"})


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; ValueError if it has a key twice, as a case copied for
    another.
    """
    counts = Counter(key for key, _ in pairs)
    if twice := [key for key, count in counts.items() if count > 1]:
        raise ValueError(f"{twice[0]!r} is given twice")
    return dict(pairs)


def read(path: Path) -> Iterator[Case]:
    """Yield the cases of a group's file; a file of another kind is one case."""
    name = path.stem
    try:
        group = json.loads(path.read_text("utf-8"), object_pairs_hook=unique)
        if "cases" not in group:
            yield parse(group, name)
            return
        for key, case in group["cases"].items():
            name = f"{path.stem}/{key}"
            if isinstance(tools := case.get("tools"), str):
                case = {**case, "tools": group["tools"][tools]}
            yield parse(case, name)
    except ValidationError as error:
        faults = (
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors()
        )
        raise PatchsetError(
            f"{path}: the case {name} is none: {'; '.join(faults)}",
            "write it as tests/lanes/conformance/case.py says",
        ) from error
    except (OSError, ValueError, KeyError) as error:
        raise PatchsetError(
            f"{path} cannot be read as cases: {error}", "mend the file"
        ) from error


def named(case: Case, globs: Iterable[str]) -> bool:
    """Return whether a case, or its group, has one of these names."""
    return any(
        case.name == g or fnmatch(case.name, g) or fnmatch(case.name, f"{g}/*")
        for g in globs
    )


def files(patterns: Iterable[str]) -> list[str]:
    return [
        each for each in patterns if each.endswith(".json") and Path(each).is_file()
    ]


def load(patterns: Iterable[str] = (), root: Path = CASES) -> Iterator[Case]:
    """Yield all cases in the order of their names, or those chosen.

    Args:
        patterns: Names, groups, globs of names; and files to look in instead.
    """
    patterns = list(patterns)
    given = files(patterns)
    globs = [each for each in patterns if each not in given]
    for path in [*map(Path, given)] or sorted(root.glob("*.json")):
        for case in read(path):
            if not globs or named(case, globs):
                yield case
