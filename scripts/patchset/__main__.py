# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m patchset``."""

from patchset.commands.cli import main

if __name__ == "__main__":
    main()
