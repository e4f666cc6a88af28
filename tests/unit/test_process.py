# SPDX-License-Identifier: Apache-2.0
"""Programs that are run: what they started ends with them, whatever ends the caller."""

from __future__ import annotations

import os
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


def sleeping(text: str) -> list[int]:
    """Return the processes with a text among their arguments."""
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


GRANDCHILDREN = (
    "setsid sleep {0} & (trap '' TERM INT; sleep {0}; sleep {0}) & echo ready; wait"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_a_program_started_dies_with_the_parent(
    tmp_path: Path, number: signal.Signals
) -> None:
    """In sessions of their own, deaf to signals, and when nobody had the time to end them."""
    mark = f"{number}{os.getpid():07}"
    script = f"""
from patchset import process, guard
process.GRACE = guard.GRACE = 1
process.run(["sh", "-c", {GRANDCHILDREN.format(mark)!r}], prefix="p")
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True
    )
    assert until(lambda: len(sleeping(mark)) >= 2)
    parent.send_signal(number)
    parent.communicate(timeout=60)
    assert until(lambda: not sleeping(mark))


def test_a_program_that_leaves_children_behind_has_none_left(tmp_path: Path) -> None:
    process.run(
        [
            "sh",
            "-c",
            f"setsid sleep 9{os.getpid():07} </dev/null >/dev/null 2>&1 & exit 0",
        ],
        prefix="p",
    )
    assert until(lambda: not sleeping(f"9{os.getpid():07}"), 5)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_status_of_a_program_is_its_own(script: str, status: int) -> None:
    with pytest.raises(process.ProgramError, match=f"ended with status {status}"):
        process.run(["sh", "-c", script], prefix="p")
    with pytest.raises(MissingToolError):
        process.run(["no-such-program"], prefix="p")
    assert guard.descendants(os.getpid()) is not None


@pytest.mark.parametrize(
    "module", ["patchset.errors", "click", "rich.console", "patchset.run_command"]
)
def test_an_interruption_while_modules_are_imported_is_no_traceback(
    project: Project, module: str
) -> None:
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


def test_the_end_of_a_long_line_is_kept() -> None:
    script = "printf 'a%.0s' $(seq 1 900); echo ' because of this'; exit 1"
    with pytest.raises(process.ProgramError, match="because of this"):
        process.run(["sh", "-c", script], prefix="p", on_line=lambda line: None)
