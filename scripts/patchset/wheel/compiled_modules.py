# SPDX-License-Identifier: Apache-2.0
"""What a wheel says about the modules that its builder compiled: in ``patchset.json``, under ``compiled``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from patchset.series.native import native_reason

_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Word = Annotated[str, Field(max_length=300)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )


class Module(_Strict):
    """How one module was compiled. ``cuda`` is nvcc's version, None for a module without GPU code, and
    ``architectures`` the code that it holds: ``sm_90a``, ``compute_80``."""

    compiler: _Word
    torch: _Word
    cuda: _Word | None
    architectures: list[_Word]


class Compiled(_Strict):
    """The whole entry: modules by name, sha256 of files by their name in the wheel, third-party sources in words, and the
    files of the modules that are the official wheel's."""

    modules: dict[_Word, Module]
    files: dict[_Word, _Sha256]
    third_party: dict[_Word, _Word]
    official: list[_Word]

    def origin(self, file: str) -> str:
        """How a file was made, in one line."""
        how = self.modules.get(file.rpartition("/")[2].partition(".")[0])
        if how is None:
            return "made by the build of the compiled modules"
        gpu = f"nvcc {how.cuda} for {', '.join(how.architectures)}" if how.cuda else "no GPU code"
        return f"compiled by {how.compiler}, {gpu}, torch {how.torch}"


class _Provenance(BaseModel):
    compiled: Compiled


def official(members: Iterable[str], files: Collection[str]) -> list[str]:
    """The modules among the official wheel's members that are not among the compiled files."""
    return sorted(name for name in members if name.endswith(".so") and name not in files)


def read(provenance: bytes) -> Compiled | None:
    """What a ``patchset.json`` says was compiled; None when it says nothing, or something that cannot be.

    Only compiled and vendored paths count: no wheel can call a Python file of vLLM's own compiled.
    """
    try:
        found = _Provenance.model_validate_json(provenance).compiled
    except ValidationError:
        return None
    return found if all(name.startswith("vllm/") and native_reason(name) for name in found.files) else None
