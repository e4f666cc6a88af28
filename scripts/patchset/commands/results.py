# SPDX-License-Identifier: Apache-2.0
"""``results``"""

from __future__ import annotations

from pathlib import Path

import click

from patchset.base import console
from patchset.results import conformance


@click.command()
@click.argument("result", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(result: Path) -> None:
    """Condense RESULT, which the conformance suite wrote with --json, into the totals that docs/results.md shows."""
    for place in conformance.take(result):
        console.result(str(place))
