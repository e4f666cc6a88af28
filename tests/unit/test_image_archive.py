# SPDX-License-Identifier: Apache-2.0
"""Archives made from what docker prints, and the script that puts a wheel's files onto an installed release."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from patchset.base import paths
from patchset.base.errors import PatchsetError
from patchset.image import archive

OVERLAY = paths.project_root() / "docker" / "overlay.py"


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
    digest, layers = archive._name(tmp_path, "vllm-mtp-patches:x", lambda digest: {})
    blobs = tmp_path / "blobs" / "sha256"
    assert [
        path.name for path in blobs.iterdir() if hashlib.sha256(path.read_bytes()).hexdigest() != path.name
    ] == []
    assert len(layers) == 2 and layers[0] == layers[1]
    packed = blobs / layers[0][0].removeprefix("sha256:")
    assert gzip.decompress(packed.read_bytes()) == parts["1/layer.tar"]
    found = json.loads((blobs / digest.removeprefix("sha256:")).read_text())
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


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A site-packages folder with a small vLLM 1.0 as an installer leaves it."""
    site = tmp_path / "site"
    (site / "vllm" / "__pycache__").mkdir(parents=True)
    (site / "vllm" / "a.py").write_text("old\n")
    (site / "vllm" / "same.py").write_text("same\n")
    (site / "vllm" / "gone.py").write_text("gone\n")
    (site / "vllm" / "_C.abi3.so").write_bytes(b"compiled")
    (site / "vllm" / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"stale")
    (site / "vllm" / "__pycache__" / "same.cpython-311.pyc").write_bytes(b"fresh")
    info = site / "vllm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 1.0\n")
    (info / "INSTALLER").write_text("uv")
    names = ["vllm/a.py", "vllm/same.py", "vllm/gone.py", "vllm/_C.abi3.so", "../../bin/vllm"]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    return site


def wheel(folder: Path, **files: bytes) -> Path:
    place = folder / "vllm-1.0+mtp.1-py3-none-any.whl"
    info = "vllm-1.0+mtp.1.dist-info"
    content = {
        "vllm/a.py": b"new\n",
        "vllm/same.py": b"same\n",
        "vllm/_C.abi3.so": b"compiled",
        "vllm/added/b.py": b"added\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: vllm\nVersion: 1.0+mtp.1\n",
        f"{info}/RECORD": b"vllm/a.py,,\n",
        **{name.replace("__", "/"): text for name, text in files.items()},
    }
    with zipfile.ZipFile(place, "w") as target:
        for name, text in content.items():
            target.writestr(name, text)
    return place


def put(site: Path, file: Path, release: str = "1.0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", OVERLAY, file, release],
        env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_overlay_writes_what_differs_and_nothing_else(installed: Path, tmp_path: Path) -> None:
    before = (installed / "vllm" / "same.py").stat()
    done = put(installed, wheel(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (installed / "vllm" / "a.py").read_text() == "new\n"
    assert (installed / "vllm" / "added" / "b.py").is_file()
    assert not (installed / "vllm" / "gone.py").exists()
    assert (installed / "vllm" / "same.py").stat() == before
    assert {path.name for path in (installed / "vllm" / "__pycache__").iterdir()} == {"same.cpython-311.pyc"}
    (info,) = installed.glob("*.dist-info")
    assert info.name == "vllm-1.0+mtp.1.dist-info"
    assert (info / "INSTALLER").read_text() == "uv"
    assert "../../bin/vllm,," in (info / "RECORD").read_text()


def test_overlay_refuses_another_release_and_changed_binaries(installed: Path, tmp_path: Path) -> None:
    other = put(installed, wheel(tmp_path), "2.0")
    assert (other.returncode, other.stderr.strip()) == (1, "error: the image has vLLM 1.0, not 2.0")
    native = put(installed, wheel(tmp_path, **{"vllm___C.abi3.so": b"other"}))
    assert native.returncode == 1 and "vllm/_C.abi3.so" in native.stderr
    outside = put(installed, wheel(tmp_path, **{"..__outside.py": b""}))
    assert outside.returncode == 1 and "../outside.py" in outside.stderr
    assert (installed / "vllm" / "a.py").read_text() == "old\n"
    assert (installed / "vllm-1.0.dist-info").is_dir()


def test_overlay_refuses_an_image_without_vllm(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = put(empty, wheel(tmp_path))
    assert done.returncode == 1 and "has no vLLM" in done.stderr
