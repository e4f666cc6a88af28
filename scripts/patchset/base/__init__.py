# SPDX-License-Identifier: Apache-2.0
"""What every package uses: pins, errors, paths, files that are written whole, git and other programs."""
