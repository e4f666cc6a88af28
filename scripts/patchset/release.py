# SPDX-License-Identifier: Apache-2.0
"""Pins: what names a vLLM release for ever.

Each is a file ``patches/releases/<release>/release.toml``.
"""

import functools
import platform
import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal, cast

from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from patchset import files, paths
from patchset.errors import PatchsetError, UsageError

Target = Literal["cuda", "cpu"]
Arch = Literal["x86_64", "aarch64"]

#: Our names of processors as OCI writes them (Go's GOARCH).
GOARCH: dict[Arch, str] = {"x86_64": "amd64", "aarch64": "arm64"}

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=200)
]
#: A release's version, as a pattern; a folder v0.33.0.bak is not a release.
VERSION = r"\d+(?:\.\d+)+(?:(?:rc|\.post)\d+)?"
_NAME = re.compile(f"v{VERSION}")
#: Largest pin, in bytes.
MAX_PIN = 100_000


class _Pinned(BaseModel):
    """Unknown fields are errors: a misspelt pin must not be taken for a missing one."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-")
    )


class Artifact(_Pinned):
    """A file of a package index; ``sha256`` in hex, ``size`` in bytes."""

    project: str
    file: FileName
    sha256: Sha256
    size: Annotated[int, Field(strict=True, gt=0, le=1 << 40)]


class Release(_Pinned):
    """One pin.

    ``commit`` is abbreviated as the sdist embeds it; ``torch`` is the version that the
    official CUDA wheel requires; ``image`` the official image's reference; ``revision``
    the n of ``+mtp.n``; ``source_date_epoch`` (seconds since 1970) stamps everything
    that is built. Of a *maintained* release every lane has results; a *frozen* one
    keeps its proofs and the conformance suite.
    """

    name: str
    version: str
    default: bool = False
    tier: Literal["maintained", "frozen"] = "frozen"
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]
    torch: str
    image: str
    revision: Annotated[int, Field(strict=True, ge=1, lt=10_000)]
    source_date_epoch: Annotated[int, Field(strict=True, gt=0, lt=1 << 40)]
    sdist: Artifact
    wheels: dict[Target, dict[Arch, Artifact]]

    @property
    def folder(self) -> Path:
        """``patches/releases/<release>``."""
        return paths.releases_dir() / self.name

    def built_version(self, target: Target) -> str:
        """Return the version (PEP 440): ``0.33.0+mtp.1``, or ``0.33.0+mtp.1.cpu``.

        vLLM takes itself for a CPU build when the version of the distribution ``vllm``
        has "cpu" in it.
        """
        return f"{self.version}+mtp.{self.revision}" + (
            ".cpu" if target == "cpu" else ""
        )

    def wheel(self, target: Target, arch: Arch) -> Artifact:
        """Return the official wheel for a target and architecture."""
        if artifact := self.wheels.get(target, {}).get(arch):
            return artifact
        others = [r.name for r in releases() if arch in r.wheels.get(target, {})]
        raise UsageError(
            f"{self.name} has no official {target} wheel for {arch}",
            f"releases that have one: {', '.join(others) or 'none'}",
        )


@functools.cache
def version(name: str) -> Version:
    """Return the version of a release's name."""
    return Version(name.removeprefix("v"))


def this_machine() -> Arch:
    """Return the processor of this machine, as wheels name it."""
    return cast(Arch, platform.machine().replace("arm64", "aarch64"))


def release_names() -> list[str]:
    """Return all releases with a pin, oldest first."""
    names = [toml.parent.name for toml in paths.releases_dir().glob("v*/release.toml")]
    for name in names:
        if (paths.releases_dir() / name).is_symlink():
            raise PatchsetError(
                f"{paths.releases_dir() / name} is a link",
                "a release is a folder of its own: move it there",
            )
    return sorted(filter(_NAME.fullmatch, names), key=version)


def releases() -> list[Release]:
    """Return all pins, oldest first."""
    return [
        read_pin(paths.releases_dir() / name / "release.toml")
        for name in release_names()
    ]


def load(name: str | None = None) -> Release:
    """Return the pin called ``name`` (``v0.33.0`` or ``0.33.0``), or the default."""
    if name is None:
        defaults = [release for release in releases() if release.default]
        if len(defaults) != 1:
            raise PatchsetError(
                f"{len(defaults)} releases say default = true, not one: "
                f"{', '.join(r.name for r in defaults)}",
                "let exactly one patches/releases/*/release.toml have it",
            )
        return defaults[0]
    full = "v" + name.removeprefix("v")
    if full not in (known := release_names()):
        bare = f"v{name.lower().removeprefix('v')}."
        near = [one for one in known if f"{one}.".startswith(bare)]
        near += [one.name for one in releases() if name == "latest" and one.default]
        hint = f"did you mean {near[-1]}? " if near else ""
        raise UsageError(
            f"unknown release {name}",
            f"{hint}known: {', '.join(known) or 'none'}; nox -s pin -- {full} adds it, "
            "if vLLM has it",
        )
    return read_pin(paths.releases_dir() / full / "release.toml")


def read_pin(file: Path) -> Release:
    """Read and check one ``release.toml``."""
    try:
        return parse(files.read_regular(file, MAX_PIN).decode(), file)
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(
            f"{file} cannot be read: {error}", "fix the file by hand"
        ) from error


def parse(text: str, file: Path) -> Release:
    """Check the text of a ``release.toml``."""
    try:
        fields = tomllib.loads(text)
        release = Release.model_validate({"name": file.parent.name, **fields})
    except ValidationError as error:
        where = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()
        )
        raise PatchsetError(f"{file}: {where}", "fix the file by hand") from error
    except (ValueError, RecursionError) as error:
        raise PatchsetError(
            f"{file} cannot be read: {error}", "fix the file by hand"
        ) from error
    if release.name != f"v{release.version}":
        raise PatchsetError(
            f"{file}: version {release.version} is in the folder {release.name}",
            "rename the folder, or correct the version",
        )
    return release
