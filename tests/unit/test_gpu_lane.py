# SPDX-License-Identifier: Apache-2.0
"""Cells as processes: some at a time, within a time limit, resumed; here each is a small program."""

import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from gpu import cells, lane
from gpu.__main__ import command as gpu_tests
from gpu.cells import Job
from gpu.lane import Command
from gpu.prepared import Prepared, Variant
from patchset import results as store
from patchset.errors import PatchsetError, UsageError

WHEEL = {"file": "vllm.whl", "sha256": "0" * 64}

PROGRAM = """\
import json, pathlib, sys, time
out, name, variant, cell, mtp, seconds, wheel = sys.argv[1:]
(pathlib.Path(out) / "begun").open("a").write(name + "\\n")
time.sleep(float(seconds))
if cell == "eager":
    sys.exit("no kernel for this")
place = pathlib.Path(out) / "cells" / f"{name}.json"
place.parent.mkdir(exist_ok=True)
place.write_text(json.dumps({
    "release": "v0.26.0", "variant": variant, "cell": cell, "mtp": int(mtp), "wheel": json.loads(wheel),
    "revision": None, "checkpoint": {"key": "made"}, "model": "the cpu lane's checkpoint", "right": 3, "requests": 3,
    "acceptance": 0.5, "complaints": [], "seconds": {"all": float(seconds)},
}))
"""


def prepared(wheel: dict[str, str] = WHEEL) -> Prepared:
    return Prepared(
        "v0.26.0", {"patched": Variant("/nowhere", wheel)}, checkpoint="/nowhere/made"
    )


def program(out: Path, seconds: float = 0.0, wheel: dict[str, str] = WHEEL) -> Command:
    out.mkdir(exist_ok=True)

    def command(job: Job) -> list[str]:
        words = [
            str(out),
            job.name("v0.26.0"),
            job.variant,
            job.cell.name,
            str(job.mtp),
            str(seconds),
        ]
        return [sys.executable, "-c", PROGRAM, *words, json.dumps(wheel)]

    return command


def jobs(names: str = "graphs", ks: tuple[int, ...] = (0, 1, 2)) -> list[Job]:
    return cells.plan(cells.chosen(names), ["patched"], ks)


def begun(out: Path) -> list[str]:
    place = out / "begun"
    return place.read_text().split() if place.is_file() else []


def test_all_cells_run_once(tmp_path: Path) -> None:
    outcome = lane.run(
        prepared(),
        jobs(),
        tmp_path / "o",
        program(tmp_path / "o"),
        servers=3,
        seconds=None,
    )
    assert sorted(result["mtp"] for result in outcome.results) == [0, 1, 2]
    assert not outcome.bad() and not outcome.left
    again = lane.run(
        prepared(),
        jobs(),
        tmp_path / "o",
        program(tmp_path / "o"),
        servers=3,
        seconds=None,
    )
    assert len(again.results) == 3
    assert len(begun(tmp_path / "o")) == 3  # nothing was run twice


def test_another_wheel_is_another_run(tmp_path: Path) -> None:
    other = {"file": "vllm.whl", "sha256": "1" * 64}
    lane.run(
        prepared(),
        jobs(),
        tmp_path / "o",
        program(tmp_path / "o"),
        servers=1,
        seconds=None,
    )
    command = program(tmp_path / "o", wheel=other)
    outcome = lane.run(
        prepared(other), jobs(), tmp_path / "o", command, servers=1, seconds=None
    )
    assert [result["wheel"] for result in outcome.results] == [other] * 3
    assert len(begun(tmp_path / "o")) == 6


def test_a_failed_cell_says_why_and_is_run_again(tmp_path: Path) -> None:
    out = tmp_path / "o"
    outcome = lane.run(
        prepared(), jobs("eager", (0,)), out, program(out), servers=1, seconds=None
    )
    assert outcome.bad() == ["patched eager k=0"]
    assert (
        "no kernel for this"
        in (out / "failed" / "v0.26.0-patched-eager-k0.txt").read_text()
    )
    lane.run(
        prepared(), jobs("eager", (0,)), out, program(out), servers=1, seconds=None
    )
    assert len(begun(out)) == 2


