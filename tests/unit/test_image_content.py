# SPDX-License-Identifier: Apache-2.0
"""What goes into an image: Dockerfiles, build contexts, labels, the base's packages and sources, disk space."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path

import pytest

from patchset import paths
from patchset.attest import labels
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.image import build, context, debian_base, run_hint, space
from patchset.image.engine import Engine
from patchset.locks import wheelhouse
from patchset.release import load
from patchset.series.patched_release import PatchedRelease

DOCKER = paths.project_root() / "docker"
DOCKERFILES = sorted(DOCKER.glob("Dockerfile.*"))


def instructions(dockerfile: Path) -> list[str]:
    """Instructions with their continued lines joined, comments left out."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    return [line.strip() for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda file: file.name)
def test_dockerfiles_take_nothing_from_the_network(dockerfile: Path) -> None:
    for line in instructions(dockerfile):
        assert not re.search(r"https?://(?!127\.0\.0\.1)|\bcurl\b|\bwget\b|\bgit clone\b|apt-get", line), line
        if "uv pip install" in line:
            assert "--offline" in line and "--no-index" in line and "--no-deps" in line, line
        assert not re.match(r"(ARG|ENV)\b.*(?i:proxy|index|cert|token|password)", line), line


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda file: file.name)
def test_wheels_are_mounted_never_copied(dockerfile: Path) -> None:
    for line in instructions(dockerfile):
        if line.startswith(("COPY", "ADD")):
            assert line.split()[1] in ("lock/", "wheel.sha256", "rootfs.tar"), line


def test_dependencies_are_installed_by_hash_and_the_image_is_not_roots() -> None:
    lines = instructions(DOCKER / "Dockerfile.full")
    (install,) = [line for line in lines if "requirements.lock" in line and line.startswith("RUN")]
    assert "--require-hashes" in install
    assert "USER 2000:0" in lines
    assert 'ENTRYPOINT ["vllm", "serve"]' in lines
    assert "EXPOSE 8000" in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)


def test_the_full_context_holds_what_the_dockerfile_names_and_no_more(tmp_path: Path) -> None:
    wheel, dependency, uv = (
        tmp_path / name for name in ("vllm-1-py3-none-any.whl", "a-1-py3-none-any.whl", "uv.whl")
    )
    wheel.write_bytes(b"wheel")
    dependency.write_bytes(b"dependency")
    with zipfile.ZipFile(uv, "w") as archive:
        archive.writestr("uv-1.data/scripts/uv", "#!/bin/sh\n")
    locks = wheelhouse.read_lock(
        f"b==2 --hash=sha256:{'b' * 64}\na==1 --hash=sha256:{'a' * 64}\n", "x86_64", origin="x"
    )
    folder = tmp_path / "context"
    folder.mkdir()
    context.full(folder, wheel=wheel, wheels=[dependency], locks=locks, uv_wheel=uv)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {
        "lock/requirements.lock",
        "wheels/a-1-py3-none-any.whl",
        "wheel/vllm-1-py3-none-any.whl",
        "wheel.sha256",
        "bin/uv",
        "bin/forget-times.sh",
        *(f"setup/{name}" for name in (*context.SETUP, context.DOCTOR)),
    }
    assert (folder / "bin/uv").stat().st_mode & 0o111
    assert (folder / "lock/requirements.lock").read_text().startswith("a==1 \\\n    --hash=sha256:aaa")


def test_a_uv_wheel_without_uv_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "uv.whl", "w") as archive:
        archive.writestr("other", "")
    with pytest.raises(PatchsetError, match="does not contain the program uv"):
        context._extract_uv(tmp_path / "uv.whl", tmp_path / "uv")


def test_labels_name_release_series_and_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-0.33.0+mtp.1-cp38-abi3-manylinux_2_28_x86_64.whl"
    wheel.write_bytes(b"")
    release = load("v0.33.0")
    found = labels.labels(PatchedRelease(release), "cuda", wheel)
    assert found["org.opencontainers.image.version"] == release.built_version("cuda")
    assert found["org.opencontainers.image.created"].endswith("Z")
    assert found["vllm-mtp-patches.wheel-sha256"].startswith("e3b0c44298fc1c14")
    assert re.fullmatch("[0-9a-f]{64}", found["vllm-mtp-patches.series-sha256"])
    assert found == labels.labels(PatchedRelease(release), "cuda", wheel)


