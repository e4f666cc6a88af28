# SPDX-License-Identifier: Apache-2.0
"""``reproduce``"""

from __future__ import annotations

import sys

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED
from patchset.commands.options import from_dir_option
from patchset.publish.reproduce import reproduce


@click.command()
@click.argument("what", metavar="REGISTRY/NAME:TAG|TAG")
@from_dir_option
def command(what: str) -> None:
    """Make a published image again from its inputs.lock, and compare digests.

    A bare TAG takes published/TAG.inputs.lock. Exit status 1, with the name of each input or file that differs, when
    the digest is another.
    """
    reports = reproduce(what)
    for report in reports:
        for line in report.differences:
            console.result(f"DIFFERS  {line}")
        if report.same:
            console.result(f"same     {report.rebuilt}")
            continue
        for line in report.notes:
            console.result(f"tool     scripts/patchset/{line}")
        console.result(f"published {report.published}")
        console.result(f"here      {report.rebuilt or 'not made: its inputs differ'}")
    sys.exit(0 if all(report.same for report in reports) else EXIT_FAILED)
