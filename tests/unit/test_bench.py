# SPDX-License-Identifier: Apache-2.0
"""The bench's own arithmetic, workloads and reading of deltas; needs no vLLM."""

from __future__ import annotations

import json
import os
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from bench import cells, measure, places, report, runner, workloads
from bench.__main__ import Listed
from bench.reading import Message
from bench.stats import ratio
from bench.subjects import Place, Subject, workers
from patchset import console
from patchset.errors import PatchsetError


def words(text: str) -> int:
    """Stands for a tokenizer where only lengths count."""
    return len(text.split())


def test_a_ratio_of_equals_is_one_without_spread() -> None:
    found = ratio([2.0] * 5, [2.0] * 5)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_a_slow_round_hits_both_sides_of_a_ratio() -> None:
    """Paired: the interval stays narrow, which two independent ones would not."""
    slow = [1.0, 1.0, 8.0, 8.0, 1.0]
    found = ratio([2 * one for one in slow], slow)
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_a_burst_that_begins_within_a_round_moves_no_ratio() -> None:
    """Medians of each side would give 16: two of the three samples above are slow, one below."""
    assert ratio([2.0, 16.0, 16.0], [1.0, 8.0, 1.0]).value == 2.0


def test_an_interval_holds_the_value_and_shows_the_spread() -> None:
    found = ratio([1.0, 1.1, 0.9, 1.3, 1.0], [2.0, 2.2, 2.1, 1.9, 2.0])
    assert found.low <= found.value <= found.high
    assert found.high - found.low > 0.05


@pytest.mark.parametrize(("above", "below"), [([], [1.0]), ([1.0], []), ([0.0], [1.0])])
def test_no_ratio_of_nothing(above: list[float], below: list[float]) -> None:
    with pytest.raises(ValueError, match="samples above 0"):
        ratio(above, below)


@pytest.mark.parametrize(
    "name", [*workloads.NAMES, "string+reasoning", "prose+reasoning"]
)
def test_a_workload_says_what_its_output_holds(name: str) -> None:
    one, again = workloads.build(name, 500, words), workloads.build(name, 500, words)
    assert one == again
    called = {tool for tool, _ in one.calls}
    assert sum(one.output.count(f"<function={tool}>\n") for tool in called) == len(
        one.calls
    )
    assert all(
        f"\n{value}\n</parameter>" in one.output
        for _, all_ in one.calls
        for _, value in all_
    )
    assert one.content in one.output
    assert one.output.startswith(one.reasoning)
    assert one.thinks == ("+reasoning" in name)
    assert 500 <= words(one.output) < 2_000


def test_prose_has_no_markup_and_markup_is_full_of_it() -> None:
    assert "<" not in workloads.build("prose", 3_000, words).output
    markup = dict(workloads.build("markup", 3_000, words).calls[0][1])["content"]
    assert markup.count("<") > 300
    assert {"</tool_call>", "</function>", "<parameter="} <= {
        tag for tag in ("</tool_call>", "</function>", "<parameter=") if tag in markup
    }


def test_unknown_workloads_are_refused() -> None:
    with pytest.raises(ValueError, match="no workload"):
        workloads.build("verse", 10, words)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 100])
def test_steps_are_the_output_cut(width: int) -> None:
    texts, ids = list("abcdefghij"), list(range(10))
    steps = workloads.steps_of(texts, ids, width)
    assert "".join(text for text, _ in steps) == "abcdefghij"
    assert [number for _, some in steps for number in some] == ids
    assert all(len(some) == width for _, some in steps[:-1])


def test_a_grid_has_each_cell_once_and_the_shortest_first() -> None:
    found = cells.grid(
        ("parser", "memory"), ("string", "streams256"), (4_000, 1_000), (1, 4)
    )
    assert len(found) == len(set(found))
    lengths = [cell.tokens for cell in found if cell.family == ("parser", "string", 4)]
    assert lengths == [1_000, 4_000]
    assert [cell.tokens for cell in found if cell.workload == "streams256"] == [
        1_000,
        1_000,
    ]
    assert {cell.width for cell in found if cell.path == "memory"} == {4}


def test_long_outputs_can_have_widths_of_their_own() -> None:
    found = cells.grid(("parser",), ("string",), (4_000, 64_000), (1, 4), (4,))
    assert [(cell.tokens, cell.width) for cell in found] == [
        (4_000, 1),
        (4_000, 4),
        (64_000, 4),
    ]


def test_custom_tools_are_a_matter_of_responses_alone() -> None:
    found = cells.grid(
        ("parser", "responses"), ("string", "custom", "prose"), (1_000,), (4,)
    )
    assert [(c.path, c.workload) for c in found] == [
        ("parser", "string"),
        ("parser", "prose"),
        ("responses", "string"),
        ("responses", "custom"),
    ]


