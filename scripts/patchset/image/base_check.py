# SPDX-License-Identifier: Apache-2.0
"""Looking through a base's layers, without keeping them: whether it has the release where a thin image takes it to be."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from patchset.base import console
from patchset.base.errors import PatchsetError
from patchset.base.release import Arch
from patchset.image.base_manifest import Base, BaseManifest
from patchset.image.layer import Place
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.wheel.archive import Wheel
from patchset.wheel.overlay import changed_files

#: Bounds of what one layer may unpack to, in bytes, and of a file that is hashed.
_MAX_UNPACKED = 64 << 30
_MAX_FILE = 64 << 20
_INFO = re.compile(r"(?P<site>.+)/vllm-(?P<version>[^/]+)\.dist-info/METADATA")


def check(base: Base, where: Place, wheels: Mapping[Arch, Path]) -> None:
    """Read a base's layers, the uppermost first, until everything that the new layer replaces was seen."""
    with Repository(base.reference.at(base.digest)) as repository:
        for origin in base.manifests:
            with console.step(f"look into the base for {origin.platform['architecture']}"):
                _check(repository, origin, where, wheels[origin.arch])


def _check(repository: Repository, origin: BaseManifest, where: Place, wheel_file: Path) -> None:
    root = where.site.strip("/")
    info = f"{root}/vllm-{where.version}.dist-info/METADATA"
    with Wheel(wheel_file) as wheel:
        changed = {f"{root}/{path}": entry["stock"] for path, entry in changed_files(wheel).items()}
    stock = {path: digest for path, digest in changed.items() if digest is not None}
    search = _Search({info, *stock})
    layers = media.parts(origin.manifest, origin.digest)[1:]
    with console.progress("layers", sum(entry["size"] for entry in layers)) as advance:
        for entry in reversed(layers):
            search.layer(repository, entry)
            advance(entry["size"])
            if search.wanted <= search.found.keys():
                break
    if search.found.get(info) is None:
        others = ", ".join(
            f"--site /{site} --base-version {version}" for site, version in sorted(search.infos)
        )
        raise PatchsetError(
            f"the base has no /{info}", f"it has: {others}" if others else "it has no vLLM at all"
        )
    if wrong := [path for path, digest in stock.items() if search.found.get(path) != digest]:
        raise PatchsetError(
            f"the base has other files than the release: {', '.join(wrong[:5])}",
            "the patches were not made for them; use the release's official image",
        )


class _Search:
    """Walks down the layers; what a higher layer has or hides counts.

    ``found`` has the sha256 of each file of ``wanted`` that was seen, None for a hidden one; ``infos`` the places and
    versions of vLLM.
    """

    def __init__(self, wanted: set[str]) -> None:
        self.wanted = wanted
        self.found: dict[str, str | None] = {}
        self.infos: set[tuple[str, str]] = set()

    def layer(self, repository: Repository, entry: dict[str, Any]) -> None:
        """Look through the next layer."""
        kind, digest = str(entry.get("mediaType")), entry["digest"]
        if "zstd" in kind:
            raise PatchsetError(f"a layer of the base is packed as {kind}, which cannot be looked into here")
        with repository.open_blob(digest, entry["size"]) as pieces:
            file: Any = io.BufferedReader(_Pieces(pieces))
            try:
                unpacked = gzip.GzipFile(fileobj=file) if kind.endswith("gzip") else file
                with tarfile.open(fileobj=unpacked, mode="r|") as tar:
                    self._members(tar)
                while file.read(
                    1 << 20
                ):  # a tar file ends before its bytes do, and they are checked at their end
                    pass
            except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
                raise PatchsetError(f"layer {digest} of the base cannot be read: {error}") from error

    def _members(self, tar: tarfile.TarFile) -> None:
        hidden: set[str] = set()
        here: dict[str, str | None] = {}
        for member in tar:
            if tar.offset > _MAX_UNPACKED:
                raise PatchsetError(f"a layer of the base unpacks to more than {_MAX_UNPACKED} bytes")
            path = PurePosixPath(member.name.removeprefix("./").strip("/"))
            name = str(path)
            if path.name == ".wh..wh..opq":
                hidden.add(str(path.parent))
            elif path.name.startswith(".wh."):
                hidden.add(str(path.with_name(path.name.removeprefix(".wh."))))
            elif match := _INFO.fullmatch(name):
                self.infos.add((match["site"], match["version"]))
            if name in self.wanted and name not in self.found:
                content = tar.extractfile(member) if member.isreg() and member.size <= _MAX_FILE else None
                here[name] = hashlib.sha256(content.read()).hexdigest() if content else None
        self.found |= here
        for name in self.wanted - self.found.keys():
            if any(PurePosixPath(name).is_relative_to(gone) for gone in hidden):
                self.found[name] = None


class _Pieces(io.RawIOBase):
    """The bytes of a layer as they come, as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._held = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        self._held = self._held or next(self._pieces, b"")
        count = min(len(buffer), len(self._held))
        buffer[:count], self._held = self._held[:count], self._held[count:]
        return count
