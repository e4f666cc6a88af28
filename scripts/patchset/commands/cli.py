# SPDX-License-Identifier: Apache-2.0
"""``python -m patchset COMMAND``: how commands are found, and how they end."""

from __future__ import annotations

import importlib
import sys

import click

from patchset.base import run_command

#: In the order of the flow; each is a module under ``patchset.commands``.
COMMANDS = (
    "pin", "lock", "fetch", "lint", "tables", "results", "apply", "refresh", "share", "prove", "rebase", "drift", "bisect",
    "new-patch", "upstream", "build-wheel", "verify", "build-image", "publish", "reproduce", "patch-installed", "doctor",
)  # fmt: skip


class CommandGroup(click.Group):
    """Imports a command's module only when it is asked for, so that ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = importlib.import_module(
            f"patchset.commands.{cmd_name.replace('-', '_')}"
        ).command
        return found


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Build patched vLLM wheels and images from pinned releases.

    Exit status: 0 done; 1 failed or not as it should be; 2 wrong command line; 3 a patch conflicts;
    4 a patch is already present; 5 a program is missing; 6 not found on a package index or registry,
    or no answer from it; 7 a disk is full; 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run one command of the tool."""
    arguments = sys.argv[1:] if arguments is None else arguments
    # Before Ctrl-C becomes an exception: pydantic turns one that comes while a model is defined into an error of its own.
    for name in arguments[:1]:
        cli.get_command(click.Context(cli), name)
    run_command.run(cli, arguments)