def calls_of(*parts: tuple[int, str | None, str]) -> Any:
    made = [
        SimpleNamespace(index=i, function=SimpleNamespace(name=n, arguments=a))
        for i, n, a in parts
    ]
    return SimpleNamespace(reasoning=None, content=None, tool_calls=made)


def test_deltas_add_up_to_the_message_of_the_workload() -> None:
    workload = workloads.build("string", 50, words)
    name, arguments = workload.calls[0]
    text = json.dumps(dict(arguments))
    message = Message()
    message.add(None)
    message.add(calls_of((0, name, text[:10])))
    assert not message.right(workload)
    message.add(calls_of((0, None, text[10:])))
    assert message.right(workload)
    message.add(SimpleNamespace(reasoning=None, content="leak", tool_calls=[]))
    assert not message.right(workload)


def test_the_wait_of_a_value_is_counted_in_steps() -> None:
    workload = workloads.build("string", 50, words)
    name, arguments = workload.calls[0]
    start = workload.first_value or 0
    rest = json.dumps(dict(arguments)).partition('"content": "')[2]
    steps = [
        (workload.output[:start], [1]),
        (workload.output[start : start + 3], [2]),
        ("", [3]),
        (workload.output[start + 3 :], [4]),
    ]

    def opener() -> Any:
        said = iter(
            [
                [calls_of((0, name, '{"path": "/src/main.py", "content": "'))],
                [],
                [calls_of((0, None, rest[:3]))],
                [calls_of((0, None, rest[3:]))],
            ]
        )
        return lambda text, ids, finished: next(said)

    assert measure.first_delta(opener, workload, steps) == {"waits": 1, "right": True}


def slow(text: str, ids: list[int], finished: bool) -> list[Any]:
    """A parser that takes 0.2 ms a step."""
    end = time.thread_time() + 0.0002
    while time.thread_time() < end:
        pass
    return []


def test_a_pass_beyond_its_budget_is_given_up() -> None:
    workload = workloads.build("prose", 10, words)
    sample = measure.timed(lambda: slow, workload, [("x", [1])] * 2_000, 1, 0.02)
    assert sample["bounded"]
    assert 0 < sample["done"] < 1


def test_memory_beyond_its_budget_is_given_up() -> None:
    steps = [("x", [1])] * 2_000
    assert measure.memory(lambda: slow, steps, 0.02) == {"bounded": True}
    assert measure.memory(lambda: slow, steps, 30)["held_bytes"] < 10_000


def test_what_is_slow_by_nature_may_take_longer() -> None:
    budgets: dict[str, float] = {}

    class Noting:
        def ask(self, cell: cells.Cell, parser: str, budget: float) -> dict[str, Any]:
            budgets[f"{cell.path} {cell.workload}"] = budget
            return {"bounded": True}

    there: Any = {"stock": Noting()}
    plan = cells.grid(("parser", "memory"), ("string", "streams256"), (64_000,), (4,))
    rows = runner.measure(
        plan, [Subject("stock", "stock")], there, rounds=3, budget=2.0
    )
    assert budgets == {
        "parser string": 2.0,
        "parser streams256": 8.0,
        "memory string": 8.0,
    }
    assert report.cost(rows[-1].document()["subjects"]["stock"]) == "given up at 64000"


def test_a_pass_within_its_budget_is_timed_whole() -> None:
    seen = []

    def feed(text: str, ids: list[int], finished: bool) -> list[Any]:
        seen.append(finished)
        return []

    sample = measure.timed(
        lambda: feed, workloads.build("prose", 10, words), [("x", [1])] * 700, 1, 5.0
    )
    assert sample["seconds"] > 0
    assert sum(seen) == sample["passes"]
    assert len(seen) == 700 * sample["passes"]


class Scripted:
    """A worker that costs what it is told, and notes who was asked."""

    def __init__(self, name: str, asked: list[str], seconds: dict[int, float]) -> None:
        self.name, self.asked, self.seconds = name, asked, seconds

    def ask(self, cell: cells.Cell, parser: str, budget: float) -> dict[str, Any]:
        """One sample."""
        self.asked.append(self.name)
        seconds = self.seconds[cell.tokens]
        out: dict[str, Any] = {"seconds": min(seconds, budget), "tokens": cell.tokens}
        return {**out, "bounded": True} if seconds > budget else out


def run_scripted(stock: dict[int, float]) -> tuple[list[runner.Row], list[str]]:
    asked: list[str] = []
    there: Any = {
        "patched": Scripted("patched", asked, {1000: 0.1, 4000: 0.4}),
        "stock": Scripted("stock", asked, stock),
    }
    subjects = [Subject("patched", "patched"), Subject("stock", "stock")]
    plan = cells.grid(("parser",), ("string",), (1000, 4000), (4,))
    return runner.measure(plan, subjects, there, rounds=3, budget=1.0), asked


