# SPDX-License-Identifier: Apache-2.0
"""Whole images: Dockerfiles, contexts, the base's packages, disks, and buildah."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from conftest import APT, running, until
from patchset import files, paths, process
from patchset.errors import (
    MissingToolError,
    NoSpaceError,
    PatchsetError,
    UsageError,
)
from patchset.image import debian, engine, layout
from patchset.image.engine import Job
from patchset.inputs.lock import Locked
from patchset.release import Artifact

DOCKER = paths.project_root() / "docker"
DOCKERFILES = sorted(DOCKER.glob("Dockerfile.*"))


def instructions(dockerfile: Path) -> list[str]:
    """Return instructions with their continued lines joined, without comments."""
    lines = dockerfile.read_text().splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = kept.replace("\\\n", " ").splitlines()
    return [line.strip() for line in joined if line.strip()]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda file: file.name)
def test_dockerfiles_take_nothing_from_the_network(dockerfile: Path) -> None:
    for line in instructions(dockerfile):
        assert not re.search(r"https?://(?!127\.0\.0\.1)|curl|wget|apt-get", line), line
        if "uv pip install" in line:
            words = ("--offline", "--no-index", "--no-deps")
            assert all(word in line for word in words), line
        assert not re.match(r"(ARG|ENV)\b.*(?i:proxy|index|cert|token)", line), line
        # Wheels are mounted, never copied.
        if line.startswith(("COPY", "ADD")):
            assert line.split()[1] in ("lock/", "wheel.sha256", "rootfs.tar"), line


def test_dependencies_are_installed_by_hash_and_the_user_is_not_root() -> None:
    lines = instructions(DOCKER / "Dockerfile.full")
    (install,) = [line for line in lines if "requirements.lock" in line]
    assert "--require-hashes" in install
    assert "USER 2000:0" in lines and 'ENTRYPOINT ["vllm", "serve"]' in lines


def small_uv(folder: Path, name: str = "uv-1.data/scripts/uv") -> Path:
    place = folder / "uv.whl"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr(name, "#!/bin/sh\n")
    return place


def test_the_context_holds_what_the_dockerfile_names(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    other = tmp_path / "a-1-py3-none-any.whl"
    other.write_bytes(b"dependency")
    context = tmp_path / "context"
    context.mkdir()
    packages = [
        Locked(name, "1", Artifact(project=name, file="x", sha256=name * 64, size=1))
        for name in ("b", "a")
    ]
    debian.fill(context, wheel, packages, [other], small_uv(tmp_path))
    text = (context / "lock/requirements.lock").read_text()
    assert text.startswith(f"a==1 --hash=sha256:{'a' * 64}\nb==1 ")
    assert (context / "bin/uv").stat().st_mode & 0o111
    for line in instructions(DOCKER / "Dockerfile.full"):
        for source in re.findall(r"type=bind,source=([\w./-]+)", line):
            assert (context / source).is_dir(), source
        if line.startswith("COPY"):
            assert (context / line.split()[1]).exists()
        for script in re.findall(r"/mnt/((?:setup|bin)/[\w.-]+\w)(?![\w.$-])", line):
            assert (context / script).exists(), script
    wrong = small_uv(tmp_path, "other")
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(PatchsetError, match="does not contain the program uv"):
        debian.fill(again, wheel, [], [], wrong)


def test_every_package_of_the_base_has_its_reason() -> None:
    groups = tomllib.loads((DOCKER / "packages.toml").read_text())
    assert set(groups) == {"common", "cuda", "cpu"}
    reasons = [reason for group in groups.values() for reason in group.values()]
    assert all(len(reason) > 15 for reason in reasons)


def test_only_debians_own_archives_of_the_suite_are_sources() -> None:
    targets = """
http://mirror.example/debian/ bookworm main Packages
http://mirror.example/debian/ bookworm contrib Packages
http://mirror.example/debian-security/ bookworm-security main Packages
http://mirror.example/debian/ trixie main Packages
https://deb.nodesource.example/node_20.x nodistro main Packages
"""
    assert debian.sources_from(targets) == [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian-security bookworm-security main",
    ]
    foreign = "http://mirror.example/ubuntu/ noble main Packages\n"
    assert debian.sources_from(foreign) == debian.SOURCES


def test_a_snapshot_of_debian_is_the_source_and_part_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in mmdebstrap's place notes its arguments."""
    program = tmp_path / "bin/mmdebstrap"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/arguments\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(debian, "_KEYRING", keyring)
    monkeypatch.setattr(debian, "_host_apt_options", list)
    today = debian.rootfs("cpu", "x86_64", 1)
    assert "Check-Valid-Until" not in (tmp_path / "arguments").read_text()
    day = "http://mirror.example/archive/{}/20261120T000000Z"
    monkeypatch.setenv(debian.SNAPSHOT, day)
    then = debian.rootfs("cpu", "x86_64", 1)
    asked = (tmp_path / "arguments").read_text().splitlines()
    wanted = [day.format("debian")] * 2 + [day.format("debian-security")]
    suites = ["bookworm", "bookworm-updates", "bookworm-security"]
    assert asked[-3:] == [
        f"deb [signed-by={keyring}] {place} {suite} main"
        for place, suite in zip(wanted, suites, strict=True)
    ]
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in asked and then != today
    for wrong in ("20261120T000000Z", "http://m/x", "ftp://m/{}", "http://u:p@m/{}"):
        monkeypatch.setenv(debian.SNAPSHOT, wrong)
        with pytest.raises(UsageError) as caught:
            debian.rootfs("cpu", "x86_64", 1)
        assert "u:p" not in f"{caught.value.message} {caught.value.hint}"


def test_without_mmdebstrap_its_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    with pytest.raises(MissingToolError) as caught:
        debian.rootfs("cpu", "x86_64", 1)
    assert "apt-get install mmdebstrap" in (caught.value.hint or "")


