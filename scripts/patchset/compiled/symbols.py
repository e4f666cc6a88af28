# SPDX-License-Identifier: Apache-2.0
"""The symbols that a compiled module exports, and how two modules differ in them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from patchset.errors import MissingToolError, PatchsetError


@dataclass(frozen=True)
class Difference:
    """How many symbols both have, and the names that only one has."""

    common: int
    only_here: list[str]
    only_official: list[str]

    def words(self) -> str:
        """In one line."""
        if not self.only_here and not self.only_official:
            return f"{self.common} exported symbols, the same as the official module's"
        return (
            f"{self.common} exported symbols in common with the official module, {len(self.only_here)} only here, "
            f"{len(self.only_official)} only there"
        )


def exported(module: Path) -> set[str]:
    """The names of the symbols that a shared library defines and exports.

    Raises:
        MissingToolError: binutils are not installed.
        PatchsetError: the file is no shared library.
    """
    try:
        done = subprocess.run(
            ["nm", "--dynamic", "--defined-only", "--format=posix", module],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise MissingToolError("nm is not installed", "apt-get install binutils") from error
    if done.returncode:
        raise PatchsetError(f"{module.name} cannot be read: {done.stderr.strip()[-300:]}")
    return {line.split(" ", 1)[0] for line in done.stdout.splitlines() if line.strip()}


def compare(here: Path, official: Path) -> Difference:
    """How a module's exported symbols differ from the official one's."""
    ours, theirs = exported(here), exported(official)
    return Difference(len(ours & theirs), sorted(ours - theirs), sorted(theirs - ours))
