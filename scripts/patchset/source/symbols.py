# SPDX-License-Identifier: Apache-2.0
"""The symbols that a compiled module exports and the libraries that it asks for, beside the official module's."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from patchset.base.errors import MissingToolError, PatchsetError
from patchset.source.toolchain import DRIVER

_DRIVER_CALL = re.compile(r"cu[A-Z]\w*(@|$)")


@dataclass(frozen=True)
class Difference:
    """How many symbols both have, the names that only one has, and the libraries that only the official one asks for."""

    common: int
    only_here: list[str]
    only_official: list[str]
    not_linked: list[str]

    def words(self) -> str:
        """In one line."""
        if not self.only_here and not self.only_official:
            return f"{self.common} exported symbols, the same as the official module's"
        return (
            f"{self.common} exported symbols in common with the official module, {len(self.only_here)} only here, "
            f"{len(self.only_official)} only there"
        )


def exported(module: Path) -> set[str]:
    """The names of the symbols that a shared library defines and exports."""
    listing = _ask(module, "nm", "--dynamic", "--defined-only", "--format=posix")
    return {line.split(" ", 1)[0] for line in listing.splitlines() if line.strip()}


def wanted(module: Path) -> set[str]:
    """The names of the symbols that a shared library asks others for; raises as ``exported`` does."""
    listing = _ask(module, "nm", "--dynamic", "--undefined-only", "--format=posix")
    return {line.split(" ", 1)[0] for line in listing.splitlines() if line.strip()}


def libraries(module: Path) -> set[str]:
    """The libraries that the loader brings for a shared library (DT_NEEDED); raises as ``exported`` does."""
    listing = _ask(module, "objdump", "--private-headers")
    return set(re.findall(r"^\s+NEEDED\s+(\S+)$", listing, re.MULTILINE))


def compare(here: Path, official: Path) -> Difference:
    """How a module differs from the official one."""
    ours, theirs = exported(here), exported(official)
    linked = libraries(here)
    if DRIVER not in linked and (calls := sorted(filter(_DRIVER_CALL.match, wanted(here)))):
        raise PatchsetError(
            f"{here.name} calls {calls[0]} of the CUDA driver and is not linked with {DRIVER}",
            "the CUDA root has no lib/stubs/libcuda.so to link with, or an empty one",
        )
    not_linked = sorted(libraries(official) - linked)
    return Difference(len(ours & theirs), sorted(ours - theirs), sorted(theirs - ours), not_linked)


def _ask(module: Path, program: str, *options: str) -> str:
    try:
        done = subprocess.run([program, *options, module], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MissingToolError(f"{program} is not installed", "apt-get install binutils") from error
    if done.returncode:
        raise PatchsetError(f"{module.name} cannot be read: {done.stderr.strip()[-300:]}")
    return done.stdout
