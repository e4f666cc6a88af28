# SPDX-License-Identifier: Apache-2.0
"""Which engine is taken, by what is on PATH; and what is said when none can be."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from patchset import console, process
from patchset.errors import MissingToolError, UnavailableError
from patchset.image import engine
from patchset.release import EngineName


def program(folder: Path, name: str, script: str = "exit 0") -> None:
    """A real program: a shell script on PATH."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def bin_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


DEAD_DOCKER = 'case "$1" in version) echo 20.10.24;; *) exit 1;; esac'
LIVE_DOCKER = 'case "$1" in version) echo 20.10.24;; info) echo 20.10.24;; *) exit 1;; esac'
DOCKER_WITHOUT_BUILDX = 'case "$1" in version|info) echo 28.2.2;; *) exit 1;; esac'


def test_none_installed_names_a_package(bin_only: Path) -> None:
    with pytest.raises(MissingToolError, match="no container engine") as caught:
        engine.find()
    assert caught.value.hint == "install one: sudo apt-get install buildah"


def test_order_buildah_podman_docker(bin_only: Path) -> None:
    program(bin_only, "docker", LIVE_DOCKER)
    assert engine.find().name == "docker"
    program(bin_only, "podman")
    assert engine.find().name == "podman"
    program(bin_only, "buildah")
    assert engine.find().name == "buildah"
    assert engine.find("docker").name == "docker"


def test_an_image_that_is_nowhere_says_how_to_make_one(bin_only: Path) -> None:
    program(bin_only, "podman", "exit 125")
    with pytest.raises(
        UnavailableError, match="podman has no image made-up:v1, and could not pull it"
    ) as caught:
        engine.Engine("podman").pull("made-up:v1")
    assert "nox -s build-image" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("script", "why"), [(DEAD_DOCKER, "daemon does not answer"), (DOCKER_WITHOUT_BUILDX, "no buildx")]
)
def test_a_docker_that_cannot_build_does_not_count(bin_only: Path, script: str, why: str) -> None:
    program(bin_only, "docker", script)
    with pytest.raises(MissingToolError, match=why):
        engine.find()
    program(bin_only, "podman")
    assert engine.find().name == "podman"


@pytest.mark.parametrize(
    ("name", "package"), [("buildah", "buildah"), ("podman", "podman"), ("docker", "docker.io")]
)
def test_a_named_engine_that_is_missing_names_its_package(
    bin_only: Path, name: EngineName, package: str
) -> None:
    with pytest.raises(MissingToolError) as caught:
        engine.find(name)
    assert caught.value.hint == f"install it: sudo apt-get install {package}"
    assert caught.value.exit_code == 5


def test_another_processor_needs_an_emulator(bin_only: Path) -> None:
    program(bin_only, "buildah")
    with pytest.raises(MissingToolError, match="do not run here") as caught:
        engine.find(arch="x86_64", machine="riscv64")
    assert "qemu-user-static" in (caught.value.hint or "")
    assert engine.find(arch="aarch64", machine="arm64").name == "buildah"


def test_a_programs_lines_are_shown_and_its_failure_raised(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(process.ProgramError, match="status 3") as caught:
        process.run([sys.executable, "-c", "print('one'); print('two'); raise SystemExit(3)"], prefix="p")
    assert caught.value.tail == "one\ntwo"


def test_a_silent_program_is_seen_to_be_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("patchset.console.note", said.append)
    process.run([sys.executable, "-c", "import time; time.sleep(0.6)"], prefix="p", heartbeat=0.2)
    assert any("at work" in line for line in said)
    process.run(
        [sys.executable, "-c", "import time; time.sleep(0.6)"],
        prefix="p",
        heartbeat=0.2,
        progress=lambda: "2 of 9",
    )
    assert "  p: 2 of 9" in said


@pytest.mark.parametrize(
    "line",
    ["STEP 5/22: RUN true", "[2/2] STEP 5/22: RUN true", "#9 [cuda 5/22] RUN true", "#9 [5/22] RUN true"],
)
def test_a_builds_step_is_known_and_what_it_wrote(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = iter([0, 10_000_000_000, 12_000_000_000, 20_000_000_000])
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(used=next(used)))
    steps = engine._Steps("buildah", tmp_path, unpacks=8_000_000_000)
    steps.line(line)
    assert steps.far().startswith("step 5 of 22, RUN, at work for 0 s, about 2.0 of 8.0 GB (25%)")
    assert steps.far() == "step 5 of 22, RUN, at work for 0 s, 10.0 GB more on the disk"


def test_what_is_left_is_told_from_the_speed_so_far() -> None:
    assert console.how_far(1_500_000_000, 6_000_000_000, 60) == "1.5 of 6.0 GB (25%), about 3 min left"
    assert console.how_far(9, 9, 60, "wheels") == "9 of 9 wheels (100%)"


def test_an_interruption_ends_the_program_and_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child ignores SIGINT and has a child of its own; both must be gone."""
    monkeypatch.setattr(process, "GRACE", 0.3)
    script = "trap '' INT; sleep 60 & echo $! > grandchild; echo started; wait; sleep 60"

    def interrupt(text: str) -> None:
        if "started" in text:
            raise KeyboardInterrupt

    monkeypatch.setattr("patchset.console.note", interrupt)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        process.run(["sh", "-c", script], prefix="p", cwd=tmp_path)
    assert time.monotonic() - start < 20
    grandchild = int((tmp_path / "grandchild").read_text())
    for _ in range(50):
        status = Path(f"/proc/{grandchild}/stat")
        if not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError("the grandchild still runs")
