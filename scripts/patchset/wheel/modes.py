# SPDX-License-Identifier: Apache-2.0
"""Which changes which kind of wheel can carry."""

from __future__ import annotations

from pathlib import PurePosixPath

from patchset.errors import PatchsetError
from patchset.native import native_reason
from patchset.patch import Patch
from patchset.release import Release, Target

#: The package: everything else of a source tree is not in the wheel.
PACKAGE = "vllm"

#: Folders below the package that precompiled mode fills from the official wheel, after patching: a
#: patch there would be lost without a word (``setup.py``, ``extract_precompiled_and_patch_package``).
_FILLED_LATE = (
    "vllm/third_party/triton_kernels",
    "vllm/third_party/flashmla",
    "vllm/third_party/deep_gemm",
    "vllm/third_party/fmha_sm100",
    "vllm/third_party/tml_fa4",
    "vllm/vllm_flash_attn",
)
#: The two files there that the source itself holds, and that are left alone.
_FLASH_ATTN_SOURCES = ("vllm/vllm_flash_attn/__init__.py", "vllm/vllm_flash_attn/flash_attn_interface.py")

#: Files outside the package that vLLM's build backend reads the wheel's metadata from.
_STEERS_METADATA = ("pyproject.toml", "setup.py")


class ModeError(PatchsetError):
    """The series changes what this mode cannot change."""


def overlay_refuses(path: str) -> str | None:
    """Why an overlay cannot carry a change of ``path``, or None when it can."""
    if path.startswith("requirements/") and not path.startswith(
        ("requirements/build/", "requirements/test/")
    ):
        return "requirements/ end up in the wheel's metadata"
    return native_reason(path)


def precompiled_refuses(path: str) -> str | None:
    """Why the precompiled mode cannot carry a change of ``path``, or None when it can."""
    if path in _FLASH_ATTN_SOURCES:
        return None
    for folder in _FILLED_LATE:
        if PurePosixPath(path).is_relative_to(folder):
            return f"{folder}/ is overwritten from the official wheel after patching"
    if path in _STEERS_METADATA or (path.startswith("vllm/third_party/") and path.endswith(".py")):
        return None
    return native_reason(path)


def in_wheel(path: str) -> bool:
    """Whether a file of the tree ends up in the wheel under its own path."""
    return path.startswith(f"{PACKAGE}/")


def check(release: Release, target: Target, patches: list[Patch], mode: str) -> None:
    """Refuse a series that ``mode`` cannot build.

    Raises:
        ModeError: names the first patch and path, and the mode that can do it.
    """
    refuses = overlay_refuses if mode == "overlay" else precompiled_refuses
    for patch in patches:
        for path in patch.paths:
            reason = refuses(path)
            if reason is None:
                continue
            raise ModeError(
                f"{patch.name} changes {path}, which {article(mode)} {mode} wheel cannot carry: {reason}",
                _way_out(release, target, path),
            )


def article(mode: str) -> str:
    """``an`` overlay, ``a`` precompiled."""
    return "an" if mode[0] in "aeiou" else "a"


def _way_out(release: Release, target: Target, path: str) -> str:
    if target == "cuda" and precompiled_refuses(path) is None:
        return f"nox -s build-wheel -- {release.name} --mode precompiled"
    return (
        "it takes everything compiled anew (--mode source, which this version does not have yet); "
        "or take the patch out of the series"
    )
