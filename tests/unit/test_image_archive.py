# SPDX-License-Identifier: Apache-2.0
"""Archives made from what docker prints, and the script that puts a wheel's files onto an installed release."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from patchset.errors import PatchsetError
from patchset.image import archive


def layer(name: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    return content.getvalue()


def saved(parts: dict[str, bytes], links: dict[str, str] | None = None) -> io.BytesIO:
    """A docker save stream: manifest last, layers by folder, a repeated layer as a link (docker 20.10)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return io.BytesIO(stream.getvalue())


CONFIG = json.dumps(
    {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
).encode()


def manifest(*layers: str) -> bytes:
    return json.dumps([{"Config": "c.json", "RepoTags": ["x:1"], "Layers": list(layers)}]).encode()


def test_docker_save_becomes_an_oci_layout(tmp_path: Path) -> None:
    parts = {
        "1/layer.tar": layer("one"),
        "c.json": CONFIG,
        "manifest.json": manifest("1/layer.tar", "2/layer.tar"),
    }
    archive.from_docker(saved(parts, {"2/layer.tar": "../1/layer.tar"}), tmp_path)
    digest = archive._name(tmp_path, "vllm-mtp-patches:x", lambda digest: {})
    blobs = tmp_path / "blobs" / "sha256"
    assert [
        path.name for path in blobs.iterdir() if hashlib.sha256(path.read_bytes()).hexdigest() != path.name
    ] == []
    found = json.loads((blobs / digest.removeprefix("sha256:")).read_text())
    layers = found["layers"]
    assert len(layers) == 2 and layers[0] == layers[1]
    packed = blobs / layers[0]["digest"].removeprefix("sha256:")
    assert layers[0]["size"] == packed.stat().st_size
    assert gzip.decompress(packed.read_bytes()) == parts["1/layer.tar"]
    assert (blobs / found["config"]["digest"].removeprefix("sha256:")).read_bytes() == CONFIG
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] == "x"


def test_a_docker_stream_without_a_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PatchsetError, match="not whole"):
        archive.from_docker(saved({"c.json": CONFIG, "manifest.json": manifest("1/layer.tar")}), tmp_path)


def test_packing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    sums = set()
    for number in range(2):
        layout = tmp_path / f"layout{number}"
        layout.mkdir()
        archive.from_docker(
            saved({"1/layer.tar": layer("one"), "c.json": CONFIG, "manifest.json": manifest("1/layer.tar")}),
            layout,
        )
        archive._name(layout, "x:1", lambda digest: {})
        archive._pack(layout, tmp_path / f"{number}.tar", 1_700_000_000)
        assert not list((layout / "blobs" / "sha256").iterdir())
        sums.add(hashlib.sha256((tmp_path / f"{number}.tar").read_bytes()).hexdigest())
    assert len(sums) == 1
