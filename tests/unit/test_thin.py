# SPDX-License-Identifier: Apache-2.0
"""Thin images on a base in a real registry: what is in the layer, and that its digest depends on nothing else."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import small_base
from conftest import Project
from patchset.image import deflate, layer, thin
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.registry.layout import Layout
from patchset.registry.reference import parse
from registry_server import Network, host, network, own_places, registry
from small_base import SITE, base, released
from test_wheel import packaged

__all__ = ["base", "host", "network", "own_places", "packaged", "released"]


def build(project: Project, base: str, *arguments: str) -> dict[str, str]:
    lines = project.run("build-image", "--base", base, *arguments).stdout.splitlines()
    return {line.split()[0]: line.partition(" ")[2].strip() for line in lines}


def archive(project: Project) -> Layout:
    return Layout(project.root / "build/images/v1.2.0-cuda-thin.oci.tar")


def new_layer(found: Layout, arch: str = "amd64") -> dict[str, bytes | None]:
    """The members of the one new layer; None for folders."""
    index = json.loads(found.read(found.index["manifests"][0]["digest"], 1 << 20))
    (entry,) = [entry for entry in index["manifests"] if entry["platform"]["architecture"] == arch]
    manifest = json.loads(found.read(entry["digest"], 1 << 20))
    content = gzip.decompress(found.read(manifest["layers"][-1]["digest"], 1 << 20))
    config = json.loads(found.read(manifest["config"]["digest"], 1 << 20))
    assert config["rootfs"]["diff_ids"][-1] == media.digest(content)
    return _members(content)


def _members(content: bytes) -> dict[str, bytes | None]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = tar.getmembers()
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(1_700_000_000, 0, 0, "", "")}
        return {m.name: file.read() if (file := tar.extractfile(m)) else None for m in members}


def test_one_layer_of_what_differs(released: Project, base: str) -> None:
    said = build(released, base)
    found = archive(released)
    assert said["digest"] == found.index["manifests"][0]["digest"]
    members = new_layer(found)
    files = {name.removeprefix(f"{SITE[1:]}/"): data for name, data in members.items() if data is not None}
    info = "vllm-1.2.0+mtp.1.dist-info"
    pyc = [
        f"vllm/__pycache__/.wh.{module}.cpython-312{level}.pyc"
        for module in ("parser", "_version")
        for level in ("", ".opt-1", ".opt-2")
    ]
    assert set(files) == {
        "usr/local/bin/vllm-mtp-doctor", ".wh.vllm-1.2.0.dist-info", *pyc,
        "vllm/parser.py", "vllm/reader.py", "vllm/_version.py",
        *(f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "INSTALLER", "REQUESTED", "patchset.json", "top_level.txt")),
    }  # fmt: skip
    assert b"five" in (files["vllm/parser.py"] or b"")
    assert f"{info}/INSTALLER,sha256=".encode() in (files[f"{info}/RECORD"] or b"")
    folders = {name for name, data in members.items() if data is None}
    assert {"usr", "usr/local", SITE[1:], f"{SITE[1:]}/vllm/__pycache__"} <= folders


def test_configuration_of_the_base_is_kept(released: Project, base: str) -> None:
    build(released, base)
    found = archive(released)
    before = small_base.manifest_of(base, "arm64")
    index = json.loads(found.read(found.index["manifests"][0]["digest"], 1 << 20))
    assert [entry["platform"]["architecture"] for entry in index["manifests"]] == ["amd64", "arm64"]
    manifest = json.loads(found.read(index["manifests"][1]["digest"], 1 << 20))
    assert manifest["layers"][:-1] == before["layers"]
    assert before["layers"][0]["digest"] not in found
    config = json.loads(found.read(manifest["config"]["digest"], 1 << 20))
    assert config["config"]["User"] == "2000:0" and config["config"]["Entrypoint"] == ["vllm", "serve"]
    assert config["config"]["Labels"]["kept"] == "yes"
    assert config["config"]["Labels"]["vllm-mtp-patches.release"] == "v1.2.0"
    assert len(config["history"]) == len(config["rootfs"]["diff_ids"]) == 2


def test_two_folders_one_digest_and_no_layer_of_the_base_is_read(
    released: Project, base: str, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(released, base)
    other = tmp_path / "elsewhere"
    shutil.copytree(released.root, other / "checkout")
    monkeypatch.setenv("PATCHSET_ROOT", str(other / "checkout"))
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(other / "build"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    second = build(
        Project(other / "checkout", released.downloads), base.replace(base.split("/")[0], network.host)
    )
    assert first["digest"] == second["digest"] and first["layer"] == second["layer"]
    configs = {small_base.manifest_of(base, arch)["config"]["digest"] for arch in ("amd64", "arm64")}
    read = {path.rpartition("/")[2] for path in small_base.stored(network.seen, "GET") if "/blobs/" in path}
    assert read == configs


def test_one_processor_and_a_base_without_an_index(released: Project, host: str) -> None:
    single = small_base.push(host, "official/single", ("x86_64",), index=False)
    build(released, single)
    assert archive(released).index["manifests"][0]["mediaType"] == media.MANIFEST
    message = released.run("build-image", "--base", single, "--arch", "aarch64", status=2).stderr
    assert "is not for arm64" in message


def test_bases_that_are_refused(released: Project, base: str, host: str) -> None:
    for arguments, status, complaint in (
        (("--base", f"{host}/official/nothing:v1"), 6, "answers 404"),
        (
            ("--base", base, "--site", "/usr/../lib/python3.12/site-packages"),
            2,
            "not a folder of Python packages",
        ),
        (("--base", base, "--base-version", "../x"), 2, "is not a version"),
        (("--base", base, "--engine", "buildah"), 2, "needs no engine"),
        (("--site", "/x"), 2, "for a layer on --base REF"),
    ):
        assert complaint in released.run("build-image", *arguments, status=status).stderr


def test_a_pin_may_name_the_official_image_by_digest(released: Project, host: str) -> None:
    """A tag that is moved leads to another base, and is said to; a digest leads to the same."""
    pin = released.root / "patches/v1.2.0/release.toml"
    text = pin.read_text()
    tagged = small_base.push(host, "official/moves")
    pin.write_text(re.sub('image = ".*"', f'image = "{tagged}"', text))
    run = released.run("build-image", "--base", "official")
    digest = digest_of(tagged)
    assert f'image = "{tagged}@{digest}"' in run.stderr
    pin.write_text(re.sub('image = ".*"', f'image = "{tagged}@{digest}"', text))
    before = build(released, "official")
    small_base.push(host, "official/moves", above={"vllm/other.py": b"moved"})
    assert build(released, "official") == before
    assert archive(released).index["manifests"][0]["annotations"][thin.BASE].endswith(digest)
    pin.write_text(re.sub('image = ".*"', f'image = "{tagged}"', text))
    assert build(released, "official")["digest"] != before["digest"]


def digest_of(reference: str) -> str:
    with Repository(parse(reference)) as repository:
        return str(repository.digest_of("v1"))


def test_an_image_that_has_the_patches_is_no_base(released: Project, base: str, host: str) -> None:
    build(released, base)
    released.run("publish", f"{host}/team/patched")
    message = released.run("build-image", "--base", f"{host}/team/patched:v1.2.0", status=1).stderr
    assert "has patches of this project already" in message


def test_a_base_is_looked_into(released: Project, base: str, host: str) -> None:
    build(released, base, "--look-into-base")
    elsewhere = SITE.replace("3.12", "3.11")
    message = released.run(
        "build-image", "--base", base, "--look-into-base", "--site", elsewhere, status=1
    ).stderr
    assert f"has no {elsewhere}/vllm-1.2.0.dist-info" in message
    assert f"--site {SITE} --base-version 1.2.0" in message
    # What somebody says of a base is checked without being asked for.
    message = released.run("build-image", "--base", base, "--base-version", "1.1.0", status=1).stderr
    assert f"has no {SITE}/vllm-1.1.0.dist-info" in message
    for changed in ({"vllm/parser.py": b"another"}, {"vllm/.wh.parser.py": b""}):
        other = small_base.push(host, "official/other", above=changed)
        message = released.run("build-image", "--base", other, "--look-into-base", status=1).stderr
        assert "other files than the release" in message and "vllm/parser.py" in message


def test_a_layer_that_is_not_of_its_digest_proves_nothing(released: Project, tmp_path: Path) -> None:
    """A registry that has other files, and sends those of the release in their place."""
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed")
    with registry(tmp_path) as own:
        name = f"{small_base.SITE.strip('/')}/vllm/parser.py"
        files = {f"{SITE.strip('/')}/{path}": data for path, data in small_base.site_files().items()}
        right = gzip.compress(small_base.layer(files), mtime=0)
        files |= {name: b"another", "padding": random.Random(1).randbytes(len(right))}
        reference = small_base.push(own, "official/lies", ("x86_64",), contents=[small_base.layer(files)])
        (entry,) = small_base.manifest_of(reference, "amd64")["layers"]
        (stored,) = (tmp_path / "storage").rglob(f"{entry['digest'].removeprefix('sha256:')}/data")
        stored.write_bytes(right + bytes(entry["size"] - len(right)))
        arguments = ("--base", reference, "--arch", "x86_64", "--look-into-base")
        assert "sends something else" in released.run("build-image", *arguments, status=6).stderr


@pytest.mark.parametrize("alphabet", [1, 2, 40, 256])
@pytest.mark.parametrize("size", [0, 1, 3, 4, 257, 258, 259, 262, 70_000])
def test_our_gzip_is_gzip(alphabet: int, size: int) -> None:
    content = bytes(random.Random(size).choices(range(alphabet), k=size))
    assert gzip.decompress(deflate.gzip(content)) == content


def test_our_gzip_never_changes() -> None:
    text = "".join(f"vllm/file_{n % 300}.py,sha256={n * 7919 % 10007}\n" for n in range(4000)).encode()
    packed = deflate.gzip(text)
    assert media.digest(packed) == "sha256:7d46da4ac04dca8c37de274660edce9ae52a502bfa3b95bde5902e9cc9dca68a"
    assert len(packed) < len(text) / 3
    done = subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True)
    assert done.stdout == text


def test_where_official_images_have_vllm() -> None:
    from patchset.release import load

    assert layer.place(load("v0.33.0"), "cuda", None, None).python == "cpython-312"
    assert layer.place(load("v0.32.0"), "cpu", None, None).version == "0.32.0+cpu"
