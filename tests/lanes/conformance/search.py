"""Drives random search and fuzzing: deals the budget out in jobs and prints what they found."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from conformance.adapters import TreeAdapter

BATCH = 250


def drive(adapter: Any, *, runs: int, fuzz: int, seed: int, workers: int) -> int:
    """Run both searches with their budgets; returns the exit code. Counterexamples are printed as case documents."""
    if not isinstance(adapter, TreeAdapter):
        print("random search needs a source tree", file=sys.stderr)
        return 2
    code = 0
    for kind, budget in (("roundtrip", runs), ("fuzz", fuzz)):
        if not budget:
            continue
        sizes = [BATCH] * (budget // BATCH) + (
            [budget % BATCH] if budget % BATCH else []
        )
        jobs = [
            {
                "name": kind,
                "search": {"kind": kind, "seed": seed * 1_000_000 + i, "runs": n},
            }
            for i, n in enumerate(sizes)
        ]
        began, done, failed, served, shown = time.monotonic(), 0, 0, 0, 0
        for result in adapter.run(jobs):
            if "error" in result:
                print(f"{adapter.label()}: {result['error']}", file=sys.stderr)
                if not result["runs"]:
                    return 3
            done, failed, served = (
                done + result["runs"],
                failed + result["failed"],
                served + result["served"],
            )
            for found in result["found"]:
                shown += 1
                if shown <= 5:
                    print(f"\ncounterexample {found['key']}:")
                    for problem in found["problems"]:
                        print(f"  {problem}")
                    print(
                        json.dumps(
                            found.get("case")
                            or {"start": found["start"], "output": found["output"]},
                            ensure_ascii=False,
                            indent=1,
                        )
                    )
            if sys.stderr.isatty():
                print(
                    f"\r{kind}: {done}/{budget}, {failed} failed",
                    end="\r",
                    file=sys.stderr,
                )
        print(
            f"{adapter.label()} {kind}: {failed} of {done} runs failed ({served} over the serving path), seed {seed}, {time.monotonic() - began:.0f} s"
        )
        code = max(code, 1 if failed else 0)
    return code