def test_no_cell_is_begun_that_would_not_end_in_time(tmp_path: Path) -> None:
    out = tmp_path / "o"
    outcome = lane.run(
        prepared(), jobs(), out, program(out), servers=1, seconds=lane.FIRST_GUESS
    )
    assert len(outcome.left) == 3
    assert begun(out) == []


def test_what_runs_when_the_time_is_up_is_stopped_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "FIRST_GUESS", 0.5)
    monkeypatch.setattr(lane, "STOP_SECONDS", 0.5)
    out = tmp_path / "o"
    others = set(psutil.Process().children())  # of other tests
    start = time.monotonic()
    outcome = lane.run(
        prepared(), jobs(ks=(0, 1)), out, program(out, 60), servers=1, seconds=2.5
    )
    assert time.monotonic() - start < 15
    assert [job.mtp for job in outcome.left] == [1, 0]
    left = set(psutil.Process().children()) - others
    assert not [child for child in left if child.status() != psutil.STATUS_ZOMBIE]
    resumed = lane.run(
        prepared(), jobs(ks=(0, 1)), out, program(out), servers=2, seconds=None
    )
    assert len(resumed.results) == 2 and not resumed.left


def test_the_plan_begins_with_what_tells_most() -> None:
    planned = cells.plan(cells.chosen("eager,graphs"), ["patched", "stock"], (0, 3, 5))
    assert [(job.cell.name, job.variant, job.mtp) for job in planned[:4]] == [
        ("graphs", "patched", 3),
        ("graphs", "patched", 5),
        ("graphs", "patched", 0),
        ("graphs", "stock", 3),
    ]
    assert [job.mtp for job in planned if job.cell.name == "eager"] == [3, 0, 3, 0]
    everything = cells.plan(
        cells.chosen(",".join(cells.CELLS)), ["patched", "stock"], range(6)
    )
    assert [job.mtp for job in everything[:6]] == [3, 5, 1, 0, 2, 4]
    assert [job.cell.name for job in everything if job.variant == "stock"][::6][:2] == [
        "graphs",
        "prefix",
    ]
    real = cells.plan(
        cells.chosen("graphs"), ["patched"], (0, 3, 5), control_first=True
    )
    assert [job.mtp for job in real] == [0, 3, 5]
    with pytest.raises(UsageError, match="no cell is called grafs"):
        cells.chosen("grafs")


def test_without_a_gpu_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu import gpus

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    count, why = gpus.visible()
    assert count == 0  # also on a machine with a GPU, which is hidden here
    assert why.startswith("no GPU is visible: ") and "\n" not in why
    with pytest.raises(PatchsetError, match="no GPU is visible"):
        gpu_tests.main([], standalone_mode=False)


def test_results_that_come_back_are_kept_in_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        store, "file", lambda lane, release: tmp_path / lane / f"{release}.json"
    )
    result = {
        "lane": "gpu",
        "release": "v0.26.0",
        "variant": "patched",
        "cell": "graphs",
        "mtp": 3,
        "right": 1,
        "requests": 1,
        "by_check": {},
        "acceptance": 0.5,
        "wheel": WHEEL,
        "model": "the cpu lane's checkpoint",
        "checkpoint": {"key": "made"},
        "wrong": ["long"],
    }
    real = result | {"checkpoint": None, "model": "/models/Some Model"}
    results = tmp_path / "results.json"
    results.write_text(json.dumps([result, real]))
    gpu_tests.main(["--import", str(results)], standalone_mode=False)
    kept = json.loads((tmp_path / "gpu" / "v0.26.0.json").read_text())[
        "patched graphs k3"
    ]
    assert kept["right"] == 1 and "wrong" not in kept
    assert (tmp_path / "gpu" / "models-Some-Model" / "v0.26.0.json").is_file()
    results.write_text(json.dumps([result | {"release": "../../v0.26.0"}]))
    with pytest.raises(PatchsetError, match="no result of the gpu lane"):
        gpu_tests.main(["--import", str(results)], standalone_mode=False)
