# SPDX-License-Identifier: Apache-2.0
"""The bench's own arithmetic, workloads and processes; needs no vLLM."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import cells, report, runner, workloads
from bench.__main__ import command
from bench.worker import feed, repeated
from conformance.lines import Standby
from patchset.errors import PatchsetError


def words(text: str) -> int:
    return len(text.split())


def test_the_interval_of_a_ratio() -> None:
    """Paired: it stays narrow where a slow round hits both sides."""
    pairs = [(2 * one, one) for one in (1.0, 1.0, 8.0, 8.0, 1.0)]
    assert runner.ratio(pairs) == (2.0, 2.0, 2.0)
    pairs = [(1.0, 2.0), (1.1, 2.2), (0.9, 2.1), (1.3, 1.9), (1.0, 2.0)]
    value, low, high = runner.ratio(pairs)
    assert 0.4 < low < value < high < 0.7


@pytest.mark.parametrize("name", workloads.NAMES)
def test_workloads_are_as_long_as_asked_and_the_same_twice(name: str) -> None:
    made = workloads.build(name, 1_000, words)
    assert made == workloads.build(name, 1_000, words)
    length = words(made.reasoning if name == "thought+reasoning" else made.output)
    assert 1_000 <= length < 3_000 or name == "thought"
    assert bool(made.reasoning) == name.endswith("+reasoning")
    assert name.startswith(("prose", "thought")) or "<tool_call>" in made.output
    if name == "behind":
        call, text = made.output.split("</tool_call>\n")
        assert "</parameter>\n</function>" in call
        assert words(text) >= 1_000 and "<" not in text


def test_a_grid_has_each_cell_once_and_long_ones_at_one_width() -> None:
    plan = cells.grid(("parser",), ("string", "calls64"), (64_000, 1_000), cells.WIDTHS)
    assert [(c.workload, c.tokens, c.width) for c in plan] == [
        ("string", 1_000, 1),
        ("string", 1_000, 4),
        ("string", 64_000, 4),
        ("string", 1_000, 16),
        *(("calls64", 4_000, width) for width in cells.WIDTHS),
    ]
    kinds = ("streams64", "prose", "string")
    plan = cells.grid(("chat",), kinds, (4_000, 64_000), cells.WIDTHS)
    assert [(c.workload, c.tokens, c.width) for c in plan] == [
        ("streams64", 4_000, 4),
        ("string", 4_000, 4),
        ("string", 64_000, 4),
    ]


def slow(text: str, ids: list[int], finished: bool) -> None:
    """Take 0.2 ms a step, in place of a parser."""
    end = time.thread_time() + 0.0002
    while time.thread_time() < end:
        pass


def test_a_pass_feeds_every_stream_whole_or_is_given_up() -> None:
    ends: list[bool] = []
    steps = workloads.steps_of(["x"] * 1_400, [1] * 1_400, 2)
    assert (len(steps), steps[0]) == (700, ("xx", [1, 1]))

    def sample(opener: Any, streams: int, budget: float) -> dict[str, Any]:
        return repeated(lambda limit: feed(opener, steps, streams, limit), budget)

    whole = sample(lambda: lambda *step: ends.append(step[2]), 3, 5.0)
    assert whole["seconds"] > 0 and sum(ends) == 3 * whole["passes"]
    assert len(ends) == 700 * sum(ends)
    given_up = sample(lambda: slow, 1, 0.02)
    assert given_up["bounded"] and 0 < given_up["done"] < 1


class Scripted(runner.Worker):
    """A worker that costs what it is told, and notes what it is asked."""

    def __init__(
        self, name: str, asked: list[tuple[str, int]], seconds: dict[int, float]
    ) -> None:
        self.name, self.asked, self.seconds = name, asked, seconds

    def ask(self, cell: cells.Cell, budget: float) -> dict[str, Any]:
        self.asked.append((self.name, cell.tokens))
        seconds = self.seconds[cell.tokens]
        out: dict[str, Any] = {"seconds": min(seconds, budget), "tokens": cell.tokens}
        return {**out, "bounded": True} if seconds > budget else out


def run_scripted(
    patched: dict[int, float], stock: dict[int, float]
) -> tuple[list[dict[str, Any]], list[tuple[str, int]]]:
    """Return three rounds of one workload at the lengths of ``stock``."""
    asked: list[tuple[str, int]] = []
    there: dict[str, runner.Worker] = {
        "patched": Scripted("patched", asked, patched),
        "stock": Scripted("stock", asked, stock),
    }
    plan = cells.grid(("parser",), ("string",), stock, (4,))
    rows = runner.measure(plan, there, rounds=3, budget=1.0, advance=lambda _: None)
    return rows, asked


def test_subjects_take_turns() -> None:
    rows, asked = run_scripted({1000: 0.1, 4000: 0.4}, {1000: 0.2, 4000: 0.8})
    assert [name for name, _ in asked] == ["patched", "stock"] * (len(asked) // 2)
    assert [row["ratios"]["stock"]["value"] for row in rows] == [0.5, 0.5]


def test_growth_is_measured_within_a_round() -> None:
    rows, asked = run_scripted({4_000: 0.004, 256_000: 0.512}, {256_000: 0.9})
    last = [("patched", 4_000), ("patched", 256_000), ("stock", 256_000)]
    assert sorted(asked[-3:]) == last
    assert rows[0]["ratios"]["short"]["value"] == 2.0
    assert "short: 0 of 1 cells at most 1.2" in report.notes(rows)[1]


def test_what_was_given_up_is_not_begun_at_a_greater_length() -> None:
    rows, asked = run_scripted({1000: 0.1, 4000: 0.4}, {1000: 5.0, 4000: 80.0})
    assert [name for name, _ in asked].count("stock") == 1
    ratio = rows[0]["ratios"]["stock"]
    assert ratio["at_most"] and ratio["value"] == pytest.approx(0.1)
    costs = [report.cost(row["subjects"]["stock"]) for row in rows]
    assert costs[0].startswith("> ") and costs[1] == "given up at 1000"
    assert "stock" not in rows[1]["ratios"]


def test_an_upper_limit_above_a_promise_decides_nothing() -> None:
    cell = vars(cells.Cell("chat", "string", 256_000, 4))
    above, below = (
        {**cell, "ratios": {"stock": {"value": value, "high": value, "at_most": True}}}
        for value in (2.31, 0.4)
    )
    assert report.notes([above]) == []
    assert "1 of 1 cells at most 1.0" in report.notes([above, below])[0]


CELL = cells.Cell("parser", "string", 1000, 4)


def worker(line: str, folder: Path) -> runner.Worker:
    """Return a process that runs a line of Python in place of the measuring one."""
    made = runner.Worker(folder, folder / "log")
    made.child = Standby((sys.executable, "-c", line), {**os.environ}, folder / "log")
    return made


def test_a_process_stays_on_one_processor_and_ends_with_the_run(tmp_path: Path) -> None:
    line = (
        "import json, os, time; input(); "
        "print(json.dumps([*os.sched_getaffinity(0), os.getpid()]), flush=True); "
        "time.sleep(60)"
    )
    before = os.sched_getaffinity(0)
    told: Any = []
    with pytest.raises(KeyboardInterrupt), runner.workers({}, tmp_path) as there:
        there["one"] = worker(line, tmp_path)
        told = there["one"].ask(CELL, 9.0)
        raise KeyboardInterrupt
    assert told[:-1] == [max(before)]
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ProcessLookupError):
        os.kill(told[-1], 0)


def test_a_process_that_dies_is_an_error_with_its_log(tmp_path: Path) -> None:
    dying = worker('raise SystemExit("no such module")', tmp_path)
    with pytest.raises(PatchsetError, match="parser string 1000 tokens") as error:
        dying.ask(CELL, 1.0)
    assert str(tmp_path / "log") in (error.value.hint or "")
    assert (tmp_path / "log").read_text() == "no such module\n"


def test_a_quick_run_is_not_kept() -> None:
    found = CliRunner().invoke(command, ["--quick", "--results", "v0.33.0"])
    assert found.exit_code == 2
