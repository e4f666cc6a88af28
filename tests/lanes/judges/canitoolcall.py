# SPDX-License-Identifier: Apache-2.0
"""canitoolcall's fixtures of this format through a release's serving code, judged by
canitoolcall's own checks.

A fixture has ids of its model's tokenizer and no finish reason. The suite's tokenizer
encodes its text; one with the tag ``truncated`` ends with ``length``, any other with
``stop``.
"""

import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from canitoolcall.checks import NONSTREAM, case_status, run_checks
from canitoolcall.fixtures import Family, Fixture, load_family, load_fixtures
from canitoolcall.results import Observation, ParsedToolCall, ParseResult, Status

from conformance.adapters import Job
from judges import replay
from patchset import paths

FAMILY = "qwen3-xml"
#: How an output is cut, by column: as a client that does not stream, and with 0, 3
#: and 5 drafted tokens a step.
COLUMNS = {"not streamed": "full", "k=0": "w1", "k=3": "mtp3#0", "k=5": "mtp5#0"}
#: Fixtures whose verdict is not this project's, with the reason.
DIFFERENCES = Path(__file__).with_name("differences.toml")


def start(fixture: Fixture) -> str:
    prompt = fixture.generation_prompt or ""
    if prompt.endswith("</think>\n\n"):
        return "closed"
    return "open" if prompt.endswith("<think>\n") else "plain"


def job(fixture: Fixture) -> Job:
    end = "length" if fixture.truncated else "stop"
    tools = [
        {
            "name": function["name"],
            "description": function.get("description", ""),
            "parameters": function.get("parameters", {}),
        }
        for function in (tool["function"] for tool in fixture.tools)
    ]
    return replay.job(
        fixture.id,
        "canitoolcall",
        start(fixture),
        COLUMNS.values(),
        tools=tools,
        output=fixture.raw_output,
        end=end,
        expected={"finish_reason": end},
    )


def parsed(read: Mapping[str, Any] | None) -> ParseResult:
    if read is None:
        return ParseResult(exception="HostError: the host died or gave no answer")
    return ParseResult(
        content=read["content"] or None,
        reasoning_content=read["reasoning"] or None,
        tool_calls=tuple(
            ParsedToolCall(call["name"], call["text"]) for call in read["calls"]
        ),
        exception=read["failed"] or None,
    )


def wrong(fixture: Fixture, family: Family, read: Mapping[str, Any]) -> dict[str, str]:
    """Return, by column, what canitoolcall's checks find wrong with what was read."""
    by_way = {way: parsed(read.get(way)) for way in COLUMNS.values()}
    whole = by_way.pop("full")
    rows = run_checks(fixture, family, Observation(whole, by_way))
    problems = {}
    for column, way in COLUMNS.items():
        label = NONSTREAM if way == "full" else way
        own = [row for row in rows if row.strategy == label]
        if case_status(own) not in (Status.PASS, Status.SOFT_PASS):
            bad = (row for row in own if row.status in (Status.FAIL, Status.ERROR))
            problems[column] = "; ".join(f"{row.check}: {row.detail}" for row in bad)
    return problems


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option("--both", is_flag=True, help="The stock tree as well.")
@click.option("--jobs", "workers", default=2, show_default=True, help="Processes.")
@click.option(
    "--results", "keep", is_flag=True, help="Keep totals in results/canitoolcall."
)
def command(names: tuple[str, ...], **how: Any) -> bool:
    """Replay canitoolcall's fixtures on each RELEASE, or the default one.

    canitoolcall's own checks judge what a client reads. Exit status 0: of patched
    releases only those of differences.toml are wrong, and all of these; 1: another
    one is, or one is right; 3: could not run.
    """
    family = load_family(FAMILY)
    fixtures = {fixture.id: fixture for fixture in load_fixtures(families=[FAMILY])}
    reasons = tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))
    all_wrong = replay.replay(
        "canitoolcall",
        names,
        [job(fixture) for fixture in fixtures.values()],
        COLUMNS,
        lambda name, read: wrong(fixtures[name], family, read),
        lambda right, found: {
            "canitoolcall": version("canitoolcall"),
            "fixtures": len(fixtures),
            "right": right,
            "wrong": sorted(found),
        },
        log=paths.build_dir() / "judges" / "canitoolcall.json",
        **how,
    )
    patched = {tree: bad for tree, bad in all_wrong.items() if tree.endswith("patched")}
    for tree, found in all_wrong.items():
        for fixture, bad in sorted(found.items()):
            why = next(iter(bad.values()))[:200]
            print(f"{tree}: {fixture} ({', '.join(bad)}): {why}")
            if tree in patched:
                print(f"    {reasons.get(fixture, 'no reason in differences.toml')}")
    return any(set(found) != set(reasons) for found in patched.values())
