# SPDX-License-Identifier: Apache-2.0
"""``python -m bfcl [RELEASE…]``: run the lane. Exit code 0: patched releases are all
right; 1: one is not; 3: could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bfcl import SUITE_VERSION, table
from bfcl.entries import Entry, Template, load
from conformance.adapters import TESTS, AdapterError, Job
from engines.host import Host
from patchset import files, results, run_command

ROOT = TESTS.parents[1]
#: As a client that does not stream, and with 0 to 5 drafted tokens a step. Widths are
#: drawn by the entry's name.
COLUMNS = ("not streamed", "k=0", "k=1", "k=2", "k=3", "k=4", "k=5")
TEMPLATE = "v0.33.0/stock/examples/tool_chat_template_qwen3coder.jinja"


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="nox -s engines -- bfcl",
        description="Replay BFCL's published answers on each RELEASE, and let BFCL's own checker judge the calls.",
        epilog="Exit code 0: patched releases are all right; 1: one is not; 3: could not run.",
    )
    parser.add_argument(
        "releases", nargs="*", metavar="RELEASE", help="default: the default release"
    )
    parser.add_argument(
        "--stock",
        action="store_true",
        help="the stock tree as well, beside the patched one",
    )
    parser.add_argument(
        "--trees",
        type=Path,
        default=ROOT / "build/trees",
        help="folder of <release>/{stock,patched}",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes; default: 2")
    parser.add_argument(
        "--results", action="store_true", help="put the totals into results/bfcl/"
    )
    return parser.parse_args(argv)


def schedules(entry: Entry) -> dict[str, str]:
    """How an entry's output is cut, by column."""
    return dict(
        zip(
            COLUMNS,
            ("full", "w1", *(f"mtp{k}#{entry.name}" for k in range(1, 6))),
            strict=True,
        )
    )


def job(entry: Entry, template: Template) -> Job:
    """What the host takes: a case of the conformance suite."""
    assert entry.calls
    calls = [{"name": name, "arguments": arguments} for name, arguments in entry.calls]
    case = {
        "description": f"BFCL v4, {entry.name}",
        "class": "must",
        "source": "bfcl-eval",
        "tools": entry.tools,
        "starts": ["plain"],
        "output": template.output(entry.calls),
        "expected": {"calls": calls, "finish_reason": "tool_calls"},
    }
    return {
        "name": entry.name,
        "case": case,
        "surfaces": ["chat"],
        "starts": ["plain"],
        "schedules": list(schedules(entry).values()),
    }


def judge(entry: Entry, checker: Any, read: dict[str, Any] | None) -> bool:
    """BFCL's verdict on what a client read; arguments that are no JSON object are
    wrong, as they are for BFCL.
    """
    if read is None:  # the host died
        return False
    try:
        return entry.right(
            checker,
            [(call["name"], dict(json.loads(call["text"]))) for call in read["calls"]],
        )
    except (ValueError, TypeError):
        return False


def lane(opts: argparse.Namespace) -> int:
    """Replay the entries on each release; returns the exit code."""
    from patchset.release import load as release_of

    pinned = [release_of(name) for name in opts.releases or [None]]
    entries, checker = load(ROOT / "build/bfcl")
    possible = {entry.name: entry for entry in entries if entry.calls is not None}
    apart = sorted({entry.name for entry in entries} - set(possible))
    template, wrong_of, code = Template(opts.trees / TEMPLATE), {}, 0
    for release in pinned:
        for kind in ("stock", "patched") if opts.stock else ("patched",):
            began, wrong = time.monotonic(), {}
            host = Host(opts.trees / release.name / kind, workers=opts.jobs)
            for result in host.run(
                [job(entry, template) for entry in possible.values()]
            ):
                entry, read = possible[result["name"]], result.get("readings", {})
                bad = [
                    column
                    for column, name in schedules(entry).items()
                    if not judge(entry, checker, read.get(name))
                ]
                if bad:
                    wrong[entry.name] = {
                        "columns": bad,
                        "read": {
                            column: read.get(name)
                            for column, name in schedules(entry).items()
                            if column in bad
                        },
                    }
            right = {
                column: len(possible)
                - sum(column in one["columns"] for one in wrong.values())
                for column in COLUMNS
            }
            print(
                f"{release.name} {kind}: of {len(possible)} entries, right",
                *(f"{right[c]} ({c})" for c in COLUMNS),
                f"in {time.monotonic() - began:.0f} s",
                sep=", ",
                flush=True,
            )
            wrong_of[f"{release.name} {kind}"] = wrong
            code |= kind == "patched" and bool(wrong)
            if opts.results:
                cell = {
                    "bfcl-eval": version("bfcl-eval"),
                    "entries": len(entries),
                    "apart": apart,
                    "possible": len(possible),
                    "right": right,
                }
                results.keep(table.LANE, SUITE_VERSION, release.name, kind, cell)
    print(f"set apart, of {len(entries)}: {', '.join(apart)}")
    files.write_text(
        ROOT / "build/bfcl/wrong.json",
        json.dumps(wrong_of, ensure_ascii=False, indent=1) + "\n",
    )
    return code


def main() -> None:
    """Entry point."""
    opts = options(sys.argv[1:])
    run_command.run_lane(lambda: lane(opts), AdapterError)


if __name__ == "__main__":
    main()
