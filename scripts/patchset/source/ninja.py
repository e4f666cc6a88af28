# SPDX-License-Identifier: Apache-2.0
"""What Ninja and the compilers say, made short: files done with an estimate, warnings counted, a failure explained."""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from patchset.base import console

#: Given to Ninja: what ``_STATUS`` reads.
STATUS = "[%f/%t] "

_STATUS = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?(.+)$")
_ERROR = re.compile(r"(?:\berror\b[ :]|\bError\b|ninja: |undefined reference|Killed|out of memory)")
_WARNING = re.compile(r"\bwarning\b[ :#]")
#: Without a terminal, a line appears so many seconds after the last at the earliest.
_PAUSE = 30.0
_SHORT = 160
_KEPT = 60


@dataclass
class Reader:
    """Hears a build's output line by line, and tells the user the little that matters."""

    log: Path
    done: int = 0
    total: int = 0
    warnings: int = 0
    failed: str = ""
    command: str = ""
    errors: list[str] = field(default_factory=list)
    _first: tuple[float, int] | None = None
    _told: float = 0.0
    _tail: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def line(self, text: str) -> None:
        """One line of output."""
        self._tail.append(text)
        if match := _STATUS.match(text):
            self._step(int(match[1]), int(match[2]), match[3])
        elif match := _FAILED.match(text):
            self.failed = self.failed or match[1].split()[0]
        elif self.failed and not self.command:
            self.command = text
        elif _ERROR.search(text):
            self.errors.append(text.strip())
        elif _WARNING.search(text):
            self.warnings += 1

    def _step(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if self._first is None or total != self.total:
            self._first = (now, done)
        self.done, self.total = done, total
        if done == total or now - self._told >= _PAUSE:
            self._told = now
            console.note(f"  {done} of {total} files{self._estimate(now)}: {_short(what)}")

    def _estimate(self, now: float) -> str:
        """Words for what is left, from the speed of this run alone."""
        start, before = self._first or (now, self.done)
        finished = self.done - before
        if not finished or self.done == self.total:
            return ""
        return f", about {console.duration((now - start) / finished * (self.total - self.done))} left"

    def explanation(self) -> str:
        """Why the build failed, short; the whole output is in the log."""
        parts = []
        if self.failed:
            parts.append(f"{Path(self.failed).name} could not be made")
        parts += [f"  {_short(line)}" for line in self.errors[:4]] or [
            f"  {_short(line)}" for line in list(self._tail)[-8:]
        ]
        if self.command:
            parts.append(f"  by: {_short(self.command)}")
        if any("Killed" in line or "out of memory" in line.lower() for line in self.errors):
            parts.append("  the machine ran out of memory: fewer --jobs")
        parts.append(f"  everything: {self.log}")
        return "\n".join(parts)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
