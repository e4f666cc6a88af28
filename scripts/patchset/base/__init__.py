# SPDX-License-Identifier: Apache-2.0
"""What every room uses: pins, errors, paths, files that are written whole, git and other programs."""
