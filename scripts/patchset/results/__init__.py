# SPDX-License-Identifier: Apache-2.0
"""What was found of releases: totals, the tables made of them, and the checks of patches/."""
