# SPDX-License-Identifier: Apache-2.0
"""``lint``"""

from __future__ import annotations

import sys

import click

from patchset.base import console
from patchset.base.errors import EXIT_FAILED
from patchset.base.release import releases
from patchset.results import totals
from patchset.results.lint import lint


@click.command()
def command() -> None:
    """Check the pins, series, diffs and headers under patches/. Needs no network and takes a second.

    Exit status 1, and a line for each fault, when something is not as it should be.
    """
    faults = lint()
    for fault in faults:
        console.result(fault)
    if not faults:
        for line in (line for release in releases() for line in totals.stale(release)):
            console.note(f"warning: {line}")
    console.note(f"lint: {len(faults)} faults" if faults else "lint: patches/ is as it should be")
    sys.exit(EXIT_FAILED if faults else 0)
