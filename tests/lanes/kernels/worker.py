# SPDX-License-Identifier: Apache-2.0
"""``python -m kernels.worker``: the kernels of the tree on the path, compiled or run.

Prints what was found as JSON. To run them ``TRITON_INTERPRET=1`` must be set, or a
device named.
"""

import contextlib
import json
import os
import sys
import time
from types import ModuleType
from typing import Any

import torch

from kernels import ahead, batches, imports

#: Runs of random batches, and the steps of each.
_SEEDS, _STEPS = 12, 10


def run(module: ModuleType, patched: bool) -> int:
    """Run random batches; returns how many rows were compared."""
    rows = 0
    for seed in range(_SEEDS):
        index = (torch.int64, torch.int32)[seed % 2]
        markers = batches.MARKERS[seed % len(batches.MARKERS)]
        rows += batches.Batches(module, patched, seed, index, markers).steps(_STEPS)
    return rows


def main(kind: str, device: str = "") -> None:
    """Look at the kernels of a ``stock`` or ``patched`` tree.

    With a ``device``, as in a receipt, the tree has a build, and nothing is compiled
    ahead. Interpreted, stock must be wrong by what is right of the patched tree.
    """
    begun = time.monotonic()
    if device:
        torch.set_default_device(device)
    out, patched = os.fdopen(os.dup(1), "w"), kind == "patched"
    os.dup2(2, 1)
    module = imports.budget(built=bool(device))
    outcomes: dict[str, Any] = {}
    interpreted = bool(os.environ.get("TRITON_INTERPRET"))
    try:
        if interpreted or device:
            outcomes["rows"] = run(module, patched)
        else:
            outcomes["sizes"] = ahead.compile_all(module, patched, ahead.TARGETS)
    except AssertionError as error:
        outcomes["wrong"] = str(error)
    if kind == "stock" and interpreted and not device:
        with contextlib.suppress(AssertionError):
            run(module, True)
            outcomes["wrong"] = "the batches do not tell stock from the series"
    outcomes["seconds"] = round(time.monotonic() - begun, 1)
    json.dump(outcomes, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
