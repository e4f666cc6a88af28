# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.before_after STOCK PATCHED``: one answer of a model, as
clients of both trees receive it.

The README's example is what this prints, between its markers; ``--check`` says whether
it still is.
"""

import json
import sys
from pathlib import Path
from typing import Any

import click

import results
from conformance import case as cases
from conformance.adapters import TreeAdapter
from conformance.lines import LANES
from patchset import files, run_command
from patchset.errors import PatchsetError

EXAMPLE = Path(__file__).with_name("before_after.json")
README = LANES.parents[1] / "README.md"
#: Speculative decoding with three draft tokens.
SCHEDULE = "mtp3#0"


def answer(tree: Path) -> Any:
    (case,) = cases.read(EXAMPLE)
    job = {
        "name": case.name,
        "case": cases.document(case),
        "surfaces": ["chat"],
        "starts": list(case.starts[:1]),
        "schedules": [SCHEDULE],
        "readings": True,
    }
    (document,) = TreeAdapter(tree, workers=1).run([job])
    if "readings" not in document:
        raise PatchsetError(f"{tree} gave no answer")
    return document["readings"][SCHEDULE]


def shown(answers: dict[str, dict[str, Any]]) -> str:
    """Return the model's output, and what each client received of it, as the README
    shows them.
    """
    case = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    wanted = [call["name"] for call in case["expected"]["calls"]]
    lines = [
        "The model says:",
        "```xml",
        case["output"],
        "```",
        "An agent receives:",
        "```text",
    ]
    for name, got in answers.items():
        lines += [f"from {name}:"]
        for at, each in enumerate(got["calls"]):
            call, text = each["name"], each["text"]
            remark = _remark(call, text, wanted[at : at + 1])
            lines += [f"  call    {call} {text}{remark}"]
        if got["content"]:
            lines += [f"  text    {json.dumps(got['content'])}"]
    return "\n".join([*lines, "```"]) + "\n"


def _remark(call: str, text: str, wanted: list[str]) -> str:
    if [call] != wanted:
        return "   <- was only quoted; the agent runs it"
    try:
        json.loads(text)
    except ValueError:
        return "   <- cut off, not valid JSON"
    return ""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("trees", nargs=2, type=Path, metavar="STOCK PATCHED")
@click.option(
    "--names", nargs=2, default=("stock vLLM", "the patched vLLM"), help="Their names."
)
@click.option("--write", is_flag=True, help="Put the example into the README.")
@click.option("--check", is_flag=True, help="Fail when the README shows another one.")
def command(
    trees: tuple[Path, Path], names: tuple[str, str], write: bool, check: bool
) -> None:
    """Show one answer of a model, as clients of both trees receive it."""
    text = shown(dict(zip(names, map(answer, trees), strict=True)))
    readme = README.read_text(encoding="utf-8")
    made = results.put(readme, "before and after", text)
    if write:
        files.write_text(README, made)
    elif check and made != readme:
        sys.exit(
            "README.md shows another answer; nox -s tables -- --example --write "
            f"updates it\n\n{text}"
        )
    else:
        print(text)


if __name__ == "__main__":
    run_command.run_lane(lambda: command.main(standalone_mode=False) or 0)
