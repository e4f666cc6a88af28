# SPDX-License-Identifier: Apache-2.0
"""Programs that are run: what they started ends with them, whatever ends the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from conftest import Project, running, until
from patchset import process
from patchset.errors import MissingToolError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_a_program_started_dies_with_the_parent(number: signal.Signals) -> None:
    """After an interruption even what is deaf; a killed parent ends its programs."""
    mark = f"{number}{os.getpid():07}"
    script = f"sleep {mark} & trap 'kill $!' TERM; echo ready; wait"
    if number != signal.SIGKILL:
        script = f"(trap '' TERM INT; sleep {mark}; sleep {mark}) & echo ready; wait"
    code = f"""
from patchset import process, run_command
import click
process.GRACE = process.LAST_GRACE = 1
def main(): process.run(["sh", "-c", {script!r}], prefix="p")
run_command.run(click.Command("x", callback=main), [])
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True
    )
    assert until(lambda: running(mark))
    parent.send_signal(number)
    parent.communicate(timeout=60)
    assert until(lambda: not running(mark))


@pytest.mark.parametrize(
    ("script", "status"), [("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_status_of_a_program_is_its_own(script: str, status: int) -> None:
    with pytest.raises(process.ProgramError, match=f"ended with status {status}"):
        process.run(["sh", "-c", script], prefix="p")
    with pytest.raises(MissingToolError):
        process.run(["no-such-program"], prefix="p")


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
