# SPDX-License-Identifier: Apache-2.0
"""``verify``"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED
from patchset.commands.options import from_dir_option
from patchset.wheel.verify import verify


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--allow-compiled",
    is_flag=True,
    help="Take modules that the wheel's builder compiled on that builder's word.",
)
@from_dir_option
def command(file: Path, allow_compiled: bool, from_dir: Path | None) -> None:
    """Prove that the wheel FILE is the official files plus the series, file by file and byte by byte.

    Exit status 1, with the name of each file that is something else, when it is not.
    """
    report = verify(file, allow_compiled=allow_compiled, from_dir=from_dir)
    console.result(f"{len(report.official)} files are the official wheel's")
    for word, names in (("patched", report.patched), ("removed", report.removed)):
        for name in names:
            console.result(f"{word:8} {name}")
    for name, origin in sorted(report.modules.items()):
        console.result(f"module   {name}: {origin}")
    for name, rule in report.made.items():
        console.result(f"made     {name}: {rule}")
    for deviation in report.deviations:
        console.result(f"WRONG    {deviation}")
    counts = f"{len(report.deviations)} deviations from official {report.release} {report.target} + series"
    console.result(f"{report.wheel}: {counts}")
    sys.exit(EXIT_FAILED if report.deviations else 0)
