# SPDX-License-Identifier: Apache-2.0
"""``python -m grammars.worker``: one release's answers, with its tree on the path.

Prints a JSON object: kind of request or of schema → counts.
"""

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from conformance import case as suite
from conformance import tokens
from conformance.case import STARTS, Case, Run, Tool
from conformance.corpora import load
from conformance.host.engine import MODEL, Server
from conformance.surfaces import surfaces
from grammars import kinds, schemas
from grammars.manager import Manager, Recorder, admits, all_admitted
from judges.entries import Template
from judges.entries import load as bfcl

DRAFTS = (0, 1, 2, 3, 4, 5)
#: Cases of each corpus of ordinary outputs, and of those that quote calls.
SAMPLE = 6
#: Of BFCL's requests, each so many.
BFCL_STEP = 20
ORDINARY = ("corpora/ordinary*", "corpora/real-outputs", "corpora/canitoolcall")
QUOTING = ("corpora/embeddings*", "corpora/fragments*")
#: Random walks of each schema's grammar.
WALKS = 25
#: Tokens of a walk, before it ends its value where it can.
LENGTHS = (1, 2, 3, 5, 8, 14)
_STEPS = 60
_CALL_END = "</function>\n</tool_call>"
_PIECES = [*"abcxyt123-05.eE+\"{}[]:,'\\ \n_<>/", "null", "true", "false", "None"]
_PIECES += ["True", "two", "</", " a", "\n\n", ">\n", "value", "parameter"]
SURFACES = surfaces()


RUNNER = asyncio.Runner()


@cache
def application(reasoning: str) -> tuple[Server, Recorder]:
    server = Server(RUNNER, reasoning)
    return server, Recorder(server.app)


@cache
def manager_of(reasoning: str, k: int) -> Manager:
    return Manager(application(reasoning)[1].config, k)


def ask(reasoning: str, surface: str, body: Any, output: str) -> Any:
    """What a client reads of an output, not streamed, and the engine's request.

    Both are None if the request is refused.
    """
    server, recorder = application(reasoning)
    recorder.request = None
    answer, _ = server.said(SURFACES[surface].PATH, body, output)
    if answer.status_code != 200:
        return None, None
    return SURFACES[surface].read_full(answer.content), recorder.request


def questions(wanted: Callable[[Case], bool], names: Any) -> Iterator[Case]:
    """Cases of the suite and of corpora, whose request is the suite's own."""
    for case in [*suite.load(), *load(names, SAMPLE)]:
        whole = case.end == "stop" and not (case.ordinary_tags or case.drop_tokens)
        if whole and case.tools and not case.request and wanted(case):
            yield case


def _quotes(case: Case) -> bool:
    """Whether an output that is read in one way holds more calls than it makes."""
    calls = case.expected.calls
    is_one = case.class_ != "implementation-defined" and not any(c.cut for c in calls)
    return is_one and case.output.count("<function=") > len(calls)


def outputs(kind: str, cases: list[Case]) -> Iterator[tuple[Case, str, Run, Any, Any]]:
    """Cases that a model may say to a kind of request: with surface and run, the body,
    and what the engine gets of it.
    """
    for case in cases:
        if not kinds.means(kind, case):
            continue
        for surface in SURFACES:
            for start in ("plain", "thought"):
                if kinds.asks(kind, surface) and start in case.starts:
                    body = body_of(kind, case, surface, start)
                    _, request = ask(STARTS[start].reasoning, surface, body, "x")
                    yield case, surface, case.run(start), body, request


def body_of(kind: str, case: Case, surface: str, start: str) -> Any:
    body = SURFACES[surface].request(case, STARTS[start], stream=False, model=MODEL)
    return kinds.change(body, kind, surface, case)


def admitted(kind: str, cases: list[Case], found: Counter[str]) -> None:
    """(a) and (b): is each output admitted, and the same at every k?"""
    rng = random.Random(kind)
    for number, (case, surface, run, _, request) in enumerate(outputs(kind, cases)):
        ids = tokens.ended(run.output)
        found["outputs"] += 1
        if request is None:
            found["refused requests"] += 1
            continue
        stops = {}
        # All surfaces make the same grammar: the others answer for one k each.
        every = DRAFTS if surface == "chat" else (0, DRAFTS[1 + number % 5])
        for k in every:
            manager = manager_of(run.start.reasoning, k)
            for draft in (None, _wrong(ids, k, rng)) if k else (None,):
                opened = manager.open(request)
                stops[k, draft is None] = opened and manager.walk(opened, ids, draft)
        found["admitted"] += stops[0, True] is None
        found["other at another k"] += len(set(stops.values())) > 1
        if (stop := stops[0, True]) and len(sys.argv) > 1:
            at = stop.at
            said = tokens.load().decode(ids[:at], skip_special_tokens=False)[-60:]
            where = f"{kind} {surface} {run.start.name} {case.name}"
            print(f"{where}: {said!r}", file=sys.stderr)


def _wrong(ids: list[int], k: int, rng: random.Random) -> Callable[[int], list[int]]:
    def draft(at: int) -> list[int]:
        drafted = ids[at : at + k]
        if drafted:
            drafted[rng.randrange(len(drafted))] = rng.choice(ids[:-1])
        return drafted

    return draft


