# SPDX-License-Identifier: Apache-2.0
"""What parsing costs: stock beside patched, and beside other parsers of the same
format.
"""

#: Raised by hand when figures can change.
SUITE_VERSION = 1
