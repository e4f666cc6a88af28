# SPDX-License-Identifier: Apache-2.0
"""``python -m tokens RELEASE…``: test the cache of stock releases; exit code 1 if a test fails."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from patchset.base import paths, release
from patchset.results import tokens as results
from patchset.results import totals
from patchset.results.key import key

HERE = Path(__file__).parent
KS = range(6)


def main() -> int:
    """Run the tests, then the schedules of each release."""
    parser = argparse.ArgumentParser(prog="nox -s tokens --", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("releases", nargs="+", metavar="RELEASE")
    parser.add_argument("--seeds", type=int, default=12, help="schedules of each kind; default: 12")
    parser.add_argument("--results", action="store_true", help="keep the totals in results/tokens")
    options = parser.parse_args()
    failed = []
    for name in options.releases:
        pinned = release.load(name)
        tree = paths.project_root() / "build" / "trees" / name / "stock"
        path = os.pathsep.join([str(tree), str(HERE.parent), str(paths.project_root() / "scripts")])
        variables = {**os.environ, "VLLM_TREE": str(tree), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_cache.py")]
        if subprocess.run(tests, env=variables, check=False).returncode:
            failed.append(name)
        schedules = [sys.executable, "-m", "tokens.schedules", str(options.seeds), *map(str, KS)]
        done = subprocess.run(schedules, env=variables, stdout=subprocess.PIPE, text=True, check=True)
        cell = {"key": key(pinned, "stock", results.LANE), "k": json.loads(done.stdout.splitlines()[-1])}
        print(name, ", ".join(f"k={k}: {results.words(found)}" for k, found in cell["k"].items()))
        if options.results:
            totals.keep(results.LANE, name, "stock", cell)
    if failed:
        print(f"tests failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