def forced(kind: str, cases: list[Case], found: Counter[str]) -> None:
    """(c): where nothing but the end is admitted, does a quoted call run?"""
    for case, surface, run, body, request in outputs(kind, cases):
        manager = manager_of(run.start.reasoning, 0)
        if request is None or (opened := manager.open(request)) is None:
            found["free"] += 1
            continue
        ids = tokens.ended(run.output)
        stop = manager.walk(opened, ids)
        found["quoting"] += 1
        if stop is None or not stop.ends:
            continue
        found["forced ends"] += 1
        said = tokens.load().decode(ids[: stop.at], skip_special_tokens=False)
        reading, _ = ask(run.start.reasoning, surface, body, said)
        ran = [(call.name, call.parsed) for call in reading.calls] if reading else []
        meant = [(call.name, call.arguments) for call in case.expected.calls]
        found["ran or cut"] += any(call not in meant for call in ran)


def strict_request(tools: tuple[Tool, ...]) -> tuple[Any, Any]:
    """A required call of strict tools: as the engine gets it, and its body."""
    case = Case.model_construct(
        name="strict", tools=tools, tool_choice="required", request={}, stop_string=""
    )
    body = body_of("strict, required", case, "chat", "plain")
    return ask("none", "chat", body, "x")[1], body


def walks(name: str, schema: Any, found: Counter[str]) -> None:
    """(d): is what a random walk writes read back as arguments that are valid?"""
    import xgrammar

    rng, manager = random.Random(name), manager_of("none", 0)
    tool = Tool(name="f", parameters=schemas.parameters(m=schema))
    request, body = strict_request((tool,))
    if request is None or (opened := manager.open(request)) is None:
        found["refused requests"] += 1
        return
    pieces = sorted({tokens.encode(tokens.load(), piece)[0] for piece in _PIECES})
    bitmask = xgrammar.allocate_token_bitmask(1, 151_936)
    grammar = opened.structured_output_request.grammar
    for _ in range(WALKS):
        matcher = grammar.matcher.fork()
        said = "<tool_call>\n<function=f>\n<parameter=m>"
        if not matcher.accept_string(said):
            found["no beginning"] += 1
            return
        length = rng.choice(LENGTHS)
        tail = ""
        for step in range(_STEPS):
            if _CALL_END in said:  # the walk has ended the call by itself
                break
            if step >= length and (tail := _tail(matcher)):
                break
            matcher.fill_next_token_bitmask(bitmask, 0)
            row = bitmask[0].numpy()
            allowed = [piece for piece in pieces if admits(row, piece)]
            token = rng.choice(allowed or all_admitted(row))
            matcher.accept_token(token)
            said += tokens.load().decode([token])
        else:
            tail = _tail(matcher)
        if not (tail or _CALL_END in said):
            found["unended"] += 1
            continue
        found["walks"] += 1
        reading, _ = ask("none", "chat", body, said + tail)
        calls = reading.calls if reading else []
        if len(calls) == 1 and kinds.valid(calls[0].parsed, tool.parameters):
            found["valid"] += 1
        elif len(sys.argv) > 1:
            print(f"{name}: {said + tail!r} {calls}", file=sys.stderr)


def _tail(matcher: Any) -> str:
    """What ends the value and the call here; empty if nothing does."""
    for end in ("\n</parameter>\n", "</parameter>\n"):
        tail = end + _CALL_END
        forked = matcher.fork()
        if forked.accept_string(tail) and forked.is_completed():
            return tail
    return ""


def cost(tools: Any, output: str, found: dict[str, Any]) -> None:
    """(e): milliseconds of CPU that a token's mask takes, of strict tools' calls."""
    request, _ = strict_request(tools)
    manager = manager_of("none", 0)
    found["requests"] = found.get("requests", 0) + 1
    if request is None or (opened := manager.open(request)) is None:
        found["refused requests"] = found.get("refused requests", 0) + 1
        return
    manager.seconds, manager.masks = 0.0, 0
    stop = manager.walk(opened, tokens.ended(output))
    found["refused"] = found.get("refused", 0) + (stop is not None)
    if stop and len(sys.argv) > 1:
        print(f"cost: {output!r} {stop}", file=sys.stderr)
    taken = round(1e3 * manager.seconds / manager.masks, 3)
    found["most ms a token"] = max(taken, found.get("most ms a token", 0))


def costs() -> dict[str, Any]:
    """Of some schemas, and of BFCL's with its published answers."""
    found: dict[str, Any] = {}
    import vllm

    examples = Path(vllm.__file__).parents[1] / "examples"
    template = Template(examples / "tool_chat_template_qwen3coder.jinja")
    tools: tuple[Tool, ...]
    for name, (schema, arguments) in schemas.MANY.items():
        tools = (Tool(name="f", parameters=schema),)
        output, row = template.output([("f", arguments)]), found.setdefault(name, {})
        cost(tools, output, row)
    with tempfile.TemporaryDirectory() as folder:
        entries, _ = bfcl(Path(folder))
    for entry in entries[::BFCL_STEP]:
        tools = tuple(Tool(**one) for one in entry.tools)
        if entry.calls and kinds.keeps(tools, entry.calls):
            row = found.setdefault("BFCL", {})
            cost(tools, template.output(entry.calls), row)
    return found


def main() -> None:
    ordinary = list(questions(lambda case: case.ordinary, ORDINARY))
    quoting = list(questions(_quotes, QUOTING))
    found: dict[str, Any] = {"requests": {}, "schemas": {}, "costs": {}}
    for kind in kinds.KINDS:
        row: Counter[str] = Counter()
        admitted(kind, ordinary, row)
        forced(kind, quoting, row)
        found["requests"][kind] = row
        print(kind, dict(row), file=sys.stderr)
    for name, schema in schemas.ONE.items():
        row = Counter()
        walks(name, schema, row)
        found["schemas"][name] = row
        print(name, dict(row), file=sys.stderr)
    found["costs"] = costs()
    print(found["costs"], file=sys.stderr)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
