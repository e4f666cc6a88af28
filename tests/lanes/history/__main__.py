# SPDX-License-Identifier: Apache-2.0
"""``python -m history [RELEASE…]``: what a model is shown of its own replies."""

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import click

import results
from conformance import case as cases
from conformance.case import Case, document
from conformance.corpora.fixtures import canitoolcall
from conformance.lines import run_json
from history import LANE, SUITE_VERSION, TURNS
from history.clients import CLIENTS
from judges import bfcl, entries
from patchset import paths, release, run_command
from server.training import FOLDER

PROJECT = paths.project_root() / "tests/patches/templates/qwen35.jinja"


def templates(stock: Path) -> dict[str, tuple[str, bool]]:
    """Return, by name, the chat templates of this format that there are for a release,
    and whether a model with it thinks.

    Up to v0.21.0 a release ships none of Qwen3.5's: the proofs' own stands for it.
    """
    shipped = stock / "rust/src/chat/tests/templates/qwen35.jinja"
    coder = stock / "examples/tool_chat_template_qwen3coder.jinja"
    return {
        "Qwen3-Coder": (str(coder), False),
        "Qwen3.5": (str(shipped if shipped.is_file() else PROJECT), True),
        "the small model": (str(FOLDER / "chat_template.jinja"), True),
    }


def replies(sample: int) -> tuple[list[Case], list[Case]]:
    """Return the whole replies of the suite, canitoolcall and BFCL, and the turns of a
    session: BFCL's entries, of which no two declare the same tool.

    Args:
        sample: Each so many-th of BFCL's entries.
    """
    found, _ = entries.load(paths.build_dir() / "bfcl")
    template = entries.Template(paths.trees_dir(release.load().name) / bfcl.TEMPLATE)
    answers = [
        cases.parse(
            bfcl.job(entry, template)["case"] | {"starts": ["plain", "thought"]},
            f"bfcl/{entry.name}",
        )
        for entry in found
        if entry.calls
    ]
    turns: list[Case] = []
    known: set[str] = set()
    for case in answers:
        names = {tool.name for tool in case.tools}
        if len(turns) < TURNS and not names & known:
            turns, known = [*turns, case], known | names
    every = [*cases.load(), *canitoolcall(), *answers[::sample]]
    whole = [
        case
        for case in every
        if case.end == "stop" and not (case.request or case.drop_tokens)
    ]
    return whole, turns


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option("--both", is_flag=True, help="The stock tree as well.")
@click.option("--sample", default=20, help="Each so many-th of BFCL's entries.")
@click.option("--results", "keep", is_flag=True, help="Keep totals in results/history.")
def command(names: tuple[str, ...], both: bool, sample: int, keep: bool) -> None:
    """Send replies through the serving code of each RELEASE, and back as history."""
    every, turns = replies(sample)
    jobs: dict[str, Any] = {
        "cases": [(case.name, document(case)) for case in every],
        "session": [(case.name, document(case)) for case in turns],
    }
    for name in (release.load(each).name for each in names or [None]):
        jobs["templates"] = templates(paths.trees_dir(name) / "stock")
        for kind in results.KINDS[0 if both else 1 :]:
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(jobs, file)
                file.flush()
                tree = paths.trees_dir(name) / kind
                found = run_json(tree, "history.worker", file.name)
            for place, client in itertools.product(found, CLIENTS):
                cell = found[place][client]
                print(f"{name} {kind}, {place}, {client}, of {cell['replies']} replies")
                examples = cell.pop("examples")
                for cause, count in cell["causes"].items():
                    print(f"  {count} {cause}: {', '.join(examples[cause])}")
                print(f"  session: {cell['session']}")
            if keep:
                figures = {"each": sample, "replies": found}
                results.keep(LANE, SUITE_VERSION, name, kind, figures)


run_command.run(command)
