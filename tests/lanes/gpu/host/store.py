# SPDX-License-Identifier: Apache-2.0
"""The parts of a bundle on their way into a store folder, and the bundle's files made from them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 20


class HostError(Exception):
    """What is wrong, in one line."""


def sha256(file: Path) -> str:
    """The sha256 of a file in hex."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def accept(manifest: dict[str, Any], places: Sequence[Path], store: Path) -> list[str]:
    """Move the parts that lie in ``places`` into the store, and return the names of those still missing.

    A part that is not what the manifest says is named in an error and stays where it is; the others are kept.

    Raises:
        HostError: a part has another sha256.
    """
    parts = store / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    wrong = []
    for part in manifest["parts"]:
        kept = parts / part["name"]
        if kept.is_file():
            continue
        for place in places:
            found = place / part["name"]
            if not found.is_file():
                continue
            if found.stat().st_size != part["size"] or sha256(found) != part["sha256"]:
                wrong.append(str(found))
                continue
            unfinished = parts / f".{part['name']}.unfinished"
            shutil.copyfile(found, unfinished)
            if sha256(unfinished) != part["sha256"]:
                raise HostError(f"{found} changed while it was copied; run it again")
            unfinished.replace(kept)
            with contextlib.suppress(OSError):  # a folder that may not be written to keeps its copy
                found.unlink()
            break
    if wrong:
        raise HostError(f"not the part that the bundle has (sha256): {', '.join(wrong)}; deliver it again")
    return missing(manifest, store)


def missing(manifest: dict[str, Any], store: Path) -> list[str]:
    """Names of the parts that have not been delivered yet; none once the bundle is unpacked."""
    if _unpacked(manifest, store):
        return []
    return [part["name"] for part in manifest["parts"] if not (store / "parts" / part["name"]).is_file()]


def unpack(manifest: dict[str, Any], store: Path) -> Path:
    """The bundle's files in ``store/files``, made from all parts; done once. The parts are deleted then.

    Raises:
        HostError: a part or a file is not what the manifest says.
    """
    folder = store / "files"
    if _unpacked(manifest, store):
        return folder
    unfinished = store / ".files.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    packed = unfinished / "packed"
    packed.mkdir(parents=True)
    known = {file["packed"]: file for file in manifest["files"]}
    with _Joined([store / "parts" / part["name"] for part in manifest["parts"]]) as joined:
        stream: BinaryIO = joined  # type: ignore[assignment]  # tarfile reads, and does nothing else
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if not member.isfile() or member.name not in known:
                    raise HostError(f"the parts hold {member.name[:80]!r}, which the bundle has not")
                source = archive.extractfile(member)
                if source is None or member.size != known[member.name]["packed_size"]:
                    raise HostError(f"{member.name} is not whole")
                with (packed / member.name).open("wb") as target:
                    shutil.copyfileobj(source, target, _CHUNK)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # lzma and hashlib leave Python's lock
        list(pool.map(lambda file: _unpack_one(packed, unfinished, file), manifest["files"]))
    shutil.rmtree(packed)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    (store / "UNPACKED").write_text(_key(manifest), encoding="utf-8")
    shutil.rmtree(store / "parts", ignore_errors=True)
    return folder


def _unpack_one(packed: Path, folder: Path, file: dict[str, Any]) -> None:
    place = folder / file["path"]
    if not place.resolve().is_relative_to(folder.resolve()):
        raise HostError(f"{file['path']!r} leaves the store")
    place.parent.mkdir(parents=True, exist_ok=True)
    digest, left = hashlib.sha256(), int(file["size"])
    try:
        with lzma.open(packed / file["packed"]) as source, place.open("wb") as target:
            while piece := source.read(min(_CHUNK, left + 1)):
                left -= len(piece)
                if left < 0:
                    break
                digest.update(piece)
                target.write(piece)
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise HostError(f"{file['path']} cannot be unpacked: {error}") from error
    if left or digest.hexdigest() != file["sha256"]:
        raise HostError(f"{file['path']} is not what the bundle has (sha256)")


def _unpacked(manifest: dict[str, Any], store: Path) -> bool:
    mark = store / "UNPACKED"
    return mark.is_file() and mark.read_text(encoding="utf-8") == _key(manifest)


def _key(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


class _Joined:
    """Files one behind the other, to be read once."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._pieces = self._read(places)
        self._rest = b""

    def __enter__(self) -> _Joined:
        return self

    def __exit__(self, *_: object) -> None:
        self._pieces.close()  # type: ignore[attr-defined]  # a generator

    @staticmethod
    def _read(places: Sequence[Path]) -> Iterator[bytes]:
        for place in places:
            with place.open("rb") as opened:
                while piece := opened.read(_CHUNK):
                    yield piece

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and (piece := next(self._pieces, b"")):
            self._rest += piece
        given, self._rest = self._rest[:size], self._rest[size:]
        return given
