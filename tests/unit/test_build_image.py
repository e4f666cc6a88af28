# SPDX-License-Identifier: Apache-2.0
"""What build-image leaves for the engines of this machine, and what it says first."""

import os
import shutil
from pathlib import Path

import pytest

import registry
from conftest import (
    APT,
    SITE,
    Project,
    StandIn,
    build_wheel,
    program,
    ran,
    replaced,
    tar,
)
from patchset import files, process
from patchset.image import buildah, debian, labels, layout, skopeo
from patchset.inputs import lock
from patchset.release import Artifact, load, this_machine
from patchset.series.apply import PatchedRelease

NAME = "localhost/vllm-mtp-patches:v1.2.0-mtp.1"


def without(monkeypatch: pytest.MonkeyPatch, folder: Path, *kept: str) -> None:
    """Leave no programs but these."""
    folder.mkdir()
    for name in kept:
        (folder / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(folder))


def in_store(*words: str) -> str:
    return ran(["buildah", *words]).stdout.strip()


def official(project: Project, reference: str) -> None:
    replaced(project.pin, "registry.example/pkg:v1.2.0", reference)


@pytest.mark.skipif(shutil.which("buildah") is None, reason=f"{APT}buildah")
def test_the_image_is_in_the_store_as_it_is_published(
    released: Project,
    base: str,
    goal: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    official(released, base)
    out = released.run("build-image")
    made = layout.load(released.root / "build/images/v1.2.0-cuda/image")
    assert skopeo.stored(NAME) == made.digest and f"digest  {made.digest}" in out.stdout
    (part,) = made.parts
    today = skopeo.digest(skopeo.parse(base))
    assert part.labels[labels.BASE_NAME] == f"{base}@{today}"
    container = in_store("from", "--pull=never", NAME)
    root = Path(in_store("mount", container))
    assert "five" in (root / SITE / "vllm/parser.py").read_text()
    assert not (root / SITE / "vllm-1.2.0.dist-info").exists()
    in_store("rm", container)
    released.run("publish", goal)
    published = skopeo.look(skopeo.parse(f"{goal}:v1.2.0-mtp.1")).parts
    assert made.digest in [part.digest for part in published]
    # A second run fetches nothing: the sums of the base are known, its layers there.
    with monkeypatch.context() as some:
        without(some, tmp_path / "bin", "buildah", "skopeo", "git", "setpriv")
        again = released.run("build-image")
    assert "fetch" not in again.stderr and skopeo.stored(NAME) == made.digest
    assert "apt-get install podman\nTo serve:\n  podman run " in again.stdout
    in_store("rmi", "--all", "--force")
    assert "fetch" in released.run("build-image").stderr
    assert skopeo.stored(NAME) == made.digest


def test_docker_builds_what_export_wrote(
    released: Project, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official(released, base)
    with monkeypatch.context() as alone:
        without(alone, tmp_path / "bin", "skopeo", "git", "setpriv")
        program(tmp_path / "bin/docker", "[ $1 = info ] && echo 28.0")
        done = released.run("build-image")
    folder = released.root / "build/export/v1.2.0"
    (part, *_) = layout.load(released.root / "build/images/v1.2.0-cuda/image").parts
    named = f"--build-arg BASE={part.labels[labels.BASE_NAME]} --tag {NAME} {folder}"
    assert f"docker build {named}\n" in done.stdout
    assert (folder / "Dockerfile").is_file()
    serve = done.stdout.partition("To serve:\n")[2]
    assert serve.startswith("  docker run ") and f" {NAME} \\\n" in serve
    assert "--tool-call-parser" in serve.splitlines()[-1]
    # It has not been fetched here: Docker does, and looks at it.
    assert "fetch" not in done.stderr
    assert skopeo.stored(NAME) is None


def test_a_whole_image_of_the_same_files_is_left_and_another_is_tried_first(
    packaged: Project,
    tmp_path: Path,
    stand_in: StandIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is downloaded before a small build has shown that buildah can."""
    stand_in("buildah", f"case $1 in info) echo {tmp_path};; bud) exit 9;; esac")
    monkeypatch.setenv("PATCHSET_ROOT", str(packaged.root))
    monkeypatch.setattr(debian, "rootfs", lambda *_: packaged.series)
    monkeypatch.setattr(lock, "read", lambda *_: [])
    monkeypatch.setattr(lock, "gather", lambda *_: pytest.fail("a download"))
    monkeypatch.setattr(files, "need_space", lambda _: None)  # of a real image
    patched = PatchedRelease(load("v1.2.0"), "cuda")
    lock_file = lock.lock_file(patched.pin, "cuda", this_machine())
    lock_file.parent.mkdir(parents=True)
    lock_file.touch()
    said = labels.labels(patched, build_wheel(packaged)) | {
        labels.ROOTFS_SHA256: files.sha256_file(packaged.series),
        labels.LOCK_SHA256: files.sha256_file(lock_file),
    }
    with pytest.raises(process.ProgramError, match="status 9"):
        debian.build(patched)
    out = layout.folder(patched)
    config = layout.dump(
        {
            "os": "linux",
            "architecture": "amd64",
            "rootfs": {"diff_ids": []},
            "config": {"Labels": said},
        }
    )
    manifest = {"config": layout.descriptor(config, layout.CONFIG), "layers": []}
    top = layout.descriptor(layout.dump(manifest), layout.MANIFEST)
    layout.write(out / "image", top, "v1", [config, layout.dump(manifest)])
    monkeypatch.setattr(buildah, "labels", lambda _: said)
    assert debian.build(patched) == out
    monkeypatch.setattr(buildah, "labels", lambda _: {})
    with pytest.raises(process.ProgramError, match="status 9"):
        debian.build(patched)


@pytest.mark.skipif(shutil.which("skopeo") is None, reason=f"{APT}skopeo")
def test_what_is_begun_instead_is_said_first(
    released: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No registry, then no skopeo: why, how large, and which programs are missing."""
    official(released, "127.0.0.1:1/x:v1")
    wheel = Artifact(project="a", file="a-1-py3-none-any.whl", sha256="0" * 64, size=5)
    locked = [lock.Locked("a", "1", wheel.model_copy(update={"size": 7_000_000_000}))]
    monkeypatch.setattr(lock, "read", lambda *_: locked)
    monkeypatch.setattr(debian, "_KEYRING", tmp_path / "keyring")
    with monkeypatch.context() as some:
        without(some, tmp_path / "bin", "skopeo", "git")
        released.run(
            "build-image",
            status=1,
            err=(
                "connection refused",
                "a whole image",
                "7.0 GB of downloads",
                "10 minutes",
                "apt-get install buildah mmdebstrap",
                "keyring",
            ),
        )
    assert not (released.root / "build").exists(), "nothing is begun"
    released.run("build-image", "--base", "official", status=1)
    without(monkeypatch, tmp_path / "fewer", "git")
    released.run(
        "build-image", status=1, err=("skopeo is not installed", "a whole image")
    )
    said = released.run("build-image", "--base", "official", status=1).stderr
    assert "apt-get install skopeo" in said and "whole" not in said


def test_without_an_engine_there_is_a_layout(
    released: Project, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, tmp_path / "bin", "skopeo", "git", "setpriv")
    done = released.run("build-image", "--base", base)
    assert "Neither podman nor Docker" in done.stdout.splitlines()[-1]
    assert layout.load(released.root / "build/images/v1.2.0-cuda/image").parts


def test_a_layout_whose_digests_were_made_right_again_is_not_published(
    released: Project, base: str, goal: str
) -> None:
    """Another layer under the right labels."""
    released.run("build-image", "--base", base)
    place = released.root / "build/images/v1.2.0-cuda/image"
    (part,) = layout.load(place).parts
    evil = tar({"evil": b""})
    part.config["rootfs"]["diff_ids"][-1] = layout.digest(evil)
    config = layout.dump(part.config)
    part.manifest["layers"][-1] = layout.descriptor(evil, layout.LAYER)
    part.manifest["config"] = layout.descriptor(config, layout.CONFIG)
    manifest = layout.dump(part.manifest)
    shutil.rmtree(place)
    top = layout.descriptor(manifest, layout.MANIFEST)
    layout.write(place, top, "v1", [evil, config, manifest])
    released.run("publish", goal, status=1, err=("not made from this checkout",))
    assert skopeo.digest(skopeo.parse(f"{goal}:v1.2.0")) is None


def test_publish_alone_makes_the_official_one(
    released: Project, base: str, goal: str, tmp_path: Path
) -> None:
    official(released, base)
    released.run("publish", goal)
    parts = skopeo.look(skopeo.parse(f"{goal}:latest")).parts
    assert [part.arch for part in parts] == ["x86_64", "aarch64"]
    registry.push(base, [tar({"x": b""})], folder=tmp_path)
    assert "it is not vLLM" in released.run("publish", goal, status=1).stderr


def test_a_fifo_in_place_of_a_layer_is_not_waited_for(
    released: Project, base: str, goal: str
) -> None:
    released.run("build-image", "--base", base)
    place = released.root / "build/images/v1.2.0-cuda/image"
    (part,) = layout.load(place).parts
    layer = part.manifest["layers"][-1]["digest"].removeprefix("sha256:")
    blob = place / "blobs/sha256" / layer
    blob.unlink()
    os.mkfifo(blob)
    assert "is not a plain file" in released.run("publish", goal, status=1).stderr


def test_the_cpus_image_has_its_own_name(packaged: Project) -> None:
    assert labels.local(PatchedRelease(load("v1.2.0"))) == NAME
    assert labels.local(PatchedRelease(load("v1.2.0"), "cpu")) == f"{NAME}-cpu"


def test_a_pin_has_the_digest_of_the_official_image_where_it_can_be_asked(
    base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert skopeo.today(base) == skopeo.digest(skopeo.parse(base))
    assert skopeo.today("127.0.0.1:1/x:v1") is None
    assert "pinned by its tag alone" in capsys.readouterr().err
