# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path

import click

from patchset.base.release import this_machine as this_machine

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

release_argument = click.argument("release", required=False, metavar="[RELEASE]")


def _set_from_dir(context: click.Context, parameter: click.Parameter, value: Path | None) -> None:
    if value:
        os.environ["PATCHSET_FROM_DIR"] = str(value)


from_dir_option = click.option(
    "--from-dir",
    type=FOLDER,
    expose_value=False,
    callback=_set_from_dir,
    help="Take downloads from this folder, by file name, instead of the network.",
)

arch_option = click.option(
    "--arch",
    type=click.Choice(["x86_64", "aarch64"]),
    default=this_machine,
    show_default="this machine's",
    help="The processor that the wheel is for.",
)

target_option = click.option(
    "--target", type=click.Choice(["cuda", "cpu"]), default="cuda", help="What vLLM computes on."
)
