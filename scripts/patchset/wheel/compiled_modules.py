# SPDX-License-Identifier: Apache-2.0
"""What a wheel says about the modules that its builder compiled: in ``patchset.json``, under ``compiled``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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

    def words(self) -> str:
        """In one line."""
        gpu = f"nvcc {self.cuda} for {', '.join(self.architectures)}" if self.cuda else "no GPU code"
        return f"compiled by {self.compiler}, {gpu}, torch {self.torch}"


class Words(_Strict):
    """The whole entry: modules by name, sha256 of files by their name in the wheel, third-party sources in words, and the
    files of the modules that are the official wheel's."""

    modules: dict[_Word, Module]
    files: dict[_Word, _Sha256]
    third_party: dict[_Word, _Word]
    official: list[_Word]


def official(members: Iterable[str], files: Mapping[str, str]) -> list[str]:
    """The modules among the official wheel's members that are not among the compiled files."""
    return sorted(name for name in members if name.endswith(".so") and name not in files)


@dataclass(frozen=True)
class Notes:
    """The entry as it stands, and the files that it names with their sha256."""

    words: dict[str, object]
    files: dict[str, str]
    modules: dict[str, Module]

    def origin(self, name: str) -> str:
        """How a file was made."""
        module = self.modules.get(name.rpartition("/")[2].partition(".")[0])
        return module.words() if module else "made by the build of the compiled modules"


def read(provenance: bytes) -> Notes | None:
    """What a ``patchset.json`` says was compiled; None when it says nothing, or something that cannot be.

    Only compiled and vendored paths count: no wheel can call a Python file of vLLM's own compiled.
    """
    try:
        words = json.loads(provenance)["compiled"]
        found = Words.model_validate(words)
    except (ValueError, KeyError, TypeError, ValidationError, RecursionError):
        return None
    if not all(name.startswith("vllm/") and native_reason(name) for name in found.files):
        return None
    return Notes(words, found.files, found.modules)
