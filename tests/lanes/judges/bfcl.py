# SPDX-License-Identifier: Apache-2.0
"""BFCL's published answers through a release's serving code, judged by BFCL's own
checker.
"""

import json
from importlib.metadata import version
from typing import Any

import click

from conformance.adapters import Job
from judges import replay
from judges.entries import Entry, Template, load
from patchset import paths, release

#: As a client that does not stream, and with 0 to 5 drafted tokens a step. Widths are
#: drawn by the entry's name.
COLUMNS = ("not streamed", "k=0", "k=1", "k=2", "k=3", "k=4", "k=5")
TEMPLATE = "stock/examples/tool_chat_template_qwen3coder.jinja"


def schedules(entry: Entry) -> dict[str, str]:
    return dict(
        zip(
            COLUMNS,
            ("full", "w1", *(f"mtp{k}#{entry.name}" for k in range(1, 6))),
            strict=True,
        )
    )


def job(entry: Entry, template: Template) -> Job:
    assert entry.calls
    calls = [{"name": name, "arguments": arguments} for name, arguments in entry.calls]
    return replay.job(
        entry.name,
        "BFCL v4",
        "plain",
        schedules(entry).values(),
        tools=entry.tools,
        output=template.output(entry.calls),
        expected={"calls": calls, "finish_reason": "tool_calls"},
    )


def right(entry: Entry, checker: Any, read: dict[str, Any] | None) -> bool:
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
@click.option("--jobs", "workers", default=2, show_default=True, help="Processes.")
@click.option("--results", "keep", is_flag=True, help="Keep totals in results/bfcl.")
def command(names: tuple[str, ...], **how: Any) -> bool:
    """Replay BFCL's published answers on each RELEASE, or the default one.

    BFCL's own checker judges the calls. Exit status 0: patched releases are all right;
    1: one is not; 3: could not run.
    """
    folder = paths.build_dir() / "bfcl"
    entries, checker = load(folder)
    possible = {entry.name: entry for entry in entries if entry.calls is not None}
    apart = sorted({entry.name for entry in entries} - set(possible))
    template = Template(paths.trees_dir(release.load().name) / TEMPLATE)

    def judge(name: str, read: dict[str, Any]) -> dict[str, Any]:
        by_column = {c: read.get(way) for c, way in schedules(possible[name]).items()}
        return {
            column: one
            for column, one in by_column.items()
            if not right(possible[name], checker, one)
        }

    wrong = replay.replay(
        "bfcl",
        names,
        [job(entry, template) for entry in possible.values()],
        COLUMNS,
        judge,
        lambda right, _: {
            "bfcl-eval": version("bfcl-eval"),
            "entries": len(entries),
            "apart": apart,
            "possible": len(possible),
            "right": right,
        },
        log=folder / "wrong.json",
        **how,
    )
    print(f"set apart, of {len(entries)}: {', '.join(apart)}")
    return any(found for tree, found in wrong.items() if tree.endswith("patched"))
