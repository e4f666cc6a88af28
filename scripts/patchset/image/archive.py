# SPDX-License-Identifier: Apache-2.0
"""OCI archives: an image as one tar file (OCI image layout), from whichever engine built it."""

from __future__ import annotations

import gzip
import json
import os
import posixpath
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from patchset import console, files, process
from patchset.errors import PatchsetError
from patchset.image.engine import Engine
from patchset.registry import media

#: Attestations of an image of some digest, by the annotations that are to name them.
Attest = Callable[[str], Mapping[str, bytes]]


@dataclass(frozen=True)
class Archive:
    """``digest`` of the manifest (``sha256:…``), ``size`` of the file in bytes."""

    path: Path
    digest: str
    size: int


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
        layout, name = Path(folder) / "layout", engine.full_tag(tag)
        if engine.name == "docker":
            layout.mkdir()
            with subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE) as saved:
                assert saved.stdout is not None  # noqa: S101 - opened as a pipe above
                from_docker(saved.stdout, layout)
            if saved.returncode:
                raise PatchsetError(f"docker save {tag} ended with status {saved.returncode}")
        else:
            words = [engine.name, "push", name, f"oci:{layout}"]
            process.run(words, prefix=engine.name, env={**os.environ, "TMPDIR": folder}, progress=far)
        digest = _name(layout, name, attest)
        _pack(layout, temp, epoch)
    return Archive(place, digest, place.stat().st_size)


def _name(layout: Path, tag: str, attest: Attest) -> str:
    """Write the tag into the layout's index, so that loading the archive restores it, and the attestations; the digest."""
    index = json.loads((layout / "index.json").read_bytes())
    (entry,) = index["manifests"]
    digest = str(entry["digest"])
    entry["annotations"] = {
        "org.opencontainers.image.ref.name": tag.rpartition(":")[2],
        # What docker load looks at.
        "io.containerd.image.name": tag if "/" in tag else f"docker.io/library/{tag}",
        **{name: _put(layout, content, "")["digest"] for name, content in attest(digest).items()},
    }
    (layout / "index.json").write_text(json.dumps(index, sort_keys=True), encoding="utf-8")
    return digest


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
    (layout / "blobs" / "sha256").mkdir(parents=True)
    layers: dict[str, dict[str, Any]] = {}
    texts: dict[str, bytes] = {}
    links: dict[str, str] = {}  # a layer may be a link to another of the same content: ../ID/layer.tar
    with tarfile.open(fileobj=saved, mode="r|") as tar:
        for member in tar:
            if member.issym() or member.islnk():
                folder = posixpath.dirname(member.name)
                links[member.name] = posixpath.normpath(posixpath.join(folder, member.linkname))
            content = tar.extractfile(member) if member.isfile() else None
            if content is None:
                continue
            head = content.read(512)
            if len(head) == 512 and head[257:262] == b"ustar":
                layers[member.name] = _compress(head, content, layout)
            elif member.size <= 16 << 20:
                texts[member.name] = head + content.read()
    try:
        (image,) = json.loads(texts["manifest.json"])
        config = texts[image["Config"]]
        listed = [layers[links.get(name, name)] for name in image["Layers"]]
    except (KeyError, ValueError) as error:
        raise PatchsetError(f"docker save gave an image that is not whole: {error}") from error
    manifest = {
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "config": _put(layout, config, media.CONFIG),
        "layers": listed,
    }
    entry = _put(layout, json.dumps(manifest, sort_keys=True).encode(), media.MANIFEST)
    index = {"schemaVersion": 2, "manifests": [entry]}
    (layout / "index.json").write_text(json.dumps(index), encoding="utf-8")
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', encoding="utf-8")


def _compress(head: bytes, content: IO[bytes], layout: Path) -> dict[str, Any]:
    """Store one layer as a gzip file without time and name; its descriptor."""
    with (
        tempfile.NamedTemporaryFile(dir=layout, delete=False) as file,
        gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0, filename="") as packed,
    ):
        packed.write(head)
        shutil.copyfileobj(content, packed, 1 << 20)
    digest = files.sha256_file(Path(file.name))
    place = Path(file.name).rename(layout / "blobs" / "sha256" / digest)
    return {"mediaType": media.LAYER, "digest": f"sha256:{digest}", "size": place.stat().st_size}


def _put(layout: Path, content: bytes, kind: str) -> dict[str, Any]:
    entry = media.descriptor(content, kind)
    (layout / "blobs" / "sha256" / entry["digest"].removeprefix("sha256:")).write_bytes(content)
    return entry