def test_subjects_take_turns() -> None:
    rows, asked = run_scripted({1000: 0.2, 4000: 0.8})
    assert asked == ["patched", "stock"] * (len(asked) // 2)
    assert [row.ratios()["stock"].value for row in rows] == [0.5, 0.5]


def test_growth_is_measured_within_a_round() -> None:
    asked: list[str] = []

    class Noting(Scripted):
        def ask(self, cell: cells.Cell, parser: str, budget: float) -> dict[str, Any]:
            self.name = str(cell.tokens)
            return super().ask(cell, parser, budget)

    there: Any = {
        "patched": Noting("", asked, {4_000: 0.004, 64_000: 0.064, 256_000: 0.512})
    }
    subjects = [
        Subject("patched", "patched"),
        Subject("short", "patched", tokens=4_000),
    ]
    plan = cells.grid(("parser", "memory"), ("string",), (64_000, 256_000), (4,))
    rows = runner.measure(plan, subjects, there, rounds=3, budget=9.0)
    assert {cell.tokens for cell in plan if subjects[1].takes(cell)} == {256_000}
    assert asked == ["64000"] * 4 + ["256000", "4000"] * 4 + ["64000"]
    assert [row.ratios()["short"].value for row in rows if "short" in row.ratios()] == [
        2.0
    ]


def test_what_was_given_up_is_not_begun_at_a_greater_length() -> None:
    rows, asked = run_scripted({1000: 5.0, 4000: 80.0})
    assert asked.count("stock") == 1
    first, second = (row.document() for row in rows)
    assert first["ratios"]["stock"]["at_most"]
    assert first["ratios"]["stock"]["value"] == pytest.approx(0.1)
    assert report.cost(first["subjects"]["stock"]).startswith("> ")
    assert report.cost(second["subjects"]["stock"]) == "given up at 1000"
    assert "stock" not in second["ratios"]


def test_samples_are_compared_within_their_round() -> None:
    """The warm-up of one side counts, as it took long, that of the other does not: rounds must not slip."""
    row = runner.Row(
        cells.Cell("parser", "string", 1000, 4),
        {
            "patched": runner.Series(
                [{"seconds": s, "tokens": 1} for s in (1.0, 8.0, 8.0)], [1, 2, 3]
            ),
            "stock": runner.Series(
                [{"seconds": s, "tokens": 1} for s in (16.0, 2.0, 16.0, 16.0)],
                [0, 1, 2, 3],
            ),
        },
    )
    found = row.ratios()["stock"]
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


def test_a_long_cell_has_fewer_rounds() -> None:
    asked: list[str] = []

    class Slow(Scripted):
        def ask(self, cell: cells.Cell, parser: str, budget: float) -> dict[str, Any]:
            time.sleep(0.02)
            return super().ask(cell, parser, budget)

    there: Any = {"patched": Slow("patched", asked, {1000: 0.001})}
    plan = [cells.Cell("parser", "string", 1000, 4)]
    runner.measure(plan, [Subject("patched", "patched")], there, rounds=50, budget=0.03)
    assert runner.LEAST_ROUNDS + 1 <= len(asked) < 10


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="the system has no such call"
)
def test_all_processes_stay_on_one_processor() -> None:
    class Telling(Place):
        def command(self) -> list[str]:
            told = "import json, os, sys; print(); input(); print(json.dumps({'on': [*os.sched_getaffinity(0)]}))"
            return [sys.executable, "-c", told]

    before = os.sched_getaffinity(0)
    with workers({"one": Telling(), "other": Telling()}, None) as there:
        cell = cells.Cell("parser", "string", 1000, 4)
        found = [worker.ask(cell, "any", 9.0)["on"] for worker in there.values()]
    assert found == [[max(before)]] * 2
    assert os.sched_getaffinity(0) == before


def test_growth_and_cells_above_stock_are_told() -> None:
    def row(tokens: int, mine: float, value: float) -> dict[str, Any]:
        return {
            "path": "parser",
            "workload": "string",
            "tokens": tokens,
            "width": 4,
            "subjects": {
                "patched": {"us_per_token": [mine, mine, mine]},
                "stock": {"us_per_token": [1, 1, 1]},
            },
            "ratios": {
                "stock": {"value": value, "low": value, "high": value},
                **(
                    {"short": {"value": 1.5, "low": 1.4, "high": 1.6}}
                    if tokens == 256_000
                    else {}
                ),
            },
        }

    told = report.notes([row(4_000, 1.0, 0.5), row(256_000, 1.5, 1.4)])
    assert "at most 1.50" in told[0]
    assert (
        "parser over stock: 0 of 2 cells at most 0.25; at most 1.40 (parser string 256000 width 4)"
        in told
    )
    assert [line for line in told if "above stock" in line] == [
        "parser string 256000 width 4: above stock, 1.40 (1.40–1.40)"
    ]