def test_every_package_of_the_base_has_its_reason() -> None:
    import tomllib

    groups = tomllib.loads((DOCKER / "packages.toml").read_text())
    assert set(groups) == {"common", "cuda", "cpu"}
    assert all(len(reason) > 15 for group in groups.values() for reason in group.values())
    assert "libtcmalloc-minimal4" in debian_base.packages("cpu")
    assert "libtcmalloc-minimal4" not in debian_base.packages("cuda")


def test_only_debians_own_archives_of_the_suite_are_sources() -> None:
    targets = """
http://mirror.example/debian/ bookworm main Packages
http://mirror.example/debian/ bookworm main Translations
http://mirror.example/debian/ bookworm contrib Packages
http://mirror.example/debian-security/ bookworm-security main Packages
http://mirror.example/debian/ trixie main Packages
https://deb.nodesource.example/node_20.x nodistro main Packages
"""
    assert debian_base.sources_from(targets) == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian-security bookworm-security main",
    ]
    assert debian_base.sources_from("http://mirror.example/ubuntu/ noble main Packages\n") == list(
        debian_base.SOURCES
    )


def test_a_snapshot_of_debian_is_the_source_and_part_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in mmdebstrap's place says its arguments."""
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n'
        'for last; do case $last in *.tar*) truncate -s 60M "$last";; esac; done\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(debian_base, "_KEYRING", keyring)
    monkeypatch.setattr(debian_base, "_host_apt_options", list)
    today, _ = debian_base.rootfs("cpu", "x86_64", 1)
    assert "Check-Valid-Until" not in (tmp_path / "arguments").read_text()
    monkeypatch.setenv(debian_base.SNAPSHOT, "http://mirror.example/archive/{}/20261120T000000Z")
    then, _ = debian_base.rootfs("cpu", "x86_64", 1)
    asked = (tmp_path / "arguments").read_text().splitlines()
    place = "http://mirror.example/archive/debian{}/20261120T000000Z bookworm{} main"
    wanted = [
        place.format(archive, suite)
        for archive, suite in (("", ""), ("", "-updates"), ("-security", "-security"))
    ]
    assert asked[-3:] == [f"deb [signed-by={keyring}] {line}" for line in wanted]
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in asked and then != today
    for wrong in (
        "20261120T000000Z",
        "http://mirror.example/debian",
        "ftp://mirror.example/{}",
        "http://m/{}/{}",
    ):
        monkeypatch.setenv(debian_base.SNAPSHOT, wrong)
        with pytest.raises(UsageError):
            debian_base.rootfs("cpu", "x86_64", 1)


def test_without_mmdebstrap_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    with pytest.raises(MissingToolError) as caught:
        debian_base.rootfs("cpu", "x86_64", 1)
    assert "apt-get install mmdebstrap" in (caught.value.hint or "")
    assert list((tmp_path / "build").rglob("*.tar")) == []


def test_a_disk_that_is_too_small_is_refused_with_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(space.STORAGE, "cpu", 10**18)
    with pytest.raises(PatchsetError, match=r"has [\d.]+ GB free; a cpu image needs 1000000004 GB"):
        space.check("cpu", tmp_path / "not" / "there", tmp_path)


def test_a_release_without_lock_says_how_to_make_one(tmp_path: Path) -> None:
    release = load("v0.33.0")
    with pytest.raises(UsageError) as caught:
        build.lock_file(release, "cpu")
    assert "nox -s lock -- v0.33.0 --target cpu" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("docker", "cuda", "--gpus all"),
        ("podman", "cuda", "--device nvidia.com/gpu=all"),
        ("buildah", "cpu", "podman run"),
    ],
)
def test_the_run_command_fits_engine_and_target(name: str, target: str, words: str) -> None:
    line = run_hint.command(Engine(name), "localhost/x:1", target)  # type: ignore[arg-type]
    assert words in line
    assert ("gpu" in line) == (target == "cuda")
    assert "--tool-call-parser qwen3_coder --reasoning-parser qwen3" in line
    assert ('"method":"mtp"' in line) == (target == "cuda")


def test_the_run_command_says_what_to_install_where_podman_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "apt-get install podman" in run_hint.command(Engine("buildah"), "localhost/x:1", "cpu")
    assert "apt-get" not in run_hint.command(Engine("docker"), "x:1", "cpu")
