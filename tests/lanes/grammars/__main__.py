# SPDX-License-Identifier: Apache-2.0
"""``python -m grammars``: what a release's grammars admit, and what they cost."""

from typing import Any

import click

import results
from conformance.lines import run_json
from grammars import LANE, SUITE_VERSION
from patchset import console, release, run_command
from patchset.errors import PatchsetError
from patchset.series import apply
from patchset.series.stock_tree import stock_tree

#: What a mask may take of the CPU, in milliseconds a token, and of walks, valid.
MOST_MS = 1.0
LEAST_VALID = 0.995


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="RELEASE...", nargs=-1, required=True)
@click.option("--stock", is_flag=True, help="Ask the stock tree as well.")
@click.option("--results", "keep", is_flag=True, help="Write results/grammars.")
@click.option("--verbose", is_flag=True, help="Print each output that is refused.")
def command(names: tuple[str, ...], stock: bool, keep: bool, verbose: bool) -> None:
    """Say outputs under the grammars that a release makes of requests.

    The release's own StructuredOutputManager is called as its scheduler calls it, at
    0 to 5 drafts a step, without a model.
    """
    wrong = []
    for name in names:
        pinned = release.load(name)
        trees = {"patched": apply.patched_tree(pinned)}
        if stock:
            trees = {"stock": stock_tree(pinned), **trees}
        for kind, tree in trees.items():
            words = ["grammars.worker", *["--verbose"] * verbose]
            row = summary(run_json(tree, *words, VLLM_LOGGING_LEVEL="ERROR"))
            console.note(f"{name} {kind}: {row}")
            if keep:
                results.keep(LANE, SUITE_VERSION, name, kind, row)
            if kind == "patched":
                wrong += [f"{name}: {fault}" for fault in faults(row)]
    if wrong:
        raise PatchsetError("\n  ".join(["grammars failed:", *wrong]))


def summary(found: Any) -> results.Cell:
    """The counts of all requests, all schemas and the dearest mask of a release."""
    requests, schemas = found["requests"].values(), found["schemas"].values()

    def total(rows: Any, name: str) -> int:
        return sum(row.get(name, 0) for row in rows)

    row: dict[str, Any] = {
        name: total(requests, name)
        for name in (
            "outputs",
            "admitted",
            "refused requests",
            "other at another k",
            "quoting",
            "forced ends",
            "ran or cut",
        )
    }
    row |= {name: total(schemas, name) for name in ("walks", "valid")}
    costs = found["costs"].values()
    row["BFCL"] = found["costs"]["BFCL"]
    row["most ms a token"] = max(cost.get("most ms a token", 0) for cost in costs)
    lost = {kind: row for kind, row in found["requests"].items() if _lost(row)}
    row["refused"] = {kind: _lost(row) for kind, row in lost.items()}
    row["invalid"] = {
        name: row["walks"] - row.get("valid", 0)
        for name, row in found["schemas"].items()
        if row.get("walks", 0) > row.get("valid", 0)
    }
    return row


def _lost(row: Any) -> int:
    return int(row.get("outputs", 0) - row.get("admitted", 0))


def faults(row: results.Cell) -> list[str]:
    """What a patched release must not show."""
    wrong = []
    if row["admitted"] < row["outputs"]:
        wrong.append(f"ordinary outputs are refused: {row['refused']}")
    if row["other at another k"]:
        wrong.append(f"{row['other at another k']} outputs are read otherwise with MTP")
    if row["ran or cut"]:
        wrong.append(f"{row['ran or cut']} quoted calls ran at an end that was forced")
    if row["valid"] < LEAST_VALID * row["walks"]:
        wrong.append(f"walks with arguments that are not valid: {row['invalid']}")
    if row["BFCL"].get("refused") or row["BFCL"].get("refused requests"):
        wrong.append(f"BFCL's answers are refused: {row['BFCL']}")
    if row["most ms a token"] > MOST_MS:
        wrong.append(f"a mask takes {row['most ms a token']} ms a token")
    return wrong


run_command.run(command)
