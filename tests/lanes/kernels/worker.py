# SPDX-License-Identifier: Apache-2.0
"""``python -m kernels.worker``: one tree in one process, compiled or run; prints what was found as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import torch

from kernels import ahead, batches, imports
from kernels.mutants import MUTANTS, source


def run(module: ModuleType, patched: bool, seeds: int, steps: int) -> int:
    """Run random batches; returns how many rows were compared."""
    return sum(
        batches.Batches(
            module,
            patched,
            "cpu",
            seed,
            (torch.int64, torch.int32)[seed % 2],
            batches.MARKERS[seed % len(batches.MARKERS)],
        ).steps(steps)
        for seed in range(seeds)
    )


def missed(
    path: Path, seen_by: str, seeds: int, steps: int
) -> tuple[list[str], list[str]]:
    """Try the mutants that one of the two ways must see; returns those it saw and those it did not."""
    seen: list[str] = []
    unseen: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, mutant in enumerate(MUTANTS):
            if mutant.seen_by != seen_by:
                continue
            place = Path(folder, f"mutant{number}.py")
            place.write_text(source(path, mutant), encoding="utf-8")
            module = imports.load(place, place.stem)
            try:
                if seen_by == "compiler":
                    ahead.compile_all(module, True, {"sm_90": ahead.TARGETS["sm_90"]})
                else:
                    run(module, True, seeds, steps)
            except (AssertionError, ahead.CompileError):
                seen.append(mutant.name)
            else:
                unseen.append(mutant.name)
    return seen, unseen


@click.command()
@click.argument("task", type=click.Choice(["compile", "run"]))
@click.argument("tree", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--patched", is_flag=True, help="The tree has the series.")
@click.option(
    "--mutants", is_flag=True, help="Try the mutants instead of the tree's own file."
)
@click.option("--seeds", default=9, show_default=True, help="Runs of random batches.")
@click.option("--steps", default=10, show_default=True, help="Of one run.")
def command(
    task: str, tree: Path, patched: bool, mutants: bool, seeds: int, steps: int
) -> None:
    """Compile the kernels of TREE, or run them in Triton's interpreter (with TRITON_INTERPRET=1)."""
    import triton

    begun = time.monotonic()
    module = imports.enter(tree, "cpu")
    found: dict[str, Any] = {"triton": triton.__version__}
    try:
        if mutants:
            path = tree.joinpath(*imports.BUDGET.split(".")).with_suffix(".py")
            seen_by = "compiler" if task == "compile" else "batches"
            found["seen"], found["unseen"] = missed(path, seen_by, seeds, steps)
        elif task == "compile":
            found["sizes"] = ahead.compile_all(module, patched, ahead.TARGETS)
        else:
            found["rows"] = run(module, patched, seeds, steps)
    except (AssertionError, ahead.CompileError) as error:
        found["wrong"] = str(error)
    found["seconds"] = round(time.monotonic() - begun, 1)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    command()
