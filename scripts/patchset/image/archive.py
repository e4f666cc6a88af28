# SPDX-License-Identifier: Apache-2.0
"""OCI archives: an image as one tar file (OCI image layout), from whichever engine built it."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from patchset.base import console, files, process
from patchset.base.errors import PatchsetError
from patchset.image.engine import Engine

_CHUNK = 1 << 20
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_MAX_JSON = 16 << 20

#: Attestations of an image of some digest, by the annotations that are to name them.
Attest = Callable[[str], Mapping[str, bytes]]


@dataclass(frozen=True)
class Archive:
    """``digest`` of the manifest (``sha256:…``), ``size`` of the file in bytes, layers as (digest, bytes) pairs."""

    path: Path
    digest: str
    size: int
    layers: tuple[tuple[str, int], ...]


def export(
    engine: Engine, tag: str, place: Path, epoch: int, attest: Attest = lambda digest: {}, packed: int = 0
) -> Archive:
    """Write an engine's image as an OCI archive, whole or not at all, with what ``attest`` says of its digest.

    ``packed`` bytes are what it is taken to have at the end.
    """
    start = time.monotonic()

    def far() -> str:
        seconds = time.monotonic() - start
        done = sum(file.stat().st_size for file in layout.rglob("*") if file.is_file())
        if 0 < done < packed:
            return f"written {console.how_far(done, packed, seconds)}"
        return f"at work for {console.duration(seconds)}, {done / 1e9:.1f} GB written"

    with (
        console.step(f"write {place.name}"),
        files.lock(place),
        files.atomic_file(place) as temp,
        tempfile.TemporaryDirectory(dir=place.parent, prefix=files.TEMP_PREFIX) as folder,
    ):
        layout = Path(folder) / "layout"
        if engine.name == "docker":
            layout.mkdir()
            with subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE) as saved:
                assert saved.stdout is not None  # noqa: S101 - opened as a pipe above
                from_docker(saved.stdout, layout)
            if saved.returncode:
                raise PatchsetError(f"docker save {tag} ended with status {saved.returncode}")
        else:
            words = [engine.name, "push", engine.full_tag(tag), f"oci:{layout}"]
            process.run(words, prefix=engine.name, env={**os.environ, "TMPDIR": folder}, progress=far)
        name = engine.full_tag(tag)
        digest, layers = _name(layout, name, attest)
        _pack(layout, temp, epoch)
    return Archive(place, digest, place.stat().st_size, layers)


def _name(layout: Path, tag: str, attest: Attest) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Write the tag into the layout's index, so that loading the archive restores it, and the attestations; the digest
    and the layers."""
    index = _read(layout / "index.json")
    (entry,) = index["manifests"]
    blobs = layout / "blobs" / "sha256"
    attestations = {
        name: _put(blobs, content, "")["digest"] for name, content in attest(str(entry["digest"])).items()
    }
    entry["annotations"] = {
        "org.opencontainers.image.ref.name": tag.rpartition(":")[2],
        # What docker load looks at.
        "io.containerd.image.name": tag if "/" in tag else f"docker.io/library/{tag}",
        **attestations,
    }
    (layout / "index.json").write_text(json.dumps(index, sort_keys=True), encoding="utf-8")
    manifest = _read(layout / "blobs" / "sha256" / str(entry["digest"]).removeprefix("sha256:"))
    return str(entry["digest"]), tuple((layer["digest"], layer["size"]) for layer in manifest["layers"])


def _pack(layout: Path, archive: Path, epoch: int) -> None:
    """Put a layout into a tar file with nothing in it that depends on who packs it and when; takes the blobs away."""
    members = sorted(path for path in layout.rglob("*") if path.is_file())
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in members:
            info = tarfile.TarInfo(path.relative_to(layout).as_posix())
            info.size, info.mtime, info.mode = path.stat().st_size, epoch, 0o644
            with path.open("rb") as content:
                tar.addfile(info, content)
            path.unlink()  # the disk need not hold an image's blobs twice


def from_docker(saved: IO[bytes], layout: Path) -> None:
    """Turn what ``docker save`` prints into an OCI layout, as it comes: layers are compressed, none is kept twice."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layers: dict[str, tuple[str, int]] = {}
    texts: dict[str, bytes] = {}
    links: dict[str, str] = {}
    with tarfile.open(fileobj=saved, mode="r|") as tar:
        for member in tar:
            if member.issym() or member.islnk():
                links[member.name] = member.linkname
            content = tar.extractfile(member) if member.isfile() else None
            if content is None:
                continue
            head = content.read(512)
            if len(head) == 512 and head[257:262] == b"ustar":
                layers[member.name] = _compress(head, content, blobs)
            elif member.size <= _MAX_JSON:
                texts[member.name] = head + content.read()
    try:
        (image,) = json.loads(texts["manifest.json"])
        config = texts[image["Config"]]
        listed = [layers[_target(name, links)] for name in image["Layers"]]
    except (KeyError, ValueError) as error:
        raise PatchsetError(f"docker save gave an image that is not whole: {error}") from error
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _put(blobs, config, _CONFIG),
        "layers": [{"mediaType": _LAYER, "digest": digest, "size": size} for digest, size in listed],
    }
    entry = _put(blobs, json.dumps(manifest, sort_keys=True).encode(), _MANIFEST)
    (layout / "index.json").write_text(
        json.dumps({"schemaVersion": 2, "manifests": [entry]}), encoding="utf-8"
    )
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', encoding="utf-8")


def _target(name: str, links: dict[str, str]) -> str:
    """Where a layer lies that the stream holds as a link to another of the same content (``../ID/layer.tar``)."""
    if name not in links:
        return name
    parts: list[str] = name.split("/")[:-1]
    for part in links[name].split("/"):
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/".join(parts)


def _compress(head: bytes, content: IO[bytes], blobs: Path) -> tuple[str, int]:
    """Store one layer as a gzip file without time and name; its digest and size."""
    with tempfile.NamedTemporaryFile(dir=blobs, delete=False) as file:
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0, filename="") as packed:
            for piece in _pieces(head, content):
                packed.write(piece)
        place = Path(file.name)
    digest = files.sha256_file(place)
    place.rename(blobs / digest)
    return f"sha256:{digest}", (blobs / digest).stat().st_size


def _pieces(head: bytes, content: IO[bytes]) -> Iterator[bytes]:
    yield head
    while piece := content.read(_CHUNK):
        yield piece


def _put(blobs: Path, content: bytes, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
