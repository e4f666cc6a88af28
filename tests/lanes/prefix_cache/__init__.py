# SPDX-License-Identifier: Apache-2.0
"""Do cached prefixes of hybrid models hold what they say, with drafts and without."""

#: Raised by hand when a verdict can change.
SUITE_VERSION = 2
