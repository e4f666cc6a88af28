# SPDX-License-Identifier: Apache-2.0
"""``python -m prefix_cache RELEASE…``: ask the prefix cache of releases, stock and
patched.

Exit status 1: a patched tree has a wrong schedule.
"""

from typing import Any

import click

import results
from conformance.lines import run_json
from patchset import paths, release, run_command
from patchset.errors import PatchsetError, UsageError
from prefix_cache import SUITE_VERSION, table


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, required=True, metavar="RELEASE...")
@click.option("--stock", is_flag=True, help="The stock tree instead.")
@click.option("--seeds", default=6, show_default=True, help="Seeds of each kind.")
@click.option(
    "--results", "keep", is_flag=True, help="Keep totals in results/prefix_cache."
)
def command(names: tuple[str, ...], stock: bool, seeds: int, keep: bool) -> None:
    """Ask scheduler and KV cache of each RELEASE for wrong prefixes."""
    failed = []
    for name in (release.load(each).name for each in names):
        for kind in results.KINDS[: 1 if stock else None]:
            rows = schedules(name, kind, seeds)
            for shape, modes in rows["shapes"].items():
                for mode, by_k in modes.items():
                    lines = (f"k={k}: {table.words(row)}" for k, row in by_k.items())
                    print(f"{name} {kind}, {shape}, async {mode}:", ", ".join(lines))
                    wrong = [
                        line for row in by_k.values() for line in row.get("first", ())
                    ]
                    print(*(f"  {line}" for line in wrong), sep="\n", end="")
                    failed += [f"{name} {line}" for line in wrong if kind == "patched"]
            print(f"{name} {kind}, 30 turns from the cache: {rows['turns']}")
            if keep:
                results.keep(table.LANE, SUITE_VERSION, name, kind, rows)
    if failed:
        raise PatchsetError("\n  ".join(["wrong prefixes:", *failed]))


def schedules(name: str, kind: str, seeds: int) -> Any:
    """The totals of one tree's schedules, by shape, mode and k.

    Raises:
        UsageError: there is no such tree.
        PatchsetError: its process failed.
    """
    tree = paths.trees_dir(name) / kind
    if not (tree / "vllm").is_dir():
        raise UsageError(
            f"there is no {kind} tree of {name}", f"nox -s apply -- {name} makes it"
        )
    return run_json(tree, "prefix_cache.schedules", str(seeds))


run_command.run(command)
