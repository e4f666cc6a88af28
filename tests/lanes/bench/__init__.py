# SPDX-License-Identifier: Apache-2.0
"""What parsing costs: stock beside patched."""

#: Raised by hand when figures can change.
SUITE_VERSION = 1
