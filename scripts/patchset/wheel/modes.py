# SPDX-License-Identifier: Apache-2.0
"""Which changes of the tree which kind of wheel can carry."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from patchset.errors import PatchsetError
from patchset.release import Release, Target
from patchset.series.native import native_reason
from patchset.series.patched_release import PatchedRelease

Mode = Literal["overlay", "source"]

#: What the wheel's metadata is made of; both modes keep the official metadata.
_DEPENDENCIES = tuple(f"requirements/{name}.txt" for name in ("common", "cuda", "cpu"))
#: Mode source takes what is compiled from crates from the official wheel.
_RUST = ("rust", "rust-toolchain.toml", "build_rust.sh", "tools/build_rust.py")


def inside_wheel(path: str) -> bool:
    """Whether a file of the tree belongs into a wheel; tests, docs and the like do not."""
    return path.startswith("vllm/")


def refusal(path: str, mode: Mode) -> str | None:
    """Why a wheel of ``mode`` cannot carry a change of ``path``, or None when it can."""
    if mode == "overlay":
        if path in _DEPENDENCIES:
            return f"{path} ends up in the wheel's metadata"
        return native_reason(path)
    if any(PurePosixPath(path).is_relative_to(name) for name in _RUST):
        return f"{path} is compiled from crates, and the Rust parts are taken from the official wheel"
    if path in _DEPENDENCIES or path == "pyproject.toml":
        return f"{path} ends up in the wheel's metadata, which is the official one's"
    return "binaries are made, not patched" if path.endswith(".so") else None


def check(patched: PatchedRelease, target: Target, mode: Mode) -> None:
    """Refuse a series with a patch whose change this mode cannot bring into a wheel."""
    for patch in patched.patches:
        if patch.native and mode != "source":
            native = next((path for path in patch.paths if native_reason(path)), "nothing native")
            raise PatchsetError(
                f"{patch.name} says 'Native: yes' (it changes {native}): only mode source takes a series with it",
                _way_out(patched.pin, target, ""),
            )
        for path in patch.paths:
            if reason := refusal(path, mode):
                a = "an" if mode == "overlay" else "a"
                raise PatchsetError(
                    f"{patch.name} changes {path}, which {a} {mode} wheel cannot carry: {reason}",
                    _way_out(patched.pin, target, path),
                )


def _way_out(release: Release, target: Target, path: str) -> str:
    """The command that carries a change of ``path``, "" for one that its patch calls native."""
    if target == "cuda" and (not path or refusal(path, "source") is None):
        return f"nox -s build-wheel -- {release.name} --mode source"
    return (
        f"such a patch must be compiled: nox -s build-image -- {release.name} --target {target} --mode source"
    )
