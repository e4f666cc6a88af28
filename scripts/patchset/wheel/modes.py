# SPDX-License-Identifier: Apache-2.0
"""Which changes of the tree which kind of wheel can carry."""

from __future__ import annotations

from pathlib import PurePosixPath

from patchset.base.errors import PatchsetError
from patchset.base.release import Release, Target
from patchset.series.native import native_reason
from patchset.series.patch import Patch

#: Folders that precompiled mode fills from the official wheel, after patching: a patch there would be lost
#: without a word (``extract_precompiled_and_patch_package`` in vLLM's ``setup.py``).
_FILLED_LATE = (
    "vllm/third_party/triton_kernels",
    "vllm/third_party/flashmla",
    "vllm/third_party/deep_gemm",
    "vllm/third_party/fmha_sm100",
    "vllm/third_party/tml_fa4",
    "vllm/vllm_flash_attn",
)
#: The two files there that are the source's own and are left alone.
_LEFT_ALONE = ("vllm/vllm_flash_attn/__init__.py", "vllm/vllm_flash_attn/flash_attn_interface.py")

#: What vLLM's build backend makes the wheel's metadata of; an overlay keeps the official metadata.
_DEPENDENCIES = tuple(f"requirements/{name}.txt" for name in ("common", "cuda", "cpu"))
_BUILD_FILES = ("pyproject.toml", "setup.py")

#: Mode source takes what is compiled from crates, and the metadata, from the official wheel.
_RUST = ("rust", "rust-toolchain.toml", "build_rust.sh", "tools/build_rust.py")


def inside_wheel(path: str) -> bool:
    """Whether a file of the tree belongs into a wheel; tests, docs and the like do not."""
    return path.startswith("vllm/")


def steers_metadata(path: str) -> bool:
    """Whether vLLM's build backend makes the wheel's metadata of this file, among others."""
    return path in _DEPENDENCIES or path in _BUILD_FILES


def refusal(path: str, mode: str) -> str | None:
    """Why a wheel of ``mode`` cannot carry a change of ``path``, or None when it can."""
    if mode == "overlay":
        if path in _DEPENDENCIES:
            return f"{path} ends up in the wheel's metadata"
        return native_reason(path)
    if mode == "source":
        if any(PurePosixPath(path).is_relative_to(name) for name in _RUST):
            return f"{path} is compiled from crates, and the Rust parts are taken from the official wheel"
        if path in _DEPENDENCIES or path == "pyproject.toml":
            return f"{path} ends up in the wheel's metadata, which is the official one's"
        return "binaries are made, not patched" if path.endswith(".so") else None
    if path in _LEFT_ALONE or steers_metadata(path):
        return None
    for folder in _FILLED_LATE:
        if PurePosixPath(path).is_relative_to(folder):
            return f"{folder}/ is taken from the official wheel after patching"
    if path.startswith("vllm/third_party/") and path.endswith(".py"):
        return None
    return native_reason(path)


def check(release: Release, target: Target, patches: list[Patch], mode: str) -> None:
    """Refuse a series with a patch whose change this mode cannot bring into a wheel.

    Raises:
        PatchsetError: naming the patch, the path and the mode that can.
    """
    for patch in patches:
        if patch.native and mode != "source":
            native = next((path for path in patch.paths if native_reason(path)), "nothing native")
            raise PatchsetError(
                f"{patch.name} says 'Native: yes' (it changes {native}): only mode source takes a series with it",
                _way_out(release, target, ""),
            )
        for path in patch.paths:
            if reason := refusal(path, mode):
                a = "an" if mode == "overlay" else "a"
                raise PatchsetError(
                    f"{patch.name} changes {path}, which {a} {mode} wheel cannot carry: {reason}",
                    _way_out(release, target, path),
                )


def _way_out(release: Release, target: Target, path: str) -> str:
    """The command that carries a change of ``path``, "" for one that its patch calls native."""
    if target == "cuda":
        for mode in ("precompiled", "source") if path else ("source",):
            if refusal(path, mode) is None:
                return f"nox -s build-wheel -- {release.name} --mode {mode}"
    return (
        f"such a patch must be compiled: nox -s build-image -- {release.name} --target {target} --mode source"
    )
