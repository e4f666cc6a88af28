# SPDX-License-Identifier: Apache-2.0
"""A host that is rented for a while, with its limits: what a rehearsal of the bundle's delivery runs on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


class LimitError(Exception):
    """The host would have refused this, or would have been taken back."""


@dataclass
class Host:
    """A folder that is the host's disk; ``starts`` is what its start takes, in seconds, and counts as well.

    Limits: what one call carries, how long one may run, how long the host waits for the next, how long it is held.
    """

    disk: Path
    starts: float = 75
    most_bytes: int = 64 << 20
    most_call: float = 600
    most_idle: float = 30
    most_held: float = 1800
    clock: Callable[[], float] = time.monotonic
    #: (begin, end, what) of each call, in seconds since the host was asked for.
    calls: list[tuple[float, float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._asked = self.clock()
        self._idle_since: float | None = None
        self.disk.mkdir(parents=True)

    @property
    def held(self) -> float:
        """Seconds since it was asked for."""
        return self.clock() - self._asked + self.starts

    @property
    def left(self) -> float:
        """Seconds that a call made now may take."""
        return min(self.most_call, self.most_held - self.held)

    def call(self, what: str, carried: Sequence[Path], work: Callable[[Path, Path], Found]) -> Found:
        """Carry files to the host and run ``work(disk, folder with the files)`` there.

        Raises:
            LimitError: a limit was broken.
        """
        if self._idle_since is not None and self.clock() - self._idle_since > self.most_idle:
            raise LimitError(f"{what}: the host was idle for more than {self.most_idle:.0f} s and is gone")
        size = sum(file.stat().st_size for file in carried)
        if size > self.most_bytes:
            raise LimitError(f"{what}: {size} bytes in one call, more than {self.most_bytes}")
        folder = self.disk / "call"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in carried:
            shutil.copyfile(file, folder / file.name)
        begun = self.held
        found = work(self.disk, folder)
        self.calls.append((begun, self.held, what))
        self._idle_since = self.clock()
        if self.held - begun > self.most_call:
            raise LimitError(f"{what}: took {self.held - begun:.0f} s, more than {self.most_call:.0f}")
        if self.held > self.most_held:
            raise LimitError(
                f"{what}: the host is held for {self.held:.0f} s, more than {self.most_held:.0f}"
            )
        return found

    def lose(self) -> None:
        """Everything on it is gone."""
        shutil.rmtree(self.disk)

    def minutes(self) -> list[str]:
        """What ran in which minute, one line a call."""
        return [f"{begin / 60:5.1f} - {end / 60:4.1f} min  {what}" for begin, end, what in self.calls]


def deliveries(parts: Sequence[Path], most: int) -> list[list[Path]]:
    """Parts in as few calls as the limit allows, in their order."""
    calls: list[list[Path]] = []
    size = most + 1
    for part in parts:
        size += part.stat().st_size
        if size > most:
            calls.append([])
            size = part.stat().st_size
        calls[-1].append(part)
    return calls
