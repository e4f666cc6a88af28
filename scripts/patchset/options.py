# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from patchset.release import this_machine as this_machine

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

release_argument = click.argument("release", required=False, metavar="[RELEASE]")


arch_option = click.option(
    "--arch",
    type=click.Choice(["x86_64", "aarch64"]),
    default=this_machine,
    show_default="this machine's",
    help="The processor that the wheel is for.",
)


def _serving_python() -> Path:
    """The first python3 on the path outside of this environment, if any."""
    own = Path(sys.prefix).resolve()
    others = [
        place
        for place in os.get_exec_path()
        if not Path(place).resolve().is_relative_to(own)
    ]
    return Path(shutil.which("python3", path=os.pathsep.join(others)) or sys.executable)


python_option = click.option(
    "--python",
    type=FILE,
    default=_serving_python,
    show_default="the first python3 on the path that is not of this environment",
    help="The interpreter of the environment in which vLLM is installed.",
)

target_option = click.option(
    "--target",
    type=click.Choice(["cuda", "cpu"]),
    default="cuda",
    help="What vLLM computes on.",
)
