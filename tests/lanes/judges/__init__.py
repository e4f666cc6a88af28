# SPDX-License-Identifier: Apache-2.0
"""Judges that are not this project's: BFCL's checker and canitoolcall's checks, on a
release's serving code; and the suite's cases on vLLM's Rust frontend.
"""

from dataclasses import dataclass

import conformance


@dataclass(frozen=True)
class Lane:
    """Where a judge's rows are kept.

    Attributes:
        name: The folder of ``results/``.
        suite: Raised when a verdict can change.

    """

    name: str
    suite: int


BFCL = Lane("bfcl", 1)
CANITOOLCALL = Lane("canitoolcall", 1)
RUST = Lane("rust", conformance.SUITE_VERSION)
LANES = (BFCL, CANITOOLCALL, RUST)
