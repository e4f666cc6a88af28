# SPDX-License-Identifier: Apache-2.0
"""``python -m tokens RELEASE…``: test the cache of releases, stock and patched. Exit code 0: all right; 1: something wrong."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from patchset import paths, release, results, run_command
from patchset.errors import PatchsetError, UsageError
from tokens import SUITE_VERSION, table

HERE = Path(__file__).parent
KINDS = ("stock", "patched")


def main() -> int:
    """Ask each release, stock and patched."""
    parser = argparse.ArgumentParser(
        prog="nox -s tokens --", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("releases", nargs="+", metavar="RELEASE")
    parser.add_argument(
        "--stock", action="store_true", help="ask the stock release alone"
    )
    parser.add_argument(
        "--seeds", type=int, default=12, help="schedules of each kind; default: 12"
    )
    parser.add_argument(
        "--soak",
        action="store_true",
        help="send many requests in place of the schedules",
    )
    parser.add_argument(
        "--requests",
        type=int,
        default=2000,
        help="of a soak, for each k; default: 2000",
    )
    parser.add_argument(
        "--results",
        action="store_true",
        help="leave the tests out and keep the totals in results/tokens",
    )
    options = parser.parse_args()
    failed = []
    for name in options.releases:
        for kind in KINDS[:1] if options.stock else KINDS:
            if not ask(name, kind, options):
                failed.append(f"{name} {kind}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


def ask(name: str, kind: str, options: argparse.Namespace) -> bool:
    """Ask one tree; whether it is as right as it must be: of stock only the tests say that."""
    name = release.load(name).name
    tree = paths.build_dir() / "trees" / name / kind
    path = os.pathsep.join(
        [str(tree), str(HERE.parent), str(paths.project_root() / "scripts")]
    )
    variables = {
        **os.environ,
        "VLLM_TREE": str(tree),
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if not (tree / "vllm").is_dir():
        raise UsageError(
            f"there is no {kind} tree of {name}", f"nox -s apply -- {name} makes it"
        )
    if options.soak:
        found = _run(["tokens.soak", str(options.requests)], variables)
        print(
            name,
            kind,
            ", ".join(f"k={k}: {table.soaked(one)}" for k, one in found.items()),
        )
        cell, cell_name = {"k": found}, f"{kind} soak"
        good = kind == "stock" or not any(one["wrong"] for one in found.values())
    else:
        tests = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(HERE / "cache_schedules.py"),
        ]
        good = (
            options.results
            or not subprocess.run(tests, env=variables, check=False).returncode
        )
        found = _run(["tokens.schedules", str(options.seeds)], variables)
        for mode, by_k in found.items():
            words = (f"k={k}: {table.words(one)}" for k, one in by_k.items())
            print(f"{name} {kind}, async scheduling {mode}:", ", ".join(words))
        cell, cell_name = {"async": found}, kind
        wrong = any(
            one.get("wrong") for by_k in found.values() for one in by_k.values()
        )
        good = good and (kind == "stock" or not wrong)
    if options.results:
        results.keep(table.LANE, SUITE_VERSION, name, cell_name, cell)
    return good


def _run(module: list[str], variables: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", *module],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise PatchsetError(
            f"{' '.join(module)} ended with status {done.returncode}",
            "its output is above",
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    run_command.run_lane(main)
