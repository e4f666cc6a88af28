# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share."""

from __future__ import annotations

import os

import click

from patchset.base.release import this_machine as this_machine

release_argument = click.argument("release", required=False, metavar="[RELEASE]")


def _set_from_dir(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        os.environ["PATCHSET_FROM_DIR"] = value


from_dir_option = click.option(
    "--from-dir",
    type=click.Path(exists=True, file_okay=False),
    expose_value=False,
    callback=_set_from_dir,
    help="Take downloads from this folder, by file name, instead of the network.",
)

arch_option = click.option(
    "--arch",
    type=click.Choice(["x86_64", "aarch64"]),
    default=lambda: this_machine(),
    show_default="this machine's",
    help="The processor that the wheel is for.",
)

target_option = click.option(
    "--target",
    type=click.Choice(["cuda", "cpu"]),
    default="cuda",
    show_default=True,
    help="What vLLM computes on.",
)
