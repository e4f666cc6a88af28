# SPDX-License-Identifier: Apache-2.0
"""``python -m grammars``: what a release's grammars admit, and what they cost."""

from collections import Counter
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
#: What is counted of requests, and of walks.
OF_REQUESTS = (
    *("outputs", "admitted", "refused requests", "other at another k"),
    *("quoting", "forced ends", "ran or cut"),
)
OF_WALKS = ("walks", "valid")


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
    requests, schemas, costs = (
        {kind: Counter(row) for kind, row in found[part].items()}
        for part in ("requests", "schemas", "costs")
    )
    rows = dict.fromkeys(OF_REQUESTS, requests) | dict.fromkeys(OF_WALKS, schemas)
    refused = {kind: row["outputs"] - row["admitted"] for kind, row in requests.items()}
    invalid = {kind: row["walks"] - row["valid"] for kind, row in schemas.items()}
    return {
        **{name: sum(row[name] for row in rows[name].values()) for name in rows},
        "BFCL": found["costs"]["BFCL"],
        "most ms a token": max(cost["most ms a token"] for cost in costs.values()),
        "refused": {kind: count for kind, count in refused.items() if count},
        "invalid": {kind: count for kind, count in invalid.items() if count > 0},
    }


def faults(row: results.Cell) -> list[str]:
    """What a patched release must not show."""
    moved, ran, cost = (
        row[name] for name in ("other at another k", "ran or cut", "most ms a token")
    )
    bfcl = row["BFCL"].get("refused") or row["BFCL"].get("refused requests")
    is_wrong = {
        f"ordinary outputs are refused: {row['refused']}": (
            row["admitted"] < row["outputs"]
        ),
        f"{moved} outputs are read otherwise with MTP": moved,
        f"{ran} quoted calls ran at an end that was forced": ran,
        f"walks with arguments that are not valid: {row['invalid']}": (
            row["valid"] < LEAST_VALID * row["walks"]
        ),
        f"BFCL's answers are refused: {row['BFCL']}": bfcl,
        f"a mask takes {cost} ms a token": cost > MOST_MS,
    }
    return [fault for fault, wrong in is_wrong.items() if wrong]


run_command.run(command)
