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

from patchset import console
from patchset.errors import PatchsetError
from patchset.image.base_manifest import Base, BaseManifest
from patchset.image.layer import Place
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.release import Arch
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
    found: dict[str, str | None] = {}
    infos: set[str] = set()
    layers = media.parts(origin.manifest, origin.digest)[1:]
    with console.progress("layers", sum(entry["size"] for entry in layers)) as advance:
        for entry in reversed(layers):
            here, releases = _look(repository, entry, {info, *stock} - found.keys())
            found |= here
            infos |= releases
            advance(entry["size"])
            if {info, *stock} <= found.keys():
                break
    if found.get(info) is None:
        others = ", ".join(sorted(infos))
        raise PatchsetError(
            f"the base has no /{info}", f"it has: {others}" if others else "it has no vLLM at all"
        )
    if wrong := [path for path, digest in stock.items() if found.get(path) != digest]:
        raise PatchsetError(
            f"the base has other files than the release: {', '.join(wrong[:5])}",
            "the patches were not made for them; use the release's official image",
        )


def _look(
    repository: Repository, entry: dict[str, Any], wanted: set[str]
) -> tuple[dict[str, str | None], set[str]]:
    """Look through a layer: the sha256 of each file of ``wanted`` that it has, None for one that it hides; and where it
    has which vLLM, as options of the command."""
    kind, digest = str(entry.get("mediaType")), entry["digest"]
    if "zstd" in kind:
        raise PatchsetError(f"a layer of the base is packed as {kind}, which cannot be looked into here")
    found: dict[str, str | None] = {}
    infos: set[str] = set()
    hidden: set[str] = set()
    with repository.open_blob(digest, entry["size"]) as pieces:
        file: Any = io.BufferedReader(_Pieces(pieces), 1 << 20)
        try:
            unpacked = gzip.GzipFile(fileobj=file) if kind.endswith("gzip") else file
            with tarfile.open(fileobj=unpacked, mode="r|") as tar:
                for member in tar:
                    if tar.offset > _MAX_UNPACKED:
                        raise PatchsetError(f"a layer of the base unpacks to more than {_MAX_UNPACKED} bytes")
                    path = PurePosixPath(member.name.removeprefix("./").strip("/"))
                    if path.name == ".wh..wh..opq":
                        hidden.add(str(path.parent))
                    elif path.name.startswith(".wh."):
                        hidden.add(str(path.with_name(path.name.removeprefix(".wh."))))
                    elif match := _INFO.fullmatch(str(path)):
                        infos.add(f"--site /{match['site']} --base-version {match['version']}")
                    if str(path) in wanted:
                        small = member.isreg() and member.size <= _MAX_FILE
                        content = tar.extractfile(member) if small else None
                        found[str(path)] = hashlib.sha256(content.read()).hexdigest() if content else None
            # A tar file ends before its bytes do, and they are checked at their end.
            while file.read(1 << 20):
                pass
        except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
            raise PatchsetError(f"layer {digest} of the base cannot be read: {error}") from error
    for name in wanted - found.keys():
        if any(PurePosixPath(name).is_relative_to(gone) for gone in hidden):
            found[name] = None
    return found, infos


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
