# SPDX-License-Identifier: Apache-2.0
"""``python -m patchset COMMAND``: how commands are found, and how they end."""

from __future__ import annotations

import importlib
import sys

import click

from patchset import run_command

#: The modules of ``patchset.commands``, and which commands each has, in the order of the flow. A command ``new-patch`` is
#: the function ``new_patch_command``.
MODULES = {
    "inputs": "pin lock fetch",
    "series": "lint apply refresh share",
    "patches": "prove rebase drift bisect new-patch upstream",
    "artifacts": "build-wheel verify",
    "images": "build-image publish reproduce",
    "installed": "doctor",
}
COMMANDS = {name: module for module, names in MODULES.items() for name in names.split()}


class CommandGroup(click.Group):
    """Imports a command's module only when it is asked for, so that each command starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"patchset.commands.{COMMANDS[cmd_name]}")
        found: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return found


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
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
