# SPDX-License-Identifier: Apache-2.0
"""``python -m kernels.worker``: the kernels of the tree on the path, compiled or run.

Prints what was found as JSON. To run them ``TRITON_INTERPRET=1`` must be set, or a
device named.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernels import ahead, batches, imports
from kernels.mutants import MUTANTS, source

#: Runs of random batches, and the steps of each.
_SEEDS, _STEPS = 9, 10


def run(module: ModuleType, patched: bool) -> int:
    """Run random batches; returns how many rows were compared."""
    rows = 0
    for seed in range(_SEEDS):
        index = (torch.int64, torch.int32)[seed % 2]
        markers = batches.MARKERS[seed % len(batches.MARKERS)]
        rows += batches.Batches(module, patched, seed, index, markers).steps(_STEPS)
    return rows


def noticed(path: Path, seen_by: str) -> dict[str, bool]:
    """Whether each mutant that the compiler, or a batch, must see is seen."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, mutant in enumerate(MUTANTS):
            if mutant.seen_by != seen_by:
                continue
            place = Path(folder, f"mutant{number}.py")
            place.write_text(source(path, mutant), encoding="utf-8")
            module = imports.load(place)
            try:
                if seen_by == "compiler":
                    ahead.compile_all(module, True, {"sm_90": ahead.TARGETS["sm_90"]})
                else:
                    run(module, True)
            except (AssertionError, ahead.CompileError):
                found[mutant.name] = True
            else:
                found[mutant.name] = False
    return found


def main(kind: str, device: str = "") -> None:
    """Look at the kernels of a ``stock`` or ``patched`` tree.

    With a ``device``, as in a receipt, the tree has a build; nothing is compiled ahead
    and no mutant tried.
    """
    begun = time.monotonic()
    if device:
        torch.set_default_device(device)
    out, patched = os.fdopen(os.dup(1), "w"), kind == "patched"
    os.dup2(2, 1)
    module = imports.budget(built=bool(device))
    found: dict[str, Any] = {}
    interpreted = bool(os.environ.get("TRITON_INTERPRET"))
    try:
        if interpreted or device:
            found["rows"] = run(module, patched)
        else:
            found["sizes"] = ahead.compile_all(module, patched, ahead.TARGETS)
    except (AssertionError, ahead.CompileError) as error:
        found["wrong"] = str(error)
    if patched and not device:
        seen_by = "batches" if interpreted else "compiler"
        found["mutants"] = noticed(Path(str(module.__file__)), seen_by)
    found["seconds"] = round(time.monotonic() - begun, 1)
    json.dump(found, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
