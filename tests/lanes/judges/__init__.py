# SPDX-License-Identifier: Apache-2.0
"""Judges that are not this project's: BFCL's checker and canitoolcall's checks, on a
release's serving code; and the suite's cases on vLLM's Rust frontend.
"""

from conformance import SUITE_VERSION

#: The folders of ``results/``, with the suite: raised when a verdict can change.
LANES = {"bfcl": 1, "canitoolcall": 1, "rust": SUITE_VERSION}
