# SPDX-License-Identifier: Apache-2.0
"""``inputs.lock``: everything that an image was made of, by sha256, from which it can be made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from patchset import files, paths
from patchset.errors import PatchsetError
from patchset.release import Arch, EngineName, FileName, Release, Sha256, Target
from patchset.series import order
from patchset.series.patched_release import PatchedRelease

_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
#: Names and texts that end up in messages and paths; an inputs.lock may come from a registry.
_Path = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+/-]*$", max_length=300)]
_Word = Annotated[str, Field(pattern=r"^[!-~]+$", max_length=500)]
#: Bound of an inputs.lock in bytes.
MAX_BYTES = 4 << 20


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Part):
    """A downloaded file."""

    file: FileName
    sha256: Sha256


class OnBase(_Part):
    """The base: its ``reference`` as it was named, the ``digest`` behind it, and each architecture's manifest."""

    reference: _Word
    digest: _Digest
    manifests: dict[Arch, _Digest]
    site: _Word
    version: _Word


class Inputs(_Part):
    """``kind`` thin: a layer on ``base``; full: the archive of one architecture, built by ``engine``.

    ``snapshot`` is the archive of Debian's packages that the base of a full image was made from, where one was named.
    ``files`` are those of the checkout, by path, that end up in the image; ``tool`` those of the program that made
    it: another tool may still make the same image.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")  # raised when the file's form changes
    kind: Literal["thin", "full"]
    release: _Word
    version: _Word
    target: Target
    digest: _Digest
    archs: list[Arch]
    base: OnBase | None = None
    engine: EngineName | None = None
    snapshot: _Word | None = None
    sources: list[Source]
    files: dict[_Path, Sha256]
    tool: dict[_Path, Sha256]

    def text(self) -> str:
        """The file."""
        return self.model_dump_json(indent=1, by_alias=True, exclude_none=True) + "\n"


def sources(release: Release, target: Target, archs: list[Arch]) -> list[Source]:
    """The downloads that a release's patched wheels are made of."""
    pins = [release.sdist, *(release.wheel(target, arch) for arch in archs)]
    return [Source(file=pin.file, sha256=pin.sha256) for pin in pins if pin]


def checkout_files(patched: PatchedRelease, target: Target, kind: str) -> dict[str, str]:
    """The sha256 of every file of the checkout that decides what is in an image."""
    root, release = paths.project_root(), patched.pin
    found = [release.folder / "release.toml", order.series_file(release)]
    found += [patch.file for patch in patched.patches]
    if kind == "full":
        found += [path for path in (root / "docker").iterdir() if path.is_file()]
        found += release.folder.glob(f"requirements.{target}*.lock")
    return _hashes(root, found)


def tool_files() -> dict[str, str]:
    """The sha256 of the modules that make wheels and images."""
    here = Path(__file__).parents[1]
    folders = ("image", "wheel", "source", "install", "registry", "attest")
    return _hashes(here, [path for folder in folders for path in (here / folder).glob("*.py")])


def _hashes(root: Path, found: list[Path]) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): files.sha256_file(path) for path in sorted(set(found))}


def differing(recorded: dict[str, str], found: dict[str, str]) -> list[str]:
    """What differs between two lists of files, one line each."""

    def short(hashes: dict[str, str], path: str) -> str:
        return f"sha256 {hashes[path][:16]}…" if path in hashes else "missing"

    return [
        f"{path}: {short(found, path)} here, {short(recorded, path)} in the published image"
        for path in sorted({*recorded, *found})
        if recorded.get(path) != found.get(path)
    ]


def read(content: bytes, where: str) -> Inputs:
    """Read an inputs.lock."""
    if len(content) > MAX_BYTES:
        raise PatchsetError(f"{where} has more than {MAX_BYTES} bytes")
    try:
        return Inputs.model_validate_json(content)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise PatchsetError(f"{where} is not an inputs.lock: {place}: {fault['msg']}") from error
