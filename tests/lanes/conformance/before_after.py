# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.before_after STOCK PATCHED``: one answer of a model, as
clients of both trees receive it.

The README's example is what this prints, between its markers; ``--check`` says whether
it still is.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from conformance import case as cases
from conformance.adapters import TESTS, AdapterError, TreeAdapter
from patchset import files, run_command

EXAMPLE = Path(__file__).with_name("before_after.json")
README = TESTS.parents[1] / "README.md"
#: Speculative decoding with three draft tokens.
SCHEDULE = "mtp3#0"
BLOCK = re.compile(
    r"(<!-- before and after -->\n).*?(<!-- end of before and after -->)", re.DOTALL
)


def answer(tree: Path) -> dict[str, Any]:
    """What a client of a tree reads from the streamed answer."""
    (case,) = cases.read(EXAMPLE)
    job = {
        "name": case.name,
        "case": cases.document(case),
        "surfaces": ["chat"],
        "starts": list(case.starts[:1]),
        "schedules": [SCHEDULE],
        "readings": True,
    }
    (found,) = TreeAdapter(tree, workers=1).run([job])
    if "readings" not in found:
        raise AdapterError(f"{tree} gave no answer")
    read: dict[str, Any] = found["readings"][SCHEDULE]
    return read


def shown(answers: dict[str, dict[str, Any]]) -> str:
    """The model's output, and what each client received of it, as the README shows
    them.
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
        for at, (call, text) in enumerate(got["calls"]):
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


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="conformance.before_after", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "trees",
        nargs="*",
        type=Path,
        metavar="TREE",
        help="the stock tree and the patched one",
    )
    parser.add_argument(
        "--names",
        nargs=2,
        default=["stock vLLM", "the patched vLLM"],
        help="what the trees are called",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--write", action="store_true", help="put the example into the README"
    )
    way.add_argument(
        "--check", action="store_true", help="fail when the README shows something else"
    )
    options = parser.parse_args()
    if len(options.trees) != 2:
        parser.error("give two trees: stock and patched")
    run_command.run_lane(lambda: show(options), AdapterError)


def show(options: argparse.Namespace) -> int:
    """Print, write or check the example; returns the exit code."""
    text = shown(dict(zip(options.names, map(answer, options.trees), strict=True)))
    readme = README.read_text(encoding="utf-8")
    made = BLOCK.sub(lambda match: match[1] + text + match[2], readme)
    if options.write:
        files.write_text(README, made)
    elif options.check and made != readme:
        sys.exit(
            f"README.md shows another answer; nox -s tables -- --example --write updates it\n\n{text}"
        )
    else:
        print(text)
    return 0


if __name__ == "__main__":
    main()
