# SPDX-License-Identifier: Apache-2.0
"""Programs that are run; commands that are killed, interrupted or meet a full disk."""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PARSER, Project, diff_line, git, ran, resize, running, until
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


def test_a_signal_that_comes_while_a_program_starts() -> None:
    mark = f"7{os.getpid():07}"
    code = f"""
from patchset import process, run_command
import click, os, signal, subprocess
class Popen(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        if args[0][-1] == "{mark}":
            os.kill(os.getpid(), signal.SIGINT)
            print("started", flush=True)
subprocess.Popen = Popen
def main(): process.run(["sleep", "{mark}"], prefix="p")
run_command.run(click.Command("x", callback=main), [])
"""
    done = ran([sys.executable, "-c", code], 130)
    assert "started" in done.stdout and "told to stop" in done.stderr
    assert not running(mark)


def test_a_run_under_nohup_goes_on_without_its_terminal(project: Project) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    project.run("lint")
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN


PIP = "print({!r}, flush=True); raise SystemExit('ERROR: No matching distribution')"
NETWORK = (
    "WARNING: Retrying: [Errno -3] Temporary failure in name resolution",
    "npm error reason: getaddrinfo EAI_AGAIN registry.npmjs.org",
    "Err:1 http://deb.debian.org bookworm InRelease Could not resolve 'deb.debian.org'",
)
SHELL, PYTHON = ("sh", "-c"), (sys.executable, "-c")


@pytest.mark.parametrize(
    ("command", "error", "said"),
    [
        (("no-such-program",), MissingToolError, "no-such-program"),
        ((*SHELL, "exit 3"), process.ProgramError, "ended with status 3"),
        ((*SHELL, "kill -9 $$"), process.ProgramError, "ended with status 137"),
        ((*SHELL, "kill -15 $$"), process.ProgramError, "ended with status 143"),
        (
            (*PYTHON, "raise SystemExit(900 * 'a' + ' disk quota exceeded')"),
            NoSpaceError,
            "aaa disk quota",
        ),
        (
            (*PYTHON, PIP.format(NETWORK[0])),
            UnavailableError,
            "no network.* name resolution",
        ),
        (
            (*PYTHON, PIP.format(NETWORK[1])),
            UnavailableError,
            "no network.*registry.npmjs.org",
        ),
        (
            (*PYTHON, PIP.format(NETWORK[2])),
            UnavailableError,
            "no network.*deb.debian.org",
        ),
        (
            (*SHELL, "echo '[Errno 28] No space left on device' >&2; exit 1"),
            NoSpaceError,
            "disk is full",
        ),
        (
            (*SHELL, "echo 'write x: no space left on device' >&2; exit 1"),
            NoSpaceError,
            "disk is full",
        ),
    ],
)
def test_a_program_that_fails_has_its_cause_in_the_error(
    command: tuple[str, ...], error: type[PatchsetError], said: str
) -> None:
    with pytest.raises(error, match=said):
        process.run(command, prefix="p")


def test_an_output_that_is_shown_is_not_told_again() -> None:
    with pytest.raises(process.ProgramError) as shown:
        process.run([sys.executable, "-c", PIP.format("a")], prefix="pip")
    assert "No matching" not in shown.value.message
    assert shown.value.hint == "its output is above"


#: A progress bar that is written over, and never ends its line; then two lines.
BAR = """
import sys, time
for part in ("\\r10%|#", "  | 1/10", "\\r20%|##   | 2/10", "\\r"):
    print(part, end="", flush=True)
    time.sleep(0.2)
time.sleep(1)
print("\\rdone\\r", flush=True)
time.sleep(0.7)
print("last", end="")
"""


def test_a_progress_bar_is_shown_while_its_line_has_not_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "HEARTBEAT", 0.3)
    process.run([*PYTHON, BAR], prefix="p")
    said = capsys.readouterr().err.splitlines()
    assert any(
        re.fullmatch(r"  p: at work for \d s: 20%\|##   \| 2/10", x) for x in said
    )
    # Minutes later, the step that was begun is far above.
    assert any(re.fullmatch(r"  p: at work for \d s: done", x) for x in said)
    lines = [line for line in said if "at work" not in line]
    assert lines == ["  p: done", "  p: last"]


