# SPDX-License-Identifier: Apache-2.0
"""``python -m cpu``: the cpu lane."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cpu import build_dir, lane, results, wheels
from patchset import console, files, release, run_command
from patchset.errors import PatchsetError
from patchset.options import from_dir_option

#: DFlash and DSpark draft as many.
MOST_MTP = 15


def mtp_range(text: str) -> list[int]:
    """``0-5``, ``3`` or ``0,3,5`` as numbers of drafted tokens.

    Raises:
        click.BadParameter: it is none of these, or more than ``MOST_MTP``.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise click.BadParameter(f"{text!r} is no range such as 0-5")
        found.update(range(int(first), int(last or first) + 1))
    if not found or max(found) > MOST_MTP:
        raise click.BadParameter(f"{text!r} is not within 0-{MOST_MTP}")
    return sorted(found)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--release",
    "name",
    default="v0.32.0",
    show_default=True,
    help="The release to test.",
)
@click.option(
    "--mtp",
    default="0-5",
    show_default=True,
    help="Numbers of drafted tokens k, up to 15: 0-5, 3, or 0,7,15.",
)
@click.option(
    "--stock",
    is_flag=True,
    help="Test the official wheel as well, beside the patched one.",
)
@click.option(
    "--patched/--no-patched",
    default=True,
    show_default=True,
    help="Test the release with its series.",
)
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A patched CPU wheel to test, instead of building one from the series.",
)
@click.option(
    "--soak",
    default=0,
    show_default=True,
    help="Requests of the soak at the largest k, 32 at a time; 0: no soak.",
)
@from_dir_option
@click.option(
    "--results",
    "keep",
    is_flag=True,
    help="Keep the totals in results/cpu, for docs/results.md.",
)
def command(
    name: str,
    mtp: str,
    stock: bool,
    patched: bool,
    wheel: Path | None,
    soak: int,
    keep: bool,
) -> None:
    """Serve a real model with MTP on the CPU, and compare every answer with what the model was taught.

    Without --wheel the wheel is built from the series of the release. Results, logs and the
    environment are kept in build/cpu. Fails when the patched wheel gave one wrong answer, or
    when the bursts were not irregular enough to prove anything.
    """
    pinned = release.load(name)
    ks = mtp_range(mtp)
    variants = []
    if stock:
        variants.append(lane.Variant("stock", wheels.stock(pinned)))
    if patched:
        chosen = wheel or wheels.patched(pinned)
        variants.append(lane.Variant("patched", chosen))
    judged = []
    for variant in variants:
        for place in lane.run(pinned, variant, ks, soak):
            judged.append(json.loads(place.read_text(encoding="utf-8")))
    table = results.table(results.read(build_dir() / "results"))
    files.write_text(build_dir() / "table.md", table + "\n")
    console.result(results.table(judged))
    if keep:
        results.keep(judged)
    bad = [
        p
        for p in judged
        if p["complaints"] or (p["variant"] == "patched" and p["right"] < p["requests"])
    ]
    if bad:
        places = ", ".join(f"{p['variant']} k={p['mtp']}" for p in bad)
        raise PatchsetError(
            f"the lane failed: {places}",
            f"read the results in {build_dir() / 'results'}",
        )


if __name__ == "__main__":
    run_command.run(command)
