# SPDX-License-Identifier: Apache-2.0
"""Builds that are interrupted or killed: nothing runs on, no container stays, nothing lies in temporary folders."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Project
from patchset import guard, process
from patchset.errors import MissingToolError
from patchset.image.engine import Engine

#: Builds, and says so when its second step runs.
BUILD = """
import sys
from pathlib import Path
from patchset import run_command
from patchset.image.engine import Engine
import click

@click.command()
def command():
    folder = Path(sys.argv[1])
    Engine("buildah").build(folder / "Dockerfile", folder / "images/context", "small", epoch=0, arch="x86_64")

run_command.run(command, [])
"""
SLEEP = f"7{os.getpid():07}"
DOCKERFILE = f"""\
FROM scratch
COPY busybox /busybox
RUN ["/busybox", "touch", "/first"]
RUN ["/busybox", "sh", "-c", "echo at-work; /busybox sleep {SLEEP}"]
"""


def sleeping(text: str = SLEEP) -> list[int]:
    """Processes with a text among their arguments."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def until(condition: Callable[[], bool], seconds: float = 40) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a context, and a storage of its own for buildah."""
    if shutil.which("buildah") is None or shutil.which("busybox") is None or os.geteuid() != 0:
        pytest.skip("needs buildah and busybox-static, as root")
    config = tmp_path / "storage.conf"
    config.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/store"\nrunroot = "{tmp_path}/run"\n'
    )
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(config))
    context = tmp_path / "images/context"
    context.mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", context / "busybox")
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    return tmp_path


def temporary() -> set[Path]:
    return {path for place in ("/var/tmp", "/tmp") for path in Path(place).glob("*") if path.name.startswith(("buildah", "storage", "container"))}  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_leaves_nothing(storage: Path, number: signal.Signals) -> None:
    before = temporary()
    which = Engine("buildah")
    done = subprocess.Popen([sys.executable, "-c", BUILD, str(storage)], stderr=subprocess.PIPE)
    assert until(lambda: bool(sleeping())), done.stderr and done.stderr.read()
    assert which._containers()
    done.send_signal(number)
    assert done.wait(60) == (130 if number != signal.SIGKILL else -9)
    assert until(lambda: not sleeping())
    if number == signal.SIGKILL:  # the next run
        which.clean(storage / "images")
    assert which._containers() == {} and temporary() <= before
    assert [path.name for path in (storage / "images").iterdir() if path.name != "context"] == (
        [path.name for path in (storage / "images").glob(".tmp-*")] if number == signal.SIGKILL else []
    )


def test_containers_of_somebody_else_stay(storage: Path) -> None:
    which = Engine("buildah")

    def ask(*words: str) -> str:
        return subprocess.run(["buildah", *words], capture_output=True, text=True, check=True).stdout.strip()

    mine = ask("from", "scratch")
    (storage / "Dockerfile").write_text("FROM scratch\nCOPY busybox /busybox\n")
    which.build(storage / "Dockerfile", storage / "images/context", "small", epoch=0, arch="x86_64")
    (storage / "Dockerfile").write_text('FROM small\nRUN ["/no-such-program"]\n')
    with pytest.raises(process.ProgramError):
        which.build(
            storage / "Dockerfile", storage / "images/context", "other", epoch=0, arch="x86_64",
            arguments={"BASE": "localhost/small:latest"},
        )  # fmt: skip
    assert [name for name in ask("containers", "--format", "{{.ContainerName}}").split()] == [mine]
    later = ask("from", "localhost/small")
    which.clean(storage / "images")
    assert later in ask("containers", "--format", "{{.ContainerName}}").split()


GRANDCHILDREN = "setsid sleep {0} & (trap '' TERM INT; sleep {0}; sleep {0}) & echo ready; wait"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_a_program_started_dies_with_the_parent(tmp_path: Path, number: signal.Signals) -> None:
    """In sessions of their own, deaf to signals, and when nobody had the time to end them."""
    mark = f"{number}{os.getpid():07}"
    script = f"""
from patchset import process, guard
process.GRACE = guard.GRACE = 1
process.run(["sh", "-c", {GRANDCHILDREN.format(mark)!r}], prefix="p")
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    assert until(lambda: len(sleeping(mark)) >= 2)
    parent.send_signal(number)
    parent.communicate(timeout=60)
    assert until(lambda: not sleeping(mark))


def test_a_program_that_leaves_children_behind_has_none_left(tmp_path: Path) -> None:
    process.run(
        ["sh", "-c", f"setsid sleep 9{os.getpid():07} </dev/null >/dev/null 2>&1 & exit 0"], prefix="p"
    )
    assert until(lambda: not sleeping(f"9{os.getpid():07}"), 5)


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_the_status_of_a_program_is_its_own(script: str, status: int) -> None:
    with pytest.raises(process.ProgramError, match=f"ended with status {status}"):
        process.run(["sh", "-c", script], prefix="p")
    with pytest.raises(MissingToolError):
        process.run(["no-such-program"], prefix="p")
    assert guard.descendants(os.getpid()) is not None


@pytest.mark.parametrize("module", ["patchset.errors", "click", "rich.console", "patchset.run_command"])
def test_an_interruption_while_modules_are_imported_is_no_traceback(project: Project, module: str) -> None:
    started = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "patchset", "apply"],
        cwd=project.root,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    assert any(line.split("|")[-1].strip() == module for line in started.stderr)
    started.send_signal(signal.SIGINT)
    said = started.communicate(timeout=60)[1]
    assert started.returncode == 130 and "Traceback" not in said
