# SPDX-License-Identifier: Apache-2.0
"""Each engine that is installed builds the real Dockerfiles, with a small wheel in the place of vLLM's.

Slow (a base is made from Debian packages, once): ``nox -s image-check -- -k engines``.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from patchset import files, paths
from patchset.errors import MissingToolError
from patchset.image import archive, build, context, debian_base, engine
from patchset.image.engine import Engine
from patchset.locks import wheelhouse

EPOCH = 1_790_000_000
LABELS = {"vllm-mtp-patches.release": "v1.0"}


def small_wheel(folder: Path, name: str, version: str, text: str) -> Path:
    info = f"{name}-{version}.dist-info"
    content = {
        f"{name}/__init__.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    place = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as target:
        for path, part in content.items():
            target.writestr(zipfile.ZipInfo(path), part)
    return place


@pytest.fixture(scope="module", params=engine.ENGINES)
def which(request: pytest.FixtureRequest) -> Engine:
    try:
        return engine.find(request.param)
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def base_tag(which: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The real base for cpu, in the engine."""
    rootfs, _ = debian_base.rootfs("cpu", "x86_64", EPOCH)
    tag = which.full_tag("vllm-mtp-patches-check:base")
    folder = paths.images_dir() / f".tmp-check-{which.name}"
    folder.mkdir(exist_ok=True)
    context.link(rootfs, folder / "rootfs.tar")
    which.build(build._dockerfile("base"), folder, tag, epoch=EPOCH, arch="x86_64")
    (folder / "rootfs.tar").unlink()
    folder.rmdir()
    return tag


@pytest.fixture(scope="module")
def uv_wheel() -> Path:
    lock = paths.project_root() / "docker" / "uv.lock"
    (found,) = wheelhouse.gather(wheelhouse.read_lock(lock.read_text(), "x86_64", origin="uv.lock"), "x86_64")
    return found


def full_context(folder: Path, uv_wheel: Path, text: str = "old") -> Path:
    folder.mkdir()
    dependency = small_wheel(folder.parent, "dependency", "2.0", "")
    lock = f"dependency==2.0 --hash=sha256:{files.sha256_file(dependency)}\n"
    context.full(
        folder,
        wheel=small_wheel(folder.parent, "vllm", "1.0", f"text = {text!r}\n"),
        wheels=[dependency],
        locks=wheelhouse.read_lock(lock, "x86_64", origin="small.lock"),
        uv_wheel=uv_wheel,
    )
    return folder


def build_full(which: Engine, folder: Path, tag: str, base_tag: str, *, cached: bool = True) -> None:
    which.build(
        build._dockerfile("full"),
        folder,
        tag,
        epoch=EPOCH,
        arch="x86_64",
        stage="cpu",
        arguments={"BASE": base_tag, "TARGET": "cpu", "PRELOAD": ""},
        labels=LABELS,
        cached=cached,
    )


@pytest.fixture(scope="module")
def image(which: Engine, base_tag: str, uv_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    tag = which.full_tag("vllm-mtp-patches-check:full")
    build_full(which, full_context(tmp_path_factory.mktemp("full") / "context", uv_wheel), tag, base_tag)
    return tag


def members(place: Path, number: int) -> list[str]:
    """The paths in one layer of an archive, by the layer's number."""
    with tarfile.open(place) as tar:

        def blob(digest: str) -> bytes:
            found = tar.extractfile("blobs/sha256/" + digest.removeprefix("sha256:"))
            assert found is not None
            content = found.read()
            assert hashlib.sha256(content).hexdigest() == digest.removeprefix("sha256:")
            return content

        index = tar.extractfile("index.json")
        assert index is not None
        manifest = json.loads(blob(json.load(index)["manifests"][0]["digest"]))
        packed = place.parent / "layer"
        packed.write_bytes(blob(manifest["layers"][number]["digest"]))
    with tarfile.open(packed) as layer:
        return layer.getnames()


def test_full_image(which: Engine, image: str, tmp_path: Path) -> None:
    config = which.inspect(image)
    assert config["User"] == "2000:0"
    assert config["Entrypoint"] == ["vllm", "serve"]
    assert config["Labels"]["vllm-mtp-patches.release"] == "v1.0"
    made = archive.export(which, image, tmp_path / "x.oci.tar", EPOCH)
    names = members(made.path, -1)
    assert any(name.endswith("site-packages/vllm/__init__.py") for name in names)
    assert not any(name.endswith(".whl") for name in names)
    assert made.size == made.path.stat().st_size
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(files.TEMP_PREFIX)] == []


def test_building_twice_gives_one_digest(
    which: Engine, image: str, base_tag: str, uv_wheel: Path, tmp_path: Path
) -> None:
    if not which.keeps_digests:
        pytest.skip(f"{which.name} stamps layers with the time of the build")
    first = archive.export(which, image, tmp_path / "1.oci.tar", EPOCH)
    tag = which.full_tag("vllm-mtp-patches-check:again")
    build_full(which, full_context(tmp_path / "context", uv_wheel), tag, base_tag, cached=False)
    second = archive.export(which, tag, tmp_path / "2.oci.tar", EPOCH)
    assert first.digest == second.digest


def test_an_interrupted_build_leaves_no_container_and_no_tag(
    which: Engine, base_tag: str, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN echo begun && sleep 100\n")
    script = (  # whoever starts the tests in the background may have had SIGINT ignored
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from pathlib import Path; from patchset.image.engine import Engine; from patchset.commands.cli import main; import sys\n"
        f"Engine({which.name!r}).build(Path('Dockerfile'), Path('.'), 'vllm-mtp-patches-check:cut', epoch=1, arch='x86_64', "
        f"arguments={{'BASE': {base_tag!r}}})"
    )
    before = which._containers()
    child = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    for line in child.stderr:
        if "begun" in line and "RUN" not in line:
            break
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=300)
    assert child.returncode != 0
    assert which._containers() == before
    assert not which.exists(which.full_tag("vllm-mtp-patches-check:cut"))
