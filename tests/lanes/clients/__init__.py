# SPDX-License-Identifier: Apache-2.0
"""Real agents write real files, asked of a release's own serving code: README.md."""

#: Raised by hand when a verdict can change.
SUITE_VERSION = 5
