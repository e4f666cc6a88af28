# SPDX-License-Identifier: Apache-2.0
"""``tables``"""

from __future__ import annotations

import click

from patchset.base import console
from patchset.results import tables


@click.command()
def command() -> None:
    """Update the tables in README.md and docs/results.md from the pins, the series and the results.

    'lint' fails when they are out of date.
    """
    changed = tables.write()
    for name in changed:
        console.note(f"{name}: tables updated")
    if not changed:
        console.note("all tables are up to date")
