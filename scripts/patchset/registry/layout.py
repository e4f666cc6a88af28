# SPDX-License-Identifier: Apache-2.0
"""OCI archives: tar files of an image layout, the folder that holds an image (OCI Image Layout Specification 1.0)."""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchset import files
from patchset.errors import PatchsetError
from patchset.registry import media

_BLOB = re.compile(r"(?:\./)?blobs/sha256/([0-9a-f]{64})")
_PIECE = 1 << 20
_MAX_MEMBERS = 10_000


class Layout:
    """An archive opened for reading. Blobs may be missing: those of a base that stays in its registry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, tuple[int, int]] = {}
        index = b"null"
        try:
            with tarfile.open(path, "r:") as tar:
                for count, member in enumerate(tar):
                    if count > _MAX_MEMBERS:
                        raise PatchsetError(f"{path} has more than {_MAX_MEMBERS} members")
                    if not member.isreg():
                        continue
                    if match := _BLOB.fullmatch(member.name):
                        self._places[f"sha256:{match[1]}"] = (member.offset_data, member.size)
                    elif member.name in ("index.json", "./index.json") and member.size <= media.MAX_MANIFEST:
                        content = tar.extractfile(member)
                        index = content.read() if content else index
        except (tarfile.TarError, OSError) as error:
            raise PatchsetError(f"{path} is not an OCI archive: {error}", "build the image again") from error
        self.index = media.parse(index, f"{path}: index.json")
        if not isinstance(self.index.get("manifests"), list):
            raise PatchsetError(f"{path} is not an OCI image layout: its index.json lists no manifests")

    def __contains__(self, digest: str) -> bool:
        return digest in self._places

    def read(self, digest: str, limit: int) -> bytes:
        """A small blob, checked by its digest."""
        if digest not in self._places or self._places[digest][1] > limit:
            raise PatchsetError(f"{self.path} has no blob {digest} of at most {limit} bytes")
        with self.open(digest) as pieces:
            content = b"".join(pieces)
        if media.digest(content) != digest:
            raise PatchsetError(f"{self.path}: blob {digest} was changed", "build the image again")
        return content

    @contextlib.contextmanager
    def open(self, digest: str, start: int = 0) -> Iterator[Iterator[bytes]]:
        """The bytes of a blob from ``start`` on."""
        offset, size = self._places[digest]
        sizes = [_PIECE] * ((size - start) // _PIECE) + [(size - start) % _PIECE]
        with self.path.open("rb") as file:
            file.seek(offset + start)
            yield map(file.read, sizes)


def write(path: Path, index: object, blobs: Mapping[str, bytes], epoch: int) -> None:
    """Write a small layout as a tar file whose bytes depend on nothing but the arguments."""
    members = {f"blobs/sha256/{digest.removeprefix('sha256:')}": content for digest, content in blobs.items()}
    members["index.json"] = media.dump(index)
    members["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    with files.atomic_file(path) as temp, tarfile.open(temp, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), epoch, 0o644
            tar.addfile(info, io.BytesIO(content))
