"""Reads outputs through a release's own server application."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from conformance import case as documents
from conformance.adapters import TreeAdapter
from conformance.corpora.case import Case, arguments
from conformance.corpora.reader import ReadCall, Reading, Value

SCHEDULES = ("full", "w1", *(f"mtp{k}#0" for k in range(1, 6)))
"""Not streamed, then at k = 0 to 5."""


def served(
    tree: Path,
    python: str,
    cases: Iterable[tuple[str, Case]],
    *,
    workers: int,
    ways: Sequence[str] = SCHEDULES,
) -> Generator[tuple[str, dict[str, Reading]], None, None]:
    """Readings of named cases by schedule, in the order in which they come."""
    jobs = [_job(name, case, ways) for name, case in cases]
    adapter = TreeAdapter(tree, python=python, workers=workers)
    for result in adapter.run(jobs):
        readings = result.get("readings")
        if readings is None:  # the host died
            yield result["name"], {"full": Reading(broken="the server died")}
        else:
            yield result["name"], {k: _reading(r) for k, r in readings.items()}


def _job(name: str, case: Case, ways: Sequence[str]) -> dict[str, Any]:
    """A case as the host takes it."""
    tools = [
        {"name": tool, "parameters": schema} for tool, schema in case.tools.items()
    ]
    calls = [{"name": c.name, "arguments": arguments(case, c)} for c in case.calls]
    document = {
        "description": "a case of a corpus",
        "class": "must",
        "source": "corpora",
        "tools": tools,
        "output": case.output,
        "end": "length" if case.cut else "stop",
        "expected": {
            "calls": calls,
            "finish_reason": (
                "length" if case.cut else "tool_calls" if calls else "stop"
            ),
        },
    }
    return {
        "name": name,
        "case": document,
        "surfaces": ["chat"],
        "starts": ["open" if case.in_reasoning else "closed"],
        "schedules": list(ways),
        "readings": True,
    }


async def readings(judges: dict[str, Any], surfaces: Any, job: Any) -> dict[str, Any]:
    """Inside the host: what a client reads of a case, by schedule."""
    from conformance import schedule

    case = documents.parse(job["case"], job["name"])
    (start,), (surface,) = job["starts"], job["surfaces"]
    judge, way = judges[documents.STARTS[start].reasoning], surfaces[surface]
    run = case.run(start)
    ids, texts = judge.pieces(run, case)
    found: dict[str, Any] = {}
    for name in job["schedules"]:
        stream = name != "full"
        count = len(ids)
        widths = schedule.named(name, count).widths if stream else (count,)
        script = judge.script(ids, texts, widths, case.end, case.stop_string)
        read = await judge.ask(way, case, run, script, stream=stream)
        found[name] = {
            "content": read.content,
            "reasoning": read.reasoning,
            "calls": [(call.name, call.text) for call in read.calls],
            "finish": read.finish,
            "broken": [b for b in read.broken if b.startswith(_FATAL)],
        }
    return {"name": case.name, "readings": found}


_FATAL = ("http-status", "exception", "hang", "unreadable", "error-event")


def _reading(document: dict[str, Any]) -> Reading:
    """A client's reading in the terms of a reader's."""
    read = Reading(
        content=document["content"],
        reasoning=document["reasoning"],
        broken="; ".join(document["broken"]),
    )
    for name, text in document["calls"]:
        call = ReadCall(name)
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            call.whole = True
            call.values = [Value(k, v, closed=True) for k, v in parsed.items()]
        else:
            call.open_text = text
        read.calls.append(call)
    return read
