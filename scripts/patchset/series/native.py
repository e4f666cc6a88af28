# SPDX-License-Identifier: Apache-2.0
"""Which paths of a vLLM tree end up compiled, or come from the wheel's vendored binaries."""

from __future__ import annotations

from pathlib import PurePosixPath

_FOLDERS = ("csrc", "cmake", "rust", "vllm/third_party", "vllm/vllm_flash_attn")
_FILES = (
    "CMakeLists.txt",
    "setup.py",
    "pyproject.toml",
    "rust-toolchain.toml",
    "build_rust.sh",
)
_SUFFIXES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".cmake", ".so")


def native_reason(path: str) -> str | None:
    """Why a change of ``path`` (relative to the tree) needs a compiler, or None when it does not."""
    pure = PurePosixPath(path)
    for folder in _FOLDERS:
        if pure.is_relative_to(folder):
            return f"{folder}/ is {'vendored' if 'vllm/' in folder else 'compiled'}"
    if path in _FILES:
        return f"{path} steers the build"
    if pure.suffix in _SUFFIXES:
        return f"{pure.suffix} files are compiled"
    return None
