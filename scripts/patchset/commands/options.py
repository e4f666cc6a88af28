# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

release_argument = click.argument("release", required=False, metavar="[RELEASE]")

from_dir_option = click.option(
    "--from-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take downloads from this folder, by file name, instead of the network.",
)