def test_a_disk_that_is_too_small_is_refused_with_headroom(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    files.need_space({tmp_path / "not" / "there": free / 2})
    with pytest.raises(NoSpaceError, match="headroom included"):
        files.need_space({tmp_path: free * 0.99})
    with pytest.raises(NoSpaceError):  # two folders on one disk
        files.need_space({tmp_path: free * 0.6, tmp_path / "x": free * 0.6})


def test_an_engine_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="buildah is not installed; docker is"):
        engine.find(None, "x86_64")
    with pytest.raises(PatchsetError, match="no engine"):
        engine.find("podman", "x86_64")
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\ntest "$1" = buildx && echo 1\n')
    program.chmod(0o755)
    with pytest.raises(MissingToolError, match="daemon that does not answer"):
        engine.find("docker", "x86_64")


SLEEP = f"7{os.getpid():07}"
SLOW = f"""\
FROM scratch
COPY root /
RUN ["touch", "/first"]
RUN ["sleep", "{SLEEP}"]
"""
#: Builds, and says so when its last step runs; then writes the layout.
BUILD = """
import sys
from pathlib import Path
import click
from patchset import files, run_command
from patchset.image import engine

@click.command()
def command():
    folder = Path(sys.argv[1])
    with files.lock(folder / "images/work"):
        engine.clean(folder / "images")
        files.remove_temp(folder / "images")
        job = engine.Job(
            folder / "Dockerfile", folder / "images/context", "localhost/small:1",
            0, "x86_64",
        )
        engine.build("buildah", job)
        with files.atomic_folder(folder / "images/small") as made:
            engine.store("buildah", job.tag, made)

run_command.run(command, [])
"""


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with a context, and a storage of its own for buildah."""
    if shutil.which("buildah") is None or os.geteuid() != 0:
        pytest.skip(f"{APT}buildah, as root")
    config = tmp_path / "storage.conf"
    places = f'graphroot = "{tmp_path}/store"\nrunroot = "{tmp_path}/run"\n'
    config.write_text(f'[storage]\ndriver = "vfs"\n{places}')
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(config))
    ldd = ["ldd", "/bin/sleep", "/bin/touch"]
    libraries = subprocess.run(ldd, capture_output=True, text=True, check=True).stdout
    for path in {"/bin/sleep", "/bin/touch", *re.findall(r"\s(/\S+) \(", libraries)}:
        place = tmp_path / f"images/context/root{path}"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    (tmp_path / "Dockerfile").write_text(SLOW)
    return tmp_path


def run(folder: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", BUILD, str(folder)]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("point", "number"),
    [
        pytest.param("STEP 3/4", signal.SIGKILL, id="step"),
        pytest.param(SLEEP, signal.SIGINT, id="interrupted"),
        pytest.param(SLEEP, signal.SIGKILL, id="killed"),
        pytest.param("Copying blob", signal.SIGKILL, id="copy"),
    ],
)
def test_a_build_that_was_killed_ends_right_when_run_again(
    storage: Path, point: str, number: signal.Signals
) -> None:
    """Killed in an early step, in a program of the image, while the layout is written."""
    quick = SLOW.replace(f'"sleep", "{SLEEP}"', '"touch", "/second"')
    (storage / "Dockerfile").write_text(SLOW if point == SLEEP else quick)
    started = run(storage)
    assert started.stderr is not None
    if point == SLEEP:
        assert until(lambda: running(SLEEP))
    else:
        assert any(point in line for line in started.stderr)
    started.send_signal(number)
    words = started.communicate(timeout=90)[1]
    assert started.returncode in (130, -9) and "Traceback" not in words
    assert until(lambda: not running(SLEEP))
    (storage / "Dockerfile").write_text(quick)
    again = run(storage)
    words = again.communicate(timeout=90)[1]
    assert again.returncode == 0, words
    image, _ = layout.load(storage / "images/small/image")
    assert len(image.parts) == 1
    assert engine._containers() == {}
    assert not list((storage / "images").glob(".tmp-*"))
    shutil.rmtree(storage / "images/small")
    assert run(storage).wait(90) == 0
    assert layout.load(storage / "images/small/image")[0].digest == image.digest


def test_containers_of_somebody_else_stay(storage: Path) -> None:
    def ask(*words: str) -> str:
        argv = ["buildah", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    mine = ask("from", "scratch")
    context = storage / "images/context"
    (storage / "Dockerfile").write_text('FROM scratch\nRUN ["/no-such-program"]\n')
    job = Job(storage / "Dockerfile", context, "localhost/small:1", 0, "x86_64")
    with pytest.raises(process.ProgramError):
        engine.build("buildah", job)
    assert ask("containers", "--format", "{{.ContainerName}}") == mine


def test_what_docker_saves_becomes_a_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in docker's place copies what skopeo wrote in docker's form."""
    if shutil.which("skopeo") is None or shutil.which("umoci") is None:
        pytest.skip("needs apt-get install skopeo umoci")
    for argv in (
        ["umoci", "init", "--layout", "empty"],
        ["umoci", "new", "--image", "empty:1"],
        ["mkdir", "content"],
        ["umoci", "insert", "--rootless", "--image", "empty:1", "content", "/content"],
        ["skopeo", "copy", "oci:empty:1", "docker-archive:saved.tar:localhost/x:1"],
    ):
        subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncp {tmp_path}/saved.tar "$3"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    made = tmp_path / "made"
    made.mkdir()
    engine.store("docker", "localhost/x:1", made)
    image, name = layout.load(made / "image")
    assert name == "1" and len(image.parts[0].manifest["layers"]) == 1
    assert [path.name for path in made.iterdir()] == ["image"]
