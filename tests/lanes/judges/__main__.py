# SPDX-License-Identifier: Apache-2.0
"""``python -m judges JUDGE [RELEASE…]``: bfcl, canitoolcall or rust.

Exit status 0: patched releases are all right; 1: one is not; 3: could not run.
"""

import click

from judges import bfcl, canitoolcall, rust
from patchset import run_command

command = click.Group(
    "judges",
    {"bfcl": bfcl.command, "canitoolcall": canitoolcall.command, "rust": rust.command},
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Let others judge what a client reads of a release's serving code.",
)

run_command.run_lane(lambda: command.main(standalone_mode=False) or 0)
