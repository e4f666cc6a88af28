# SPDX-License-Identifier: Apache-2.0
"""Looking through a base's layers, without keeping them: whether it has the release where a thin image takes it to be."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

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
_OPAQUE = ".wh..wh..opq"


@dataclass
class _Search:
    """Walks down the layers; what a higher layer has or hides counts."""

    wanted: set[str]
    found: dict[str, str | None] = field(default_factory=dict)
    infos: set[tuple[str, str]] = field(default_factory=set)

    @property
    def done(self) -> bool:
        return self.wanted <= self.found.keys()

    def layer(self, tar: tarfile.TarFile, size: int) -> None:
        hidden: set[str] = set()
        here: dict[str, str | None] = {}
        for member in tar:
            if tar.offset > size:
                raise PatchsetError(f"a layer of the base unpacks to more than {size} bytes")
            name = member.name.removeprefix("./").strip("/")
            path = PurePosixPath(name)
            if path.name == _OPAQUE:
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


class _Unpacked(io.RawIOBase):
    """The bytes of a layer, unpacked as they come."""

    def __init__(self, pieces: Iterator[bytes], packed: bool) -> None:
        self._pieces, self._held = pieces, b""
        self._unzip = zlib.decompressobj(31) if packed else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        while not self._held:
            if self._unzip is not None and self._unzip.eof:  # some layers are several gzip files in a row
                piece, self._unzip = self._unzip.unused_data, zlib.decompressobj(31)
                piece = piece or next(self._pieces, b"")
                if not piece:
                    return 0
            elif self._unzip is not None and self._unzip.unconsumed_tail:
                piece = self._unzip.unconsumed_tail
            elif (piece := next(self._pieces, b"")) == b"":
                return 0
            self._held = self._unzip.decompress(piece, 1 << 20) if self._unzip else piece
        count = min(len(buffer), len(self._held))
        buffer[:count], self._held = self._held[:count], self._held[count:]
        return count


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
        stock = {f"{root}/{path}": entry["stock"] for path, entry in changed_files(wheel).items()}
    search = _Search({info, *(path for path, digest in stock.items() if digest is not None)})
    layers = media.parts(origin.manifest, origin.digest)[1:]
    with console.progress("layers", sum(entry["size"] for entry in layers)) as advance:
        for entry in reversed(layers):
            _read(repository, entry, search)
            advance(entry["size"])
            if search.done:
                break
    if search.found.get(info) is None:
        others = ", ".join(
            f"--site /{site} --base-version {version}" for site, version in sorted(search.infos)
        )
        raise PatchsetError(
            f"the base has no /{info}", f"it has: {others}" if others else "it has no vLLM at all"
        )
    wrong = [
        path for path, digest in stock.items() if digest is not None and search.found.get(path) != digest
    ]
    if wrong:
        raise PatchsetError(
            f"the base has other files than the release: {', '.join(wrong[:5])}",
            "the patches were not made for them; use the release's official image",
        )


def _read(repository: Repository, entry: dict[str, object], search: _Search) -> None:
    kind = str(entry.get("mediaType"))
    if "zstd" in kind:
        raise PatchsetError(f"a layer of the base is packed as {kind}, which cannot be looked into here")
    digest, size = str(entry["digest"]), int(str(entry["size"]))
    with repository.open_blob(digest, size) as pieces:
        unpacked: io.RawIOBase = _Unpacked(pieces, kind.endswith("gzip"))
        stream = io.BufferedReader(unpacked, 1 << 20)
        try:
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                search.layer(tar, _MAX_UNPACKED)
        except (tarfile.TarError, zlib.error) as error:
            raise PatchsetError(f"layer {digest} of the base cannot be read: {error}") from error
