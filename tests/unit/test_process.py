# SPDX-License-Identifier: Apache-2.0
"""Programs that are run: what they started ends with them, whatever ends the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from conftest import running, until
from patchset import process
from patchset.errors import (
    MissingToolError,
    NoSpaceError,
    PatchsetError,
    UnavailableError,
)


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


PIP = "print({!r}, flush=True); raise SystemExit('ERROR: No matching distribution')"
NETWORK = (
    "WARNING: Retrying: [Errno -3] Temporary failure in name resolution",
    "npm error reason: getaddrinfo EAI_AGAIN registry.npmjs.org",
    "Err:1 http://deb.debian.org bookworm InRelease Could not resolve 'deb.debian.org'",
)


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        ("exit(900 * 'a' + ' disk quota exceeded')", NoSpaceError, "aaa disk quota"),
        (PIP.format(NETWORK[0]), UnavailableError, "no network.* name resolution"),
        (PIP.format(NETWORK[1]), UnavailableError, "no network.*registry.npmjs.org"),
        (PIP.format(NETWORK[2]), UnavailableError, "no network.*deb.debian.org"),
        ("exit('[Errno 28] No space left on device')", NoSpaceError, "disk is full"),
        ("exit('write x: no space left on device')", NoSpaceError, "disk is full"),
    ],
)
def test_a_program_that_fails_has_its_cause_in_the_error(
    code: str, error: type[PatchsetError], said: str
) -> None:
    program = [sys.executable, "-c", f"import sys; exit = sys.exit; {code}"]
    with pytest.raises(error, match=said):
        process.run(program, prefix="p")


def test_an_output_that_is_shown_is_not_told_again() -> None:
    with pytest.raises(process.ProgramError) as shown:
        process.run([sys.executable, "-c", PIP.format("a")], prefix="pip")
    assert "No matching" not in shown.value.message
    assert shown.value.hint == "its output is above"
