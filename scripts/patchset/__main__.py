# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``python -m patchset``."""

from patchset.cli import main

main()
