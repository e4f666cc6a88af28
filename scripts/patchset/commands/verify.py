# SPDX-License-Identifier: Apache-2.0
"""``verify``"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from patchset import console
from patchset.commands.options import from_dir_option
from patchset.errors import EXIT_FAILED
from patchset.release import Arch, Target


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--release", help="The release to hold it against.", show_default="what the wheel says")
@click.option(
    "--target", type=click.Choice(["cuda", "cpu"]), help="Its target.", show_default="what the wheel says"
)
@click.option(
    "--arch",
    type=click.Choice(["x86_64", "aarch64"]),
    help="Its processor.",
    show_default="what the wheel says",
)
@from_dir_option
def command(
    file: Path, release: str | None, target: Target | None, arch: Arch | None, from_dir: Path | None
) -> None:
    """Prove that the wheel FILE is the official wheel plus the series, file by file.

    Prints how many files are identical to the official wheel's and which are the patched tree's. Every other
    file is named with what is wrong with it; the exit status is then 1.
    """
    from patchset.wheel import verify

    subject = verify.identify(file, release, target, arch)
    with console.step(f"verify against {subject.release.name} {subject.target} {subject.arch}"):
        report = verify.wheel(file, subject, from_dir=from_dir)
    for rule, count in report.explained.items():
        console.result(f"{count:6}  {rule}")
    for name in sorted(report.patched):
        console.result(f"        {name}")
    for name, reason in sorted(report.wrong.items()):
        console.result(f"wrong   {name}: {reason}")
    if report.wrong:
        console.result(f"FAILED  {file.name}: {len(report.wrong)} wrong")
        sys.exit(EXIT_FAILED)
    console.result(f"ok      {file.name} is the official {subject.target} wheel plus the series")
