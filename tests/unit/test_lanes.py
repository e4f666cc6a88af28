# SPDX-License-Identifier: Apache-2.0
"""Small lanes: how they end, what they count, and what reaches their programs."""

import errno
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from conformance.case import parse
from conformance.reading import ReadCall, Reading
from conftest import StandIn
from image import container
from judges.rust import judged
from patchset import files, run_command
from patchset.errors import PatchsetError, UsageError
from server import build_dir, vllm_serve
from server import model as small
from upstream.__main__ import compare


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (
            KeyboardInterrupt(),
            130,
            ("error: interrupted", "next:  run the same command again, from the start"),
        ),
        (PatchsetError("no tree"), 3, ("error: no tree",)),
        (
            BrokenPipeError(),
            3,
            ("error: what this command wrote to", "next:  run it again without"),
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            3,
            ("error: the disk is full", "next:  free some space"),
        ),
        (
            files.full_disk(Path()),
            3,
            ("error: the disk is full", "next:  free some space"),
        ),
        (
            ModuleNotFoundError(name="torch"),
            3,
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

    ends: list[Callable[[], None]] = [lambda: run_command.run_lane(main)]
    if status not in (3, 130):  # the same, whichever way a lane is run
        ends.append(lambda: run_command.run(click.Command("lane", callback=main), []))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    for end in ends:
        with pytest.raises(SystemExit) as ended:
            end()
        said = capsys.readouterr().err
        assert ended.value.code == status and all(word in said for word in words)


def test_the_tool_shows_its_help_without_the_packages_of_tests() -> None:
    script = (
        "import sys; sys.modules['pytest'] = None; "
        "from patchset.cli import main; main(['--help'])"
    )
    assert b"Commands" in subprocess.check_output([sys.executable, "-c", script])


CASE = parse(
    {
        "description": "a call that is quoted",
        "class": "must-not",
        "source": "this test",
        "tools": [{"name": "read", "parameters": {"type": "object"}}],
        "output": "Say <function=read>.",
        "expected": {"content": "Say <function=read>.", "finish_reason": "stop"},
    },
    "test/quoted",
)
RIGHT = Reading(content="Say <function=read>.", finish="stop")
CALLED = Reading(
    content="Say ", calls=[ReadCall("read", "1", "{}", {})], finish="tool_calls"
)


def test_a_call_that_was_quoted_and_a_cut_that_matters_are_counted_by_case() -> None:
    counted = judged(
        [
            (CASE, {"full": RIGHT, "w1": RIGHT, "whole": CALLED}),
            (CASE, {"full": RIGHT, "w1": RIGHT}),
        ]
    )
    assert counted == {
        "all": 5,
        "right": 4,
        "ran": 1,
        "cases": 2,
        "burst_dependent": 1,
        "quoted_executed": 1,
    }

    # White space is form, and a response that is not streamed is no cut.
    near = Reading(content="Say <function=read>.\n", finish="stop")
    counted = judged([(CASE, {"full": near, "w1": RIGHT})])
    found = (counted["right"], counted["form"], counted["burst_dependent"])
    assert found == (2, 1, 0)


def test_each_test_has_one_place() -> None:
    stock = {
        "a": "passed",
        "b": "passed",
        "c[1]": "passed",
        "c[2]": "passed",
        "d": "failed",
        "e": "failed",
        "s": "skipped",
    }
    patched = {
        "a": "passed",
        "c[1]": "failed",
        "c[2]": "passed",
        "d": "failed",
        "e": "passed",
        "s": "skipped",
    }
    assert compare(stock, patched, {"c", "z"}) == {
        "both": ["a", "c[2]"],
        "lost": ["b"],  # a test that is gone
        "excepted": ["c[1]"],
        "neither": ["d"],
        "gained": ["e"],
        "idle": ["z"],
    }


def test_a_program_of_the_image_gets_the_lanes_variables_and_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    stand_in("buildah", 'printf "%s\\n" "$@"')
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build folder"))
    monkeypatch.setenv("SERVER_LANE_TAP", "/a b/$HOME")
    monkeypatch.setenv("PYTHONPATH", "/x")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    script = container.vllm("a container", tmp_path)
    said = subprocess.check_output([script, "serve", "a model", "$y"], text=True)
    words = said.splitlines()
    assert words[-6:] == ["a container", "--", "vllm", "serve", "a model", "$y"]
    assert words[words.index("--env") + 1] == "PYTHONPATH=/x"
    assert "SERVER_LANE_TAP=/a b/$HOME" in words
    assert not any(word.startswith("OMP_WAIT_POLICY") for word in words)
    assert f"{build_dir()}:/mnt/build:rw" in words
    # The clone's own path may be one where the image's user may not look.
    mounts = [word.split(":")[1] for word in words if word.endswith((":ro", ":rw"))]
    for path in (small.FOLDER, vllm_serve.SITE, vllm_serve.tap(build_dir(), 3)):
        assert container.inside(path).startswith(tuple(f"{at}/" for at in mounts))


def test_a_program_that_does_not_end_is_told(
    monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    stand_in("buildah", "exec sleep 60")
    monkeypatch.setattr(container, "_PATIENCE", 0.2)
    with pytest.raises(PatchsetError, match="did not end within"):
        container.run("a container", "it failed", "python3")
