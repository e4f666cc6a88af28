# SPDX-License-Identifier: Apache-2.0
"""BFCL's published answers through a release's serving code, judged by BFCL's own
checker.
"""

import itertools
import json
import time
from importlib.metadata import version
from typing import Any

import click

import results
from conformance.adapters import Job, TreeAdapter
from judges import BFCL
from judges.entries import Entry, Template, load
from patchset import files, paths, release

#: As a client that does not stream, and with 0 to 5 drafted tokens a step. Widths are
#: drawn by the entry's name.
COLUMNS = ("not streamed", "k=0", "k=1", "k=2", "k=3", "k=4", "k=5")
TEMPLATE = "stock/examples/tool_chat_template_qwen3coder.jinja"


def schedules(entry: Entry) -> dict[str, str]:
    """Return how an entry's output is cut, by column."""
    return dict(
        zip(
            COLUMNS,
            ("full", "w1", *(f"mtp{k}#{entry.name}" for k in range(1, 6))),
            strict=True,
        )
    )


def job(entry: Entry, template: Template) -> Job:
    """Return what the host takes: a case of the conformance suite."""
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
        "readings": True,
    }


def judge(entry: Entry, checker: Any, read: dict[str, Any] | None) -> bool:
    """Return BFCL's verdict on what a client read; arguments that are no JSON object
    are wrong, as they are for BFCL.
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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option("--both", is_flag=True, help="The stock tree as well.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
@click.option("--results", "keep", is_flag=True, help="Keep totals in results/bfcl.")
def command(names: tuple[str, ...], both: bool, jobs: int, keep: bool) -> bool:
    """Replay BFCL's published answers on each RELEASE, or the default one.

    BFCL's own checker judges the calls. Exit status 0: patched releases are all right;
    1: one is not; 3: could not run.
    """
    pinned = [release.load(name).name for name in names or [None]]
    folder = paths.build_dir() / "bfcl"
    entries, checker = load(folder)
    possible = {entry.name: entry for entry in entries if entry.calls is not None}
    apart = sorted({entry.name for entry in entries} - set(possible))
    template = Template(paths.trees_dir(release.load().name) / TEMPLATE)
    jobs_of = [job(entry, template) for entry in possible.values()]
    wrong_of: dict[str, Any] = {}
    for name, kind in itertools.product(pinned, results.KINDS):
        if kind == "stock" and not both:
            continue
        began = time.monotonic()
        tree = paths.trees_dir(name) / kind
        adapter = TreeAdapter(tree, workers=jobs, parsers={"none": []})
        wrong = {}
        for result in adapter.run(jobs_of):
            entry, read = possible[result["name"]], result.get("readings", {})
            by_column = {c: read.get(way) for c, way in schedules(entry).items()}
            bad = {c: r for c, r in by_column.items() if not judge(entry, checker, r)}
            if bad:
                wrong[entry.name] = {"columns": list(bad), "read": bad}
        right = {
            column: len(possible)
            - sum(column in one["columns"] for one in wrong.values())
            for column in COLUMNS
        }
        print(
            f"{name} {kind}: of {len(possible)} entries, right",
            *(f"{right[c]} ({c})" for c in COLUMNS),
            f"in {time.monotonic() - began:.0f} s",
            sep=", ",
            flush=True,
        )
        wrong_of[f"{name} {kind}"] = wrong
        if keep:
            cell = {
                "bfcl-eval": version("bfcl-eval"),
                "entries": len(entries),
                "apart": apart,
                "possible": len(possible),
                "right": right,
            }
            results.keep(BFCL.name, BFCL.suite, name, kind, cell)
    print(f"set apart, of {len(entries)}: {', '.join(apart)}")
    text = json.dumps(wrong_of, ensure_ascii=False, indent=1)
    files.write_text(folder / "wrong.json", text + "\n")
    return any(wrong_of[f"{name} patched"] for name in pinned)