@pytest.mark.parametrize("status", [0, 3])
def test_of_a_wordy_program_the_last_line_and_the_end_of_a_failure_are_shown(
    status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "HEARTBEAT", 0.3)
    words = (
        f"echo Collecting a; echo 'Downloading torch (527 MB)'; sleep 1; exit {status}"
    )
    with pytest.raises(process.ProgramError) if status else contextlib.nullcontext():
        process.run([*SHELL, words], prefix="pip", wordy=True)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "  pip: at work for 0 s: Downloading torch (527 MB)"
    shown = [line for line in said if "at work" not in line]
    wanted = ["  pip: Collecting a", "  pip: Downloading torch (527 MB)"]
    assert shown == (wanted if status else [])
    steps = "echo 'STEP 2/9: RUN x'; echo ' + torch'; sleep 1"
    process.run([*SHELL, steps], prefix="buildah", wordy=True)
    assert "at work for 0 s: STEP 2/9: RUN x\n" in capsys.readouterr().err


#: What each command writes, below the checkout.
WRITES = {
    "apply": "build/trees",
    "export": "build/export",
    "rebase v1.3.0": "patches",
    "build-wheel": "build/wheels",
    "build-image --base {base}": "build/images",
}
KILLS = (signal.SIGKILL, signal.SIGINT, signal.SIGKILL)
#: Runs a command of the tool, and stops it at a rename.
STOPPED = """
import os, pathlib, signal, sys
from patchset import cli

point, number, count = int(sys.argv[1]), int(sys.argv[2]), 0

def stopping(real):
    def act(*arguments):
        global count
        count += 1
        if count == point:
            os.kill(os.getpid(), number)
        return real(*arguments)
    return act

for name in ("rename", "replace"):
    setattr(pathlib.Path, name, stopping(getattr(pathlib.Path, name)))
try:
    cli.main(sys.argv[3:])
finally:
    print(f"renames: {count}", file=sys.stderr)
"""


def run(
    root: Path, command: str, status: int = 0, point: int = 0, number: int = 0
) -> str:
    """Run a command on a checkout, and stop it at one of its renames; what it says."""
    argv = [sys.executable, "-c", STOPPED, str(point), str(number), *command.split()]
    env = {**os.environ, "PATCHSET_ROOT": str(root)}
    return ran(argv, status, cwd=root, env=env).stderr


def made(root: Path, folder: str) -> dict[str, str]:
    """Return the sha256 of each file in a folder, and the commits of trees."""
    found = {}
    for place in sorted((root / folder).rglob("*")):
        name = place.relative_to(root).as_posix()
        if place.name == ".git":
            found[name] = git(place, "rev-parse", "HEAD")
        elif ".git" not in place.parts and place.is_file() and place.suffix != ".lock":
            found[name] = hashlib.sha256(place.read_bytes()).hexdigest()
    return found


@pytest.mark.parametrize("failure", ["kill", "full disk"])
@pytest.mark.parametrize("command", WRITES)
def test_the_next_run_ends_right(
    released: Project,
    disk: Path,
    command: str,
    failure: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = WRITES[command]
    if "{base}" in command:
        command = command.format(base=request.getfixturevalue("base"))
    released.add_patch("twenty", diff_line(20, "twenty", "vllm/parser.py"))
    released.run("refresh")
    released.pin_next(
        "top\n" + PARSER, paths=("vllm/parser.py", "tests/test_parser.py")
    )
    shutil.rmtree(released.root / "build")

    right = shutil.copytree(released.root, released.root.with_name("right"))
    count = int(run(right, command).rpartition("renames: ")[2])
    wanted = made(right, folder)
    assert wanted and count >= 1
    for number, sign in enumerate(KILLS):
        root = shutil.copytree(released.root, disk / str(number))
        if failure == "full disk":
            used = shutil.disk_usage(disk).used
            whole = sum(file.lstat().st_size for file in right.rglob("*"))
            resize(disk, used + whole * number // 4)
            said = run(root, command, 1)
            assert "next:  free some space" in said
            assert not list(root.rglob(".tmp-*"))
            resize(disk, 64 << 20)
        else:
            status = 130 if sign == signal.SIGINT else -sign
            point = [1, -(-count // 2), count][number]
            said = run(root, command, status, point, sign)
        assert "Traceback" not in said
        monkeypatch.setenv("PATCHSET_ROOT", str(root))
        Project(root, released.downloads).run(*command.split())
        assert made(root, folder) == wanted
        assert not list(root.rglob(".tmp-*"))
        shutil.rmtree(root)


def test_a_folder_that_the_terminal_cannot_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project.root.rename(project.root.with_name("Grün"))
    env = {**os.environ, "PATCHSET_ROOT": str(root), "PYTHONIOENCODING": "ascii"}
    argv = [sys.executable, "-m", "patchset", "apply"]
    for words, said in ((argv, "Gr\\xfcn"), ([*argv, "v\u2026"], "\\u2026")):
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
