# SPDX-License-Identifier: Apache-2.0
"""What a client reads from a response, whatever the surface.

The message is the one that OpenAI's or Anthropic's own SDK assembles; what is wrong in
the form of the response, whether an SDK minds or not, stands beside it.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class ReadCall:
    """A call as it arrived.

    ``text`` is the JSON text, or None where the surface gives an object.
    """

    name: str = ""
    id: str = ""
    text: str | None = ""
    parsed: Any = None
    #: The status of its item, where the surface gives one.
    status: str | None = None
    #: What Anthropic's SDK makes of JSON that is not closed.
    opened: Any = None

    @property
    def given(self) -> Any:
        """The arguments that a client has of it; None if it can read none."""
        return self.parsed if self.opened is None else self.opened


@dataclass
class Reading:
    """A response, normalised, with what was wrong in its form."""

    reasoning: str = ""
    content: str = ""
    calls: list[ReadCall] = field(default_factory=list)
    finish: str | None = None
    broken: list[str] = field(default_factory=list)
    #: Deltas that carried argument text.
    pieces: int = 0
    #: The stop string that ended the output, empty for none; None where the surface
    #: does not tell.
    stopped_by: str | None = None
    #: The form of the response has no place for a call that is cut.
    omits_cut: bool = False
    #: Why there is no message: an error, or a stream that no SDK can assemble.
    failed: str = ""

    def breaks(self, invariant: str, detail: str = "") -> None:
        """Record a broken invariant, each kind at most three times (a bad stream
        breaks one at every delta).
        """
        if sum(b.startswith(invariant) for b in self.broken) < 3:
            self.broken.append(f"{invariant}: {detail}" if detail else invariant)

    def fails(self, invariant: str, detail: str = "") -> None:
        """Record what leaves a client without a message."""
        self.breaks(invariant, detail)
        self.failed = self.failed or f"{invariant}: {detail}"

    def close(self) -> Self:
        """Parse the calls' argument texts and check what must hold at the end of
        every response; returns the reading.
        """
        ids = [c.id for c in self.calls]
        if len(set(ids)) != len(ids):
            self.breaks("call-id", "two calls share an id")
        for i, call in enumerate(self.calls):
            if not call.name:
                self.breaks("name-first", f"call {i} has no name")
            if not call.id:
                self.breaks("call-id", f"call {i} has no id")
            if call.text is not None:
                try:
                    call.parsed = json.loads(call.text, parse_constant=_no_constant)
                except (ValueError, RecursionError):
                    self.breaks("valid-json", f"call {i}: {call.text[-80:]!r}")
                    continue
            if not isinstance(call.parsed, dict):
                self.breaks("valid-json", f"call {i}: arguments are no object")
                call.parsed = None
        if self.finish is None:
            self.breaks("finish-reason", "none given")
        if self.finish == "tool_calls" and not self.calls:
            self.breaks("finish-reason", "tool_calls without a call")
        if (
            self.finish == "stop"
            and self.calls
            and not (self.stopped_by or self.calls[-1].parsed is None)
        ):
            self.breaks("finish-reason", "stop with a call")
        return self


def _no_constant(name: str) -> None:
    """Refuse NaN and Infinity, which are Python's, not JSON's."""
    raise ValueError(name)


def sse(body: bytes) -> list[tuple[str, str]]:
    """Return server-sent events as (event name, data) pairs; a comment or an empty
    block is nothing.
    """
    events = []
    for block in body.decode("utf-8").split("\n\n"):
        name, data = "", []
        for line in block.split("\n"):
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
        if data:
            events.append((name, "\n".join(data)))
    return events


def failed(status: int, body: bytes) -> Reading:
    return raised("http-status", f"{status}: {body[:300].decode('utf-8', 'replace')}")


def raised(kind: str, detail: str) -> Reading:
    reading = Reading()
    reading.fails(kind, detail)
    return reading
