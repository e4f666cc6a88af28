# SPDX-License-Identifier: Apache-2.0
"""Reads outputs through a release's own server application."""

import json
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from conformance.adapters import TreeAdapter
from conformance.corpora.case import Case, arguments
from conformance.corpora.reader import ReadCall, Reading, Value

SCHEDULES = ("full", "w1", *(f"mtp{k}#0" for k in range(1, 6)))
"""Not streamed, then at k = 0 to 5."""


def served(
    tree: Path,
    cases: Iterable[tuple[str, Case]],
    workers: int,
) -> Generator[tuple[str, dict[str, Reading]], None, None]:
    """Readings of named cases by schedule, in the order in which they come."""
    jobs = [_job(name, case) for name, case in cases]
    for result in TreeAdapter(tree, workers=workers).run(jobs):
        readings = result.get("readings")
        if readings is None:  # the host died
            yield result["name"], {"full": Reading(broken="the server died")}
        else:
            yield result["name"], {k: _reading(r) for k, r in readings.items()}


def _job(name: str, case: Case) -> dict[str, Any]:
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
        "schedules": SCHEDULES,
        "readings": True,
    }


_FATAL = ("http-status", "exception", "hang", "unreadable", "error-event")


def _reading(document: dict[str, Any]) -> Reading:
    """A client's reading in the terms of a reader's."""
    read = Reading(
        content=document["content"],
        reasoning=document["reasoning"],
        broken="; ".join(b for b in document["broken"] if b.startswith(_FATAL)),
    )
    for told in document["calls"]:
        call, text = ReadCall(told["name"]), told["text"]
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
