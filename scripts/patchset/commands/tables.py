# SPDX-License-Identifier: Apache-2.0
"""``tables``"""

from __future__ import annotations

import click

from patchset import console, tables


@click.command()
def command() -> None:
    """Write the README's tables anew from the pins, the series and the receipts. 'lint' fails when they are stale."""
    console.note("README.md: tables written" if tables.write() else "README.md: nothing changed")
