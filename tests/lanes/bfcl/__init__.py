# SPDX-License-Identifier: Apache-2.0
"""BFCL's published answers through a release's serving code, judged by BFCL's own
checker.
"""

#: Raised by hand when a verdict can change.
SUITE_VERSION = 1
