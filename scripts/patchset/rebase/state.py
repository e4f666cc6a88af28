# SPDX-License-Identifier: Apache-2.0
"""How far a rebase came, written after each patch: a run that was killed continues from there."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from patchset.base import files
from patchset.base.errors import PatchsetError
from patchset.rebase.port import Outcome, Status
from patchset.series.patch import Patch

_FILE = "state.json"


class Step(BaseModel):
    """What became of one patch, by its entry in the old series."""

    model_config = ConfigDict(extra="forbid")

    entry: str
    status: Status
    note: str = ""
    conflicts: tuple[str, ...] = ()


class State(BaseModel):
    """One rebase: ``inputs`` names the commits it started from, ``head`` the work repository's last good commit.

    ``phase`` is "running", "stopped" (at a conflict, the last of ``steps``) or "writing" (the new series is decided).
    """

    model_config = ConfigDict(extra="forbid")

    old: str
    new: str
    inputs: tuple[str, str]
    head: str
    phase: Literal["running", "stopped", "writing"] = "running"
    steps: list[Step] = []

    def record(self, outcome: Outcome) -> None:
        """Add what became of the next patch."""
        self.steps.append(
            Step(
                entry=outcome.patch.entry,
                status=outcome.status,
                note=outcome.note,
                conflicts=outcome.conflicts,
            )
        )

    def outcomes(self, patches: list[Patch]) -> list[Outcome]:
        """The steps so far, with the patches they are about."""
        return [
            Outcome(patch, step.status, step.note, step.conflicts)
            for patch, step in zip(patches, self.steps, strict=False)
        ]


def read(folder: Path) -> State | None:
    """What a run left in ``folder``, or None."""
    file = folder / _FILE
    with contextlib.suppress(FileNotFoundError):
        try:
            return State.model_validate_json(file.read_text(encoding="utf-8"))
        except (ValidationError, UnicodeDecodeError) as error:
            raise PatchsetError(f"{file} cannot be read: {error}", f"start over: delete {folder}") from error
    return None


def write(folder: Path, state: State) -> None:
    """Keep the state, in one step."""
    files.write_text(folder / _FILE, state.model_dump_json(indent=1) + "\n")
