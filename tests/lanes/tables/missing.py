# SPDX-License-Identifier: Apache-2.0
"""``python -m tables.missing``: run what is not run, or out of date, of releases."""

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator

import click

import results
from conformance.table import K_BY_K
from patchset import console, paths, run_command
from patchset.release import Release, load, releases
from patchset.series import patched_files
from patchset.wheel import plugin
from server import check as receipts
from server import model
from tables.__main__ import SUITES, SUMMARY, read

Command = tuple[str, ...]
#: A release that takes it makes grammars in the model's own format.
_GRAMMAR = "vllm/tool_parsers/qwen_structural_tag.py"
#: Cases of each corpus that a server is asked.
SAMPLE = "40"
#: Frozen releases whose stock is judged too: PR #35421's, and the last of its kind.
FROZEN_STOCK = ("v0.16.0", "v0.20.2")
#: A row of each tree, and the options that choose it.
SIDES = {"stock": ("--stock",), "patched": ()}
#: Of the default release: other reasoning parsers that the series reads.
PAIRS = (
    "nemotron_v3/qwen3_coder",
    "deepseek_r1/qwen3_coder",
    "step3p5/qwen3_coder",
    "step3p5/step3p5",
    "step5/step5",
)


def commands(release: Release) -> Iterator[tuple[str, str, Command]]:
    """Yield lane, row, and the module with the arguments that make it, of a release."""
    name = release.name
    frozen = release.tier == "frozen"
    quick = frozen and name not in K_BY_K

    def alone(*options: str) -> Command:
        return ("conformance", name, *options, "--quick", "--results")

    # One run judges both trees by suite and corpora.
    drafts = () if release.default else ("--drafts",)
    whole = ("conformance", name, "--guard", "--sample", SAMPLE, *drafts, "--results")
    for kind in ("patched",) if frozen and name not in FROZEN_STOCK else results.KINDS:
        yield "conformance", kind, alone(*SIDES[kind]) if quick else whole
    if not quick:
        yield "conformance", "patched guard", whole
    if (paths.patches_dir() / "plugin" / plugin.PACKAGE / f"{name}.sha256").is_file():
        yield "conformance", "plugin", alone("--plugin", str(plugin.build()))
    if frozen:
        return
    for kind in results.KINDS:
        yield "corpora", kind, whole
        for pair in PAIRS if release.default else ():
            yield "conformance", f"{kind} {pair}", alone(*SIDES[kind], "--pair", pair)
    yield "prefix_cache", "patched", ("prefix_cache", name, "--results")
    if _GRAMMAR in (patched_files.read(release) or {}):
        for kind in results.KINDS:
            yield "grammars", kind, ("grammars", name, "--stock", "--results")
    asked = [("judges", "bfcl"), ("judges", "canitoolcall")] if name in SUMMARY else []
    for arguments in [*asked, ("clients",)] if release.default else asked:
        # Stock stays as it is: once it is judged, the patched tree is run alone.
        both = ("--both",) if is_missing(arguments[-1], release, "stock") else ()
        for kind in results.KINDS:
            yield arguments[-1], kind, (*arguments, name, *both, "--results")
    if name in SUMMARY:
        yield "bench", "patched", ("bench", name, "--results")
    if release.default:
        yield (
            "corpora",
            "reader",
            ("conformance", "--reader", "--case=corpora", "--sample=0", "--results"),
        )
        yield "rust", "stock", ("judges", "rust", name, "--results")
        for kind in results.KINDS:
            yield "history", kind, ("history", name, "--both", "--results")
            yield "peers", kind, ("peers", name, "--results")
    if name == model.RELEASE:
        arguments = ("--target", "cpu", "--all", "--seconds", "28800", "--results")
        yield "receipts", "cpu", ("server", name, *arguments)


def is_missing(lane: str, release: Release, row: str) -> bool:
    """Return whether a row is missing, or the series or the suite has changed since."""
    if lane == "receipts":
        every = receipts.kept(release)
        return not any(receipts.is_current(r) for r in every if r["target"] == row)
    kept = read(lane, release.name).get(row)
    return kept is None or bool(results.outdated(kept, SUITES[lane], release.name))


def _missing(asked: list[tuple[str, Release, str, Command]]) -> list[Command]:
    return list(dict.fromkeys(each[3] for each in asked if is_missing(*each[:3])))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="[RELEASE]...", nargs=-1)
@click.option(
    "--lane", "lanes", multiple=True, help="This lane alone; may be repeated."
)
@click.option(
    "--list", "only_list", is_flag=True, help="Run nothing; say what is left."
)
def command(names: tuple[str, ...], lanes: tuple[str, ...], only_list: bool) -> None:
    """Run the lanes whose results are missing or out of date.

    Of each RELEASE, or of all; of frozen ones the suite alone, at k = 0 and 5, as of
    plugins and other pairs of parsers. Hours; what is done is kept, so that the same
    command goes on after an interruption. Exit status 1: something is left.
    """
    chosen = [load(name) for name in names] or list(releases())
    asked = [
        (lane, release, row, arguments)
        for release in chosen
        for lane, row, arguments in commands(release)
        if lane in (lanes or (lane,))
    ]
    began = time.monotonic()
    todo = _missing(asked)
    for number, arguments in enumerate([] if only_list else todo, 1):
        minutes = (time.monotonic() - began) / 60
        console.note(
            f"{number} of {len(todo)}, {minutes:.0f} min: {shlex.join(arguments)}"
        )
        subprocess.run([sys.executable, "-m", *arguments], check=False)
    left = _missing(asked)
    for arguments in left:
        console.note(f"left: {shlex.join(arguments)}")
    console.note(f"{len(left)} left")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    run_command.run(command)
