# SPDX-License-Identifier: Apache-2.0
"""Whole images: the Dockerfile, its context, the base's packages, disks, and buildah."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import APT, StandIn, lay, running, until
from patchset import files, paths, process
from patchset.errors import MissingToolError, NoSpaceError
from patchset.image import buildah, debian, layout
from patchset.inputs.lock import Locked
from patchset.release import Artifact

DOCKER = paths.project_root() / "docker"


def instructions() -> list[str]:
    """Return instructions with their continued lines joined, without comments."""
    lines = (DOCKER / "Dockerfile").read_text().splitlines()
    kept = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = kept.replace("\\\n", " ").splitlines()
    return [line.strip() for line in joined if line.strip()]


def test_the_dockerfile_takes_nothing_from_the_network() -> None:
    for line in instructions():
        assert not re.search(r"https?://(?!127\.0\.0\.1)|curl|wget|apt-get", line), line
        if "uv pip install" in line:
            words = ("--offline", "--no-index", "--no-deps")
            assert all(word in line for word in words), line
        assert not re.match(r"(ARG|ENV)\b.*(?i:proxy|index|cert|token)", line), line
    (install,) = [line for line in instructions() if "requirements.lock" in line]
    assert "--require-hashes" in install
    assert {"USER 2000:0", 'ENTRYPOINT ["vllm", "serve"]'} <= set(instructions())


def test_the_context_holds_what_the_dockerfile_names(tmp_path: Path) -> None:
    names = ("rootfs.tar", "vllm-1-py3-none-any.whl", "a-1-py3-none-any.whl")
    lay(tmp_path, dict.fromkeys(names, ""))
    base, wheel, other = (tmp_path / name for name in names)
    context = tmp_path / "context"
    context.mkdir()
    packages = [
        Locked(name, "1", Artifact(project=name, file="x", sha256=name * 64, size=1))
        for name in ("b", "a")
    ]
    debian.fill(context, base, wheel, packages, [other])
    text = (context / "lock/requirements.lock").read_text()
    assert text.startswith(f"a==1 --hash=sha256:{'a' * 64}\nb==1 ")
    assert os.access(context / "setup/uv", os.X_OK)
    for line in instructions():
        for source in re.findall(r"type=bind,source=([\w./-]+)", line):
            assert (context / source).is_dir(), source
        if line.startswith(("ADD", "COPY")):
            copied = line.split()[-2].strip("/")
            # Wheels are mounted, never copied.
            assert (context / copied).exists() and "wheels" not in copied
        for script in re.findall(r"/mnt/(setup/[\w.-]+\w)(?![\w.$-])", line):
            assert (context / script).exists(), script


def test_only_debians_own_archives_of_the_suite_are_sources() -> None:
    targets = """
http://mirror.example/debian/ bookworm main Packages
http://mirror.example/debian/ bookworm contrib Packages
http://mirror.example/debian-security/ bookworm-security main Packages
http://mirror.example/debian/ trixie main Packages
https://deb.nodesource.example/node_20.x nodistro main Packages
"""
    signed = f"deb [signed-by={debian._KEYRING}]"
    assert debian.sources_from(targets) == [
        f"{signed} http://mirror.example/debian bookworm main",
        f"{signed} http://mirror.example/debian-security bookworm-security main",
    ]
    foreign = "http://mirror.example/ubuntu/ noble main Packages\n"
    assert debian.sources_from(foreign) == []


def test_the_base_is_made_once_from_the_same_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    """A program in mmdebstrap's place notes its arguments."""
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    monkeypatch.setattr(debian, "_KEYRING", tmp_path / "keyring")
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        with pytest.raises(MissingToolError) as caught:
            debian.rootfs("cpu", "x86_64", 1)
    assert "apt-get install mmdebstrap" in (caught.value.hint or "")
    (tmp_path / "keyring").touch()
    stand_in("mmdebstrap", f'printf "%s\\n" "$@" >> {tmp_path}/arguments')
    first = debian.rootfs("cpu", "x86_64", 1)
    assert debian.rootfs("cpu", "x86_64", 1) == first
    assert debian.rootfs("cpu", "x86_64", 2) != first
    asked = (tmp_path / "arguments").read_text().splitlines()
    assert asked.count("--variant=minbase") == 2
    (included,) = {line for line in asked if line.startswith("--include=")}
    assert "libtcmalloc-minimal4" in included and "ibverbs" not in included


def test_a_disk_that_is_too_small_is_refused_with_headroom(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    files.need_space({tmp_path / "not" / "there": free / 2})
    with pytest.raises(NoSpaceError, match="headroom included"):
        files.need_space({tmp_path: free * 0.99})
    with pytest.raises(NoSpaceError):  # two folders on one disk
        files.need_space({tmp_path: free * 0.6, tmp_path / "x": free * 0.6})


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
from patchset.image import buildah

@click.command()
def command():
    images = Path(sys.argv[1]) / "images"
    with files.lock(images / "work"):
        buildah.clean(images)
        buildah.build(images / "context", "localhost/small:1", 0)
        with files.atomic_folder(images / "small") as made:
            buildah.store("localhost/small:1", made)

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
    (tmp_path / "images/context/Dockerfile").write_text(SLOW)
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
    dockerfile = storage / "images/context/Dockerfile"
    dockerfile.write_text(SLOW if point == SLEEP else quick)
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
    dockerfile.write_text(quick)
    again = run(storage)
    words = again.communicate(timeout=90)[1]
    assert again.returncode == 0, words
    assert len(layout.load(storage / "images/small/image").parts) == 1
    assert buildah._containers() == {}
    assert not list((storage / "images").glob(".tmp-*"))


def test_containers_of_somebody_else_stay(storage: Path) -> None:
    def ask(*words: str) -> str:
        argv = ["buildah", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    mine = ask("from", "scratch")
    context = storage / "images/context"
    lay(context, {"Dockerfile": 'FROM scratch\nRUN ["/no-such-program"]\n'})
    with pytest.raises(process.ProgramError):
        buildah.build(context, "localhost/small:1", 0)
    assert ask("containers", "--format", "{{.ContainerName}}") == mine
