# SPDX-License-Identifier: Apache-2.0
"""``verify``"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED, UsageError
from patchset.commands.options import from_dir_option
from patchset.publish import check
from patchset.wheel.verify import verify


@click.command()
@click.argument("what", metavar="FILE|REGISTRY/NAME:TAG")
@click.option(
    "--allow-compiled",
    is_flag=True,
    help="Take modules that the wheel's builder compiled on that builder's word.",
)
@click.option("--key", help="Of an image: who must have signed it, as a public key of cosign.")
@click.option("--identity", metavar="REGEXP", help="Of an image: the workflow that must have signed it.")
@click.option("--issuer", metavar="URL", help="Of an image: who vouches for that identity.")
@from_dir_option
def command(
    what: str, allow_compiled: bool, key: str | None, identity: str | None, issuer: str | None
) -> None:
    """Prove that the wheel FILE is the official files plus the series, file by file and byte by byte; or that a published
    image has its attestations, signed by whom you name.

    Exit status 1, with the name of each file that is something else, when it is not.
    """
    file = Path(what)
    if not file.exists() and file.suffix != ".whl":
        if "/" not in what:
            raise UsageError(
                f"{what} is neither a file nor REGISTRY/NAME:TAG",
                "nox -s build-wheel makes a wheel and prints its path",
            )
        for line in check.verify(what, key=key, identity=identity, issuer=issuer):
            console.result(line)
        return
    if not file.is_file():
        raise UsageError(f"there is no file {what}", "nox -s build-wheel makes one and prints its path")
    report = verify(file, allow_compiled=allow_compiled)
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
