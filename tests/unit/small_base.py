# SPDX-License-Identifier: Apache-2.0
"""Images in small that have the made-up release, in a registry, as an official image would stand there."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wheels
from conftest import Project
from patchset.registry import media, upload
from patchset.registry.client import Repository
from patchset.registry.reference import Reference, parse
from patchset.registry.upload import in_memory

SITE = "/usr/local/lib/python3.12/dist-packages"
GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}


@pytest.fixture
def released(packaged: Project) -> Project:
    """The made-up release with official wheels for two processors."""
    file = packaged.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_aarch64.whl"
    wheels.pin(packaged, "cuda", wheels.write(file, wheels.contents("vllm")), "aarch64")
    return packaged


def site_files() -> dict[str, bytes]:
    """What an installer leaves of the official wheel: its files, bytecode, an INSTALLER."""
    found = wheels.contents("vllm")
    found["vllm/__pycache__/parser.cpython-312.pyc"] = b"of the old text"
    found["vllm/__pycache__/other.cpython-312.pyc"] = b"of another module"
    found["vllm-1.2.0.dist-info/INSTALLER"] = b"uv"
    return found


def layer(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return content.getvalue()


def push(
    host: str,
    name: str,
    archs: tuple[str, ...] = ("x86_64", "aarch64"),
    *,
    index: bool = True,
    above: dict[str, bytes] | None = None,
    contents: list[bytes] | None = None,
) -> str:
    """Push an image with the release, tagged v1, with a second layer of files ``above``, or one of other layers;
    its reference."""
    content = layer({f"{SITE.strip('/')}/{path}": data for path, data in site_files().items()})
    with Repository(Reference(host, name), push=True) as repository:
        upper = layer({f"{SITE.strip('/')}/{path}": data for path, data in (above or {}).items()})
        layers = contents or ([content, upper] if above else [content])
        entries = [_image(repository, arch, layers) for arch in archs]
        top = {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": entries}
        if index:
            repository.put_manifest("v1", media.INDEX, media.dump(top))
        else:
            repository.put_manifest("v1", *repository.manifest(entries[0]["digest"])[1:])
    return f"{host}/{name}:v1"


def _image(repository: Repository, arch: str, contents: list[bytes]) -> dict[str, Any]:
    platform = {"architecture": GOARCH[arch], "os": "linux"}
    # Two gzip files in a row, as some builders pack a layer.
    layers = [gzip.compress(content, mtime=0) + gzip.compress(arch.encode(), mtime=0) for content in contents]
    config = media.dump({
        **platform,
        "config": {"User": "2000:0", "Entrypoint": ["vllm", "serve"], "Labels": {"kept": "yes"}},
        "rootfs": {"type": "layers", "diff_ids": [media.digest(gzip.decompress(packed)) for packed in layers]},
        "history": [{"created_by": "base"} for _ in layers],
    })  # fmt: skip
    for part in (*layers, config):
        upload.put(repository, in_memory(part), lambda count: None)
    manifest = media.dump({
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "config": media.descriptor(config, media.CONFIG),
        "layers": [media.descriptor(packed, media.LAYER) for packed in layers],
    })  # fmt: skip
    repository.put_manifest(media.digest(manifest), media.MANIFEST, manifest)
    return media.descriptor(manifest, media.MANIFEST, platform=platform)


@pytest.fixture
def base(host: str, released: Project) -> str:
    """The reference of a base in the registry, for two processors."""
    return push(host, f"official/{uuid.uuid4().hex[:12]}")


def pulled(reference: str, folder: Path, *, arch: str = "amd64") -> Path:
    """The root file system of an image that an engine's own program pulled into an empty folder."""
    if shutil.which("skopeo") is None:
        pytest.skip("skopeo is not installed (sudo apt-get install skopeo)")
    layout, root = folder / "layout", folder / "root"
    command = [
        "skopeo",
        "copy",
        "--quiet",
        "--override-arch",
        arch,
        "--src-tls-verify=false",
        f"docker://{reference}",
    ]
    done = subprocess.run([*command, f"dir:{layout}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    manifest = media.parse((layout / "manifest.json").read_bytes(), "manifest")
    root.mkdir()
    for entry in manifest["layers"]:
        with tarfile.open(layout / entry["digest"].removeprefix("sha256:")) as tar:
            apply(tar, root)
    return root


def apply(tar: tarfile.TarFile, root: Path) -> None:
    """Put a layer onto those below it, as the image specification says."""
    for member in tar:
        place = root / member.name
        if place.name.startswith(".wh."):
            hidden = place.with_name(place.name.removeprefix(".wh."))
            if hidden.is_dir():
                shutil.rmtree(hidden)
            else:
                hidden.unlink(missing_ok=True)
        else:
            # Layers made by these tests; Debian 12's Python has no filters.
            filters: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            tar.extract(member, root, **filters)


def manifest_of(reference: str, arch: str | None = None) -> dict[str, Any]:
    """A manifest as the registry has it; of an index, that for one processor."""
    parsed = parse(reference)
    with Repository(parsed) as repository:
        found = media.parse(repository.manifest(parsed.wanted)[2], reference)
        for entry in found.get("manifests", ()) if arch else ():
            if entry["platform"]["architecture"] == arch:
                return media.parse(repository.manifest(entry["digest"])[2], reference)
    return found


def stored(network_seen: list[tuple[str, str]], method: str) -> Iterator[str]:
    return (path for seen, path in network_seen if seen == method)
