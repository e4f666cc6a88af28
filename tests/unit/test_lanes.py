# SPDX-License-Identifier: Apache-2.0
"""How the lanes of tests end that are no commands of the tool: two lines of error, and never 1 unless something is wrong."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from conformance import report
from conformance.adapters import AdapterError
from patchset import files, run_command
from patchset.errors import UsageError

TESTS = Path(__file__).parents[1] / "lanes"


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            KeyboardInterrupt(),
            130,
            ("error: interrupted", "next:  run the same command again, from the start"),
        ),
        (AdapterError("no tree"), 3, ("error: no tree",)),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            7,
            ("error: the disk is full", "next:  free some space"),
        ),
        (
            files.full_disk(TESTS),
            7,
            ("error: the disk is full", "next:  free some space"),
        ),
        (
            ModuleNotFoundError(name="torch"),
            5,
            ("error: the Python package torch is not", "next:  run it by its session"),
        ),
        (
            UsageError("unknown release v9", "known: v1"),
            2,
            ("error: unknown release v9", "next:  known: v1"),
        ),
    ],
)
def test_a_lane_that_cannot_judge_says_why(
    error: BaseException,
    status: int,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def main() -> int:
        raise error

    ends: list[Callable[[], None]] = [lambda: run_command.run_lane(main, AdapterError)]
    if status not in (3, 130):  # the same, whichever way a lane is run
        ends.append(lambda: run_command.run(click.Command("lane", callback=main), []))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    for end in ends:
        with pytest.raises(SystemExit) as ended:
            end()
        said = capsys.readouterr().err
        assert ended.value.code == status and all(word in said for word in words)


def test_the_tool_shows_its_help_without_the_packages_of_tests() -> None:
    script = "import sys; sys.modules['pytest'] = None; from patchset.cli import main; main(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_result_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(Exception, match="the disk is full"):
        report.write_json(str(tmp_path / "r.json"), [])
    assert not list(tmp_path.iterdir())
