# SPDX-License-Identifier: Apache-2.0
"""Which paths of a vLLM tree more than a copied Python file is made of."""

from __future__ import annotations

import re
from typing import Literal

Carrier = Literal["source", "none"]

#: Pattern of a path, why it is native, and the mode of wheel that carries a change.
_RULES: tuple[tuple[str, str, Carrier], ...] = (
    (
        r"requirements/(common|cuda|cpu)\.txt|pyproject\.toml",
        "ends up in the wheel's metadata",
        "none",
    ),
    (
        r"rust/.*|tools/build_rust\.py|rust-toolchain\.toml|build_rust\.sh|.*\.rs",
        "is compiled from crates, which are taken from the official wheel",
        "none",
    ),
    (r".*\.so", "is a binary, and those are compiled", "none"),
    (r"vllm/(third_party|vllm_flash_attn)/.*", "is vendored", "source"),
    (
        r"(csrc|cmake)/.*|CMakeLists\.txt|setup\.py|.*\.(c|cc|cpp|cu|cuh|h|hpp|cmake)",
        "is compiled, or steers the build",
        "source",
    ),
)


def native(path: str) -> tuple[str, Carrier] | None:
    """Why a change of a path is native, and what carries it; None for any other."""
    for pattern, reason, carrier in _RULES:
        if re.fullmatch(pattern, path):
            return f"{path} {reason}", carrier
    return None