def test_an_upper_limit_above_a_promise_decides_nothing() -> None:
    def row(value: float) -> dict[str, Any]:
        return {
            "path": "serving",
            "workload": "string",
            "tokens": 256_000,
            "width": 4,
            "ratios": {
                "stock": {"value": value, "low": value, "high": value, "at_most": True}
            },
        }

    service = next(one for one in report.PROMISES if one.title == "service over stock")
    assert report.keeping(service, [row(2.31)]) is None
    assert "1 of 1 cells at most 1.0" in (
        report.keeping(service, [row(2.31), row(0.4)]) or ""
    )


def test_what_failed_is_told_with_its_cell() -> None:
    row = {
        "path": "parser",
        "workload": "string",
        "tokens": 1_000,
        "width": 4,
        "subjects": {
            "patched": {"us_per_token": [1, 1, 1]},
            "stock": {"error": "TypeError: finished"},
        },
        "ratios": {},
    }
    told = "parser string 1000 width 4: stock failed: TypeError: finished"
    assert report.failures([row]) == [told]
    assert told in report.notes([row])


def test_a_table_in_a_log_keeps_every_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [
        "patched",
        "stock",
        "previous",
        "nothing",
        "qwen3_xml",
        "sglang",
        "lmdeploy",
    ]
    row = {
        "path": "parser",
        "workload": "string+reasoning",
        "tokens": 256_000,
        "width": 4,
        "subjects": {name: {"us_per_token": [1.23, 1.11, 1.34]} for name in names},
        "ratios": {
            name: {"value": 0.17, "low": 0.15, "high": 0.19} for name in names[1:]
        },
    }
    console.table(report.table("v0.33.0", [row], names))
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert shown.count("1.23 (1.11–1.34)") == len(names)


@pytest.mark.parametrize("text", ["", "1000,x", "0", "-5"])
def test_lists_of_numbers_are_checked(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Listed(int).convert(text, None, None)


def test_a_wheel_member_outside_the_folder_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "evil.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("../out.py", "")
    with pytest.raises(PatchsetError, match="leads outside"):
        places.unpack_python(wheel, tmp_path / "target")
    assert not (tmp_path / "out.py").exists()


def test_the_pinned_peers_are_read() -> None:
    assert places.pinned_peers()["sglang"].project == "sglang"


def test_a_plot_is_the_same_twice_and_shows_what_was_given_up(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench import plot

    def cell_of(tokens: int, cost: float, **more: int) -> dict[str, Any]:
        subjects = {"stock": {"us_per_token": [cost] * 3, **more}}
        return {
            "path": "parser",
            "workload": "string",
            "tokens": tokens,
            "width": 4,
            "subjects": subjects,
            "ratios": {},
        }

    cells_ = [cell_of(4_000, 9.0, bounded_at=4_000), cell_of(1_000, 2.0)]
    assert plot.points(cells_, "parser", "string", 4) == {
        "stock": [(1_000, 2.0, False), (4_000, 9.0, True)]
    }
    one = [place.read_bytes() for place in plot.draw("v0", cells_, tmp_path / "one")]
    assert one == [
        place.read_bytes() for place in plot.draw("v0", cells_, tmp_path / "two")
    ]
    assert b"given up" in one[1]
    run = {"v0.33.0": cells_, "v0.32.0": cells_[1:], "v0.1.0": cells_}
    drawn = plot.draw_releases(run, tmp_path / "cost.svg").read_text()
    assert "v0.33.0 stock (longer: given up)" in drawn
    assert ">v0.32.0 stock<" in drawn
    assert "v0.1.0" not in drawn


class Said(Place):
    """A process that says what it is told instead of measuring."""

    said = "import time; print('{}', flush=True); time.sleep(60)"

    def command(self) -> list[str]:
        """Another program."""
        return [sys.executable, "-c", self.said]


def test_an_interrupt_leaves_no_process() -> None:
    seen = []
    with pytest.raises(KeyboardInterrupt), workers({"one": Said()}, None) as there:
        seen.append(there["one"].pid)
        os.kill(seen[0], 0)
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)


def test_a_process_that_dies_is_an_error_of_its_cell_and_is_replaced() -> None:
    class Dying(Said):
        said = "print('{}', flush=True); raise SystemExit('no module of that name')"

    cell = cells.Cell("parser", "string", 1_000, 4)
    with workers({"one": Dying()}, None) as there:
        first = there["one"].pid
        time.sleep(0.5)  # it ends by itself
        answer = there["one"].ask(cell, "qwen3_coder", 1.0)
        assert answer == {
            "error": "the measuring process died or hung; it said: no module of that name"
        }
        assert there["one"].pid != first
