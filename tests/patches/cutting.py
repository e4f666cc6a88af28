# SPDX-License-Identifier: Apache-2.0
"""Outputs that end within a call, for the proofs of cut-calls (E10)."""

import json
from typing import Any

from conformance.reading import Reading
from harness import ask, call, faults

WIDTHS = (None, 1, 3, 100_000)
#: How an output ended: what the engine says, and the stop string.
ENDS = {
    "max_tokens": ("length", None),
    "stop string": ("stop", "\nObservation:"),
    "abort": ("abort", None),
}
READ = call("read", ("path", "/a"))
WHOLE = READ + "\n"
OPEN = (
    "<tool_call>\n<function=write>\n<parameter=path>\n/b\n</parameter>\n"
    "<parameter=content>\nrm -rf data"
)
SENT = ['{"path": "/a"}', '{"path": "/b", "content": "rm -rf data']

USER = {"role": "user", "content": "hello"}
#: A cut call, as the surfaces that send it do.
FUNCTION = {"name": "write", "arguments": SENT[1]}


def cut(output: str, width: int | None, end: str, **options: Any) -> Reading:
    """What a client reads of an output that was cut."""
    finish, stop = ENDS[end]
    return ask(output, width, end=finish, stop=stop, **options)


def texts(reading: Reading) -> list[str]:
    """The arguments of its calls as they were sent."""
    return [one.text or json.dumps(one.parsed) for one in reading.calls]


def read_open_call(surface: str, end: str, width: int | None) -> Reading:
    """What a client reads of a whole call and an open one, which stays open."""
    reading = cut(WHOLE + OPEN, width, end, surface=surface)
    # An object has no place for a call that is cut: it is left out.
    assert texts(reading) == SENT[: 1 if reading.omits_cut else 2]
    assert {one.partition(":")[0] for one in faults(reading)} <= {"valid-json"}
    return reading


def read_first_call(surface: str, width: int | None) -> None:
    """A request for one call has the first one whole, though the second is cut."""
    options: dict[str, Any] = {"surface": surface, "parallel_tool_calls": False}
    reading = cut(WHOLE + OPEN, width, "stop string", **options)
    assert texts(reading) == SENT[:1]
    assert reading.calls[0].status in (None, "completed")
    assert reading.finish == "tool_calls"


def read_closed_call(surface: str, tag: str, width: int | None) -> None:
    """A stop string that closes the call ends it."""
    reading = ask(READ[: READ.index(tag)], width, surface=surface, stop=tag)
    assert [(one.name, one.parsed) for one in reading.calls] == [
        ("read", {"path": "/a"})
    ]
    assert (reading.content, reading.finish) == ("", "tool_calls")


def takes_back(surface: str, **history: Any) -> None:
    """The next turn takes a cut call back."""
    reading = ask("Fine.", surface=surface, **history)
    assert (reading.broken, reading.content) == ([], "Fine.")
