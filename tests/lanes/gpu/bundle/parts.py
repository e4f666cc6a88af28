# SPDX-License-Identifier: Apache-2.0
"""Files of any size as parts that can be carried one by one, and the script that joins them."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from patchset import console, files
from patchset.errors import PatchsetError

#: A part is no larger than this many bytes.
MOST_PART = 60 << 20
SCRIPT = "gpu-lane.pyz"
_HOST = Path(__file__).parents[1] / "host"
_CHUNK = 1 << 20
_DICTIONARY = 1 << 27


def packed(file: Path, cache: Path) -> Path:
    """The file as ``.xz``, in ``cache`` by its sha256; made once. Some 2 MB a second on one core."""
    place = cache / f"{files.sha256_file(file)}.xz"
    with files.lock(place):
        if not place.is_file():
            size = file.stat().st_size
            filters: list[dict[str, int]] = [
                {"id": lzma.FILTER_X86},
                # A dictionary larger than the file costs memory and gains nothing.
                {"id": lzma.FILTER_LZMA2, "preset": 7, "dict_size": min(_DICTIONARY, max(size, 1 << 16))},
            ]
            with (
                console.step(f"compress {file.name} ({size / 1e6:.0f} MB)"),
                files.atomic_file(place) as temp,
                file.open("rb") as source,
                lzma.open(temp, "wb", format=lzma.FORMAT_XZ, filters=filters) as target,
                console.progress(file.name, size, unit="bytes") as advance,
            ):
                while piece := source.read(_CHUNK):
                    target.write(piece)
                    advance(len(piece))
    return place


def listed(items: Iterable[tuple[str, Path]], cache: Path) -> list[dict[str, Any]]:
    """The manifest's entries for files: ``items`` are their paths in the bundle and where they are now."""
    return [
        {
            "path": path,
            "size": file.stat().st_size,
            "sha256": files.sha256_file(file),
            "packed": (place := packed(file, cache)).name,
            "packed_size": place.stat().st_size,
        }
        for path, file in items
    ]


def split(
    entries: Iterable[dict[str, Any]], cache: Path, out: Path, most: int = MOST_PART
) -> list[dict[str, Any]]:
    """Write the packed files as one tar archive in parts of at most ``most`` bytes; returns the parts' entries.

    Parts are of one size, so that none is smaller than it need be.

    Raises:
        PatchsetError: there would be more parts than the names have places for.
    """
    unique = {entry["packed"]: entry["packed_size"] for entry in entries}
    blocks = sum(1 + -(-size // tarfile.BLOCKSIZE) for size in unique.values()) + 2  # two end the archive
    # tar writes whole records; a byte less would make a last part of a few bytes.
    whole = -(-blocks * tarfile.BLOCKSIZE // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
    count = -(-whole // most)
    if count > 999:
        raise PatchsetError(f"the bundle would have {count} parts")
    target = _Parts(out, -(-whole // count))
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
        for name, size in unique.items():
            info = tarfile.TarInfo(name)
            info.size = size
            with (cache / name).open("rb") as source:
                archive.addfile(info, source)
    target.close()
    return target.parts


class _Parts(io.RawIOBase):
    """A stream cut into files."""

    def __init__(self, folder: Path, size: int) -> None:
        self.parts: list[dict[str, Any]] = []
        self._folder, self._size = folder, size
        self._file: io.BufferedWriter | None = None
        self._digest, self._left = hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            if self._file is None:
                name = f"part-{len(self.parts) + 1:03}.bin"
                self._file = (self._folder / name).open("wb")
                self.parts.append({"name": name, "size": 0, "sha256": ""})
                self._digest, self._left = hashlib.sha256(), self._size
            piece = view[at : at + self._left]
            self._file.write(piece)
            self._digest.update(piece)
            self._left -= len(piece)
            self.parts[-1]["size"] += len(piece)
            at += len(piece)
            if self._left == 0:
                self._finish()
        return len(view)

    def _finish(self) -> None:
        if self._file is not None:
            self._file.close()
            self.parts[-1]["sha256"] = self._digest.hexdigest()
            self._file = None

    def close(self) -> None:
        self._finish()
        super().close()


def script(manifest: dict[str, Any], out: Path) -> Path:
    """Write the script: a zip archive that Python runs (zipapp), of ``host/`` and the manifest."""
    place = out / SCRIPT
    with place.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for module in sorted(_HOST.glob("*.py")):
                if module.name != "__init__.py":
                    archive.writestr(zipfile.ZipInfo(module.name), module.read_bytes())
            archive.writestr(zipfile.ZipInfo("manifest.json"), json.dumps(manifest, indent=1))
    place.chmod(0o755)
    return place
