# SPDX-License-Identifier: Apache-2.0
"""Rows of results, when they count as out of date, and tables of them."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import grammars
import results
from bench import kept
from clients import SUITE_VERSION
from clients import table as clients
from conformance import table as conformance
from conftest import REASON, Project, diff_line, git
from grammars import table as grammars_table
from judges import LANES
from judges import table as judges
from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import load, releases
from tables import missing, series
from tables.__main__ import SUITES, TABLES, page, readme, stale


@pytest.fixture
def five(project: Project) -> Project:
    project.add_patch("0001-first", diff_line(5, "five"))
    project.run("refresh")
    return project


def test_a_row_says_when_and_of_what_it_was_taken(five: Project) -> None:
    git(five.root, "init", "--quiet")
    place = results.keep("cpu", 3, "v1.2.0", "patched k0", {"right": 4})
    results.keep("cpu", 3, "v1.2.0", "stock k0", {"right": 2})
    rows = json.loads(place.read_text())
    assert list(rows) == ["patched k0", "stock k0"]
    assert rows == results.read("cpu", "v1.2.0")
    row = rows["patched k0"]
    assert (row["right"], row["suite"], len(row["files"])) == (4, 3, 12)
    assert row["date"][:2] == "20" and row["commit"] == "unknown"  # nothing committed
    assert "files" not in rows["stock k0"]


def test_rows_and_tables_leave_the_commit_clean(five: Project) -> None:
    results.keep("cpu", 1, "v1.2.0", "stock", {})
    git(five.root, "init", "--quiet")
    git(five.root, "add", ".")
    git(five.root, "commit", "--quiet", "-m", "All")
    results.keep("cpu", 1, "v1.2.0", "stock", {"right": 1})
    commit = results.record(1, "v1.2.0", "stock")["commit"]
    assert len(commit) == 12 and commit.isalnum()
    five.series.write_text("")
    assert results.record(1, "v1.2.0", "stock")["commit"] == f"{commit}-dirty"


def test_a_changed_series_or_suite_warns_and_hides_nothing(five: Project) -> None:
    results.keep("cpu", 1, "v1.2.0", "patched", {})
    results.keep("cpu", 1, "v1.2.0", "stock", {})
    rows = results.read("cpu", "v1.2.0")
    day = rows["stock"]["date"]
    assert results.taken(rows.values(), 1, "v1.2.0") == day
    assert not results.warnings("cpu", 1, releases())
    five.add_patch("0002-second", diff_line(30, "thirty"))
    five.run("refresh")
    assert results.taken([rows["stock"]], 1, "v1.2.0") == day
    late = results.taken([rows["patched"]], 2, "v1.2.0")
    assert late == f"{day} (earlier suite, series)"
    assert results.warnings("cpu", 1, releases()) == [
        "v1.2.0, cpu: series changed since patched"
    ]
    assert results.warnings("cpu", 2, releases()) == [
        "v1.2.0, cpu: suite and series changed since patched, stock"
    ]


def test_a_reason_changes_no_result(five: Project) -> None:
    before = results.patched("v1.2.0")
    file = five.diff("0001-first").with_name("reason.md")
    file.write_text(file.read_text().replace("A test needs it", "Another reason"))
    five.run("apply")
    five.run("refresh")
    assert results.patched("v1.2.0") == before


def test_a_row_goes_by_the_files_that_its_lane_runs(five: Project) -> None:
    lanes = ("bfcl", "prefix_cache")
    for reader, scheduler, late in ((0, 1, []), (2, 1, lanes[:1]), (0, 3, lanes[1:])):
        five.sums.write_text(
            f"{reader} vllm/parser/reader.py\n"
            f"{scheduler} vllm/v1/core/sched/scheduler.py\n"
        )
        for lane in lanes if not late else ():
            results.keep(lane, 1, "v1.2.0", "patched", {})
        warned = [lane for lane in lanes if results.warnings(lane, 1, releases())]
        assert warned == [*late]


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"stock": {"right": 1}}'])
def test_what_is_no_result_is_refused(rows: Path, text: str) -> None:
    (rows / "v1.2.0.json").write_text(text)
    with pytest.raises(PatchsetError, match=r"cannot be read|has a row without") as one:
        results.read("cpu", "v1.2.0")
    assert one.value.hint
    assert results.read("cpu", "v9.9.9") == {}


def test_what_is_marked_is_made_again() -> None:
    text = "a\n<!-- table: one -->\nold\n<!-- end of table -->\nb\n"
    made = results.put(text, "table: one", "| new |\n")
    assert made == "a\n<!-- table: one -->\n| new |\n<!-- end of table -->\nb\n"


def test_neighbours_of_equal_figures_share_a_row() -> None:
    new, old, late = "2026-11-26", "2026-11-25", "2026-11-24 (earlier suite)"
    rows = [["v4", "1", new], ["v3", "1", old], ["v2", "1", late]]
    rows += [["v1", "2", late], ["v0", "1", late]]
    assert results.together(rows) == [["v4, v3", "1", old], *rows[2:]]


NEW, OLD = "v0.33.0", "v0.27.1"


def write(folder: Path, release: str, **rows: dict[str, Any]) -> None:
    """Keep rows of a release as a lane of suite 1 does."""
    made = {
        kind: results.record(1, release, kind.split()[0]) | row
        for kind, row in rows.items()
    }
    (folder / f"{release}.json").write_text(json.dumps(made))


def day() -> str:
    return results.taken([results.record(1, NEW, "stock")], 1, NEW)


def test_conformance_counts_harms_and_ordinary_traffic_apart(rows: Path) -> None:
    def target(kind: str, **harms: int) -> dict[str, Any]:
        wrong = sum(count for harm, count in harms.items() if harm != "form")
        tally = {"all": 1000, "right": 1000 - wrong, **harms}
        traffic = {"ordinary": {"k=5": {"all": 9, "right": 9}}}
        return {
            "kind": kind,
            "release": NEW,
            "sdk": 3,
            "traffic": {**traffic, "adversarial": {"k=0": tally, "k=5": tally}},
        }

    conformance.keep(target("stock", ran=2, bytes=1, form=7))
    conformance.keep(target("patched"))
    head, _, line, _, _, _, *by_k = conformance.table([load(NEW)]).splitlines()
    assert "| ran | bytes | lost | text | refused | form | worse than stock |" in head
    figures = "| 9/9 → 9/9 | 997/1000 → 1000/1000 | 2 → 0 | 1 → 0 | 0 → 0 |"
    assert figures in line and line.endswith(f"| 7 → 0 | – | {day()} |")
    assert by_k[0].startswith(f"| {NEW} | 997/1000 → 1000/1000 | – |")
    for reasoned, said in ((1, "2/9, 1 exempt"), (2, "2/9 exempt")):
        counts = Counter(cases=9, worse=2, reasoned=reasoned)
        conformance.keep_guard(NEW, {"suite": counts})
        assert f"| {said} | {day()} |" in conformance.table([load(NEW)])
    conformance.keep(target("plugin", lost=4))
    line = conformance.plugin_table([load(NEW)]).splitlines()[2]
    assert line.startswith(f"| {NEW} | 9/9 | 996/1000 | 0 | 0 | 4 | 0 | 0 | 0 |")
    # 0 % means none.
    release = load(NEW)
    assert conformance.share(release, "stock", ("ran",)) == "1 %"
    assert conformance.share(release, "patched", ("ran", "bytes")) == "0 %"
    assert conformance.share(load(OLD), "stock", ("ran",)) == "*not run*"


def test_clients_stand_beside_each_other_and_gaps_are_said(rows: Path) -> None:
    run = {"right": 1, "runs": 4, "ran": ["tags", "fenced"], "bytes": ["yaml"]}
    good = {"right": 3, "runs": 4, "ran": ["cut"]}
    suite = {"suite": SUITE_VERSION}
    names = ("qwen_code/chat", "qwen_code/responses")  # equal figures: one row
    stock = {**suite, "clients": dict.fromkeys(names, run)}
    patched = {**suite, "clients": dict.fromkeys(names, good)}
    write(rows, NEW, stock=stock, patched=patched)
    old = {**suite, "clients": {"codex/responses": run}, "files": "0" * 12}
    old |= {"date": "2026-01-02", "commit": f"{'c' * 12}-dirty"}
    write(rows, OLD, patched=old)
    text = clients.table([load(NEW), load(OLD)])
    _, _, new, gaps, *by_client = text.splitlines()
    assert new.startswith(f"| {NEW} | 2/8 → 6/8 | 4 → 2 | 2 → 0 |")
    assert new.endswith(f"| 2 | {day()} |")
    assert gaps.startswith(f"| {OLD} | *not run* → 1/4 | *not run* → 2 |")
    late = "2026-01-02 (earlier series; uncommitted)"
    assert gaps.endswith(f"| *not run* | {late} |")
    assert by_client[-1] == "| qwen code | chat, responses | – | 1/4 → 3/4 |"


def test_bfcl_counts_what_can_be_right(rows: Path) -> None:
    run = {"possible": 4, "apart": ["simple_java_36"]}
    write(rows, NEW, stock={**run, "right": {"not streamed": 3, "k=0": 4, "k=5": 2}})
    assert judges.bfcl([load(OLD)]).startswith("*not run*\n")
    text = judges.bfcl([load(NEW), load(OLD)])
    head = "| release | not streamed | streamed | possible | set apart | taken |"
    assert text.startswith(head)
    both = "| 3 → *not run* | 2 → *not run* |"  # the worst k
    assert f"| {NEW} {both} 4 | 1 | {day()} |" in text
    assert OLD not in text
    assert re.search(r"(?m)^bfcl-eval [\d.]+: sha256 [0-9a-f]{64}$", text)


def test_a_fixture_that_differs_has_its_reason(rows: Path) -> None:
    run: dict[str, Any] = {"fixtures": 54, "suite": LANES["canitoolcall"]}
    run |= {"right": {"not streamed": 53, "k=0": 52}}
    differs = "qwen3-xml/bug-coder-text-after-call"
    stock, patched = {**run, "wrong": ["one"]}, {**run, "wrong": [differs, "other"]}
    write(rows, NEW, stock=stock, patched=patched)
    assert judges.canitoolcall([load(OLD)]).startswith("*not run*\n")
    text = judges.canitoolcall([load(NEW), load(OLD)])
    assert f"| {NEW} | 53 → 53 | 52 → 52 | 54 | {day()} |" in text
    unknown, reason = re.findall(r"(?m)^- `(?:.*)`: (.*)$", text)
    assert reason.endswith("does not run.") and unknown == "?"
    assert re.search(r"(?m)^canitoolcall [\d.]+: sha256 [0-9a-f]{64}$", text)


def test_a_frontend_is_invariant_or_the_cases_are_counted(rows: Path) -> None:
    run: dict[str, Any] = {"right": 5, "all": 9, "ran": 4, "form": 1, "cases": 3}
    run["suite"] = LANES["rust"]
    write(rows, NEW, stock={**run, "burst_dependent": 0, "quoted_executed": 2})
    write(rows, OLD, stock={**run, "burst_dependent": 1, "quoted_executed": 0})
    text = judges.rust([load(NEW), load(OLD)])
    assert f"| {NEW} | 5/9 | 4 | 0 | 0 | 0 | 0 | 1 | yes | yes: 2 of 3 cases |" in text
    assert f"| {OLD} | 5/9 | 4 | 0 | 0 | 0 | 0 | 1 | no: 1 of 3 cases | no |" in text


BENCH = {
    "path": "parser",
    "workload": "string",
    "tokens": 1_000,
    "width": 4,
    "subjects": {"patched": {"us_per_token": [1, 1, 1]}},
    "ratios": {"stock": {"value": 0.25, "low": 0.2, "high": 0.3}},
}


def test_the_bench_has_a_row_a_release(rows: Path) -> None:
    limit = {"value": 0.01, "low": 0.01, "high": 0.01, "at_most": True}
    bounded = {**BENCH, "tokens": 64_000, "ratios": {"stock": limit}}
    half = {"stock": {"value": 0.5, "low": 0.4, "high": 0.6}}
    deep = {**BENCH, "tokens": kept.OTHERS_LENGTH, "width": 16, "ratios": half}
    run = {"release": NEW, **results.record(1, NEW, "patched")}
    kept.keep({**run, "cells": [BENCH, bounded, deep]})
    line = kept.table([load(NEW)]).splitlines()[-1]
    cells_of = [column.strip() for column in line.split("|")[1:-1]]
    # Behind the column for each length, steps of 1 and of 16 tokens.
    assert cells_of[6:8] == ["*not run*", "0.5 (0.4–0.6)"]
    assert cells_of[-1] == day()
    assert "0.25 (0.2–0.3)" in cells_of and "< 0.01" in cells_of
    # The summary's length was not measured.
    assert kept.cost(load(NEW)) == "*not run* → *not run*"
    kept.keep({**run, "cells": [{**BENCH, "tokens": kept.SUMMARY_LENGTH}]})
    assert kept.cost(load(NEW)) == "*not run* → 1"


def test_cells_measured_again_take_their_place(rows: Path) -> None:
    def values(given: dict[int, float], **more: Any) -> dict[int, float]:
        """Return the values kept, by tokens, after a run that measured ``given``."""
        run = {"release": "v0", "files": "a", "against": None, "rounds": 9, **more}
        measured = [
            {**BENCH, "tokens": tokens, "ratios": {"stock": {"value": value}}}
            for tokens, value in given.items()
        ]
        kept.keep({**run, "cells": measured})
        found = kept.read("v0") or {}
        return {c["tokens"]: c["ratios"]["stock"]["value"] for c in found["cells"]}

    assert values({1_000: 0.1, 4_000: 0.2}) == {1_000: 0.1, 4_000: 0.2}
    assert values({4_000: 0.3, 16_000: 0.4}) == {1_000: 0.1, 4_000: 0.3, 16_000: 0.4}
    assert values({4_000: 0.5}, rounds=3) == {4_000: 0.5}
    assert values({1_000: 0.6}, rounds=3, files="b") == {1_000: 0.6}


def test_what_is_missing_or_out_of_date_is_left(rows: Path) -> None:
    release = load(NEW)
    version = SUITES["conformance"]
    assert missing.is_missing("conformance", release, "patched")
    for suite in (version, version - 1):
        results.keep("conformance", suite, NEW, "patched", {})
        is_missing = missing.is_missing("conformance", release, "patched")
        assert is_missing == (suite < version)
    lanes = {lane for lane, _, _ in missing.commands(release)}
    assert lanes == set(SUITES), "v0.33.0 has no CPU wheel"
    words = [NEW, "--lane", "bfcl", "--list"]
    asked = CliRunner().invoke(missing.command, words)
    assert asked.exit_code == 1
    assert "left: judges bfcl v0.33.0 --both --results\n1 left\n" in asked.output
    results.keep("bfcl", SUITES["bfcl"], NEW, "stock", {})
    asked = CliRunner().invoke(missing.command, words)
    assert "left: judges bfcl v0.33.0 --results\n1 left\n" in asked.output


def test_a_patchs_words_are_shown_and_not_rendered(project: Project) -> None:
    reason = REASON.format(subject="Keep <tool_call> | as text & so on")
    project.add_patch("0001-first", diff_line(5, "five"), reason)
    text = series.patches_table(releases())
    assert "Keep &lt;tool_call&gt; | as text &amp; so on" in text


def test_the_page_has_all_tables_and_the_readme_its_summary(five: Project) -> None:
    (five.root / "README.md").write_text(
        "<!-- table: summary -->\n<!-- end of table -->\nafter\n"
    )
    text = readme(releases())
    assert "*not run*" in text and text.endswith("after\n")
    assert re.search(r"The oldest of these \d+ runs is of ", text)
    text = page(releases())
    assert "| v1.2.0 |" in text or "| **v1.2.0** (default) |" in text
    assert all(f"\n## {name}\n" in text for name in TABLES)
    assert not stale(releases())


def test_grammars_are_a_row_a_release(rows: Path) -> None:
    counts = {"admitted": 8, "outputs": 9, "ran or cut": 1, "quoting": 4}
    row = {**counts, "valid": 3, "walks": 5, "most ms a token": 77.61}
    results.keep(grammars.LANE, 4, NEW, "stock", row)
    results.keep(grammars.LANE, 4, NEW, "patched", {**row, "ran or cut": 0})
    text = grammars_table.table([load(NEW)])
    assert f"| {NEW} | 8/9 → 8/9 | 1/4 → 0/4 | 3/5 → 3/5 | 78 → 78 |" in text


def test_the_pages_say_of_clients_and_fragments_what_the_rows_say() -> None:
    default = next(release.name for release in releases() if release.default)
    rows = results.read("clients", default)
    stock, patched = (rows[kind]["clients"] for kind in results.KINDS)
    ran = Counter[str]()
    for name, counts in patched.items():
        ran[name.partition("/")[0]] += len(counts.get("ran", ()))
    ran = +ran
    right = [sum(run["right"] for run in runs.values()) for runs in (stock, patched)]
    corpora = results.read("corpora", default)["reader"]["corpora"]
    ours = [corpora[name] for name in corpora if name.startswith("fragments-")]
    edits, last = (
        [corpora[f"fragments-{kind}{more}"] for more in ("", "-2")]
        for kind in ("edited", "last")
    )
    kept_back, ended = corpora["holdout-fragments"], corpora["ended"]
    assert "ran" not in kept_back and not any("ran" in one for one in edits)
    said = {
        "README.md": [
            f"Of {sum(run['runs'] for run in patched.values())} runs on {default}",
            f"stock got {right[0]} right, and the patches {right[1]}",
            f"Six of the fifteen still ran {ran.total()} cut calls",
            f"pi and LangChain {ran['pi'] + ran['langchain']} of them",
            f"Of {kept_back['all']:_} texts that quote fragments",
            f"{1 - kept_back['right'] / kept_back['all']:.0%} are read wrong",
            f"our own {sum(one['all'] for one in ours):_} such texts, "
            f"{sum(one.get('ran', 0) for one in ours)} did",
            f"Of {ended['all']:_} outputs that the model itself ends too early, "
            f"{ended['ran']} are read",
        ],
        "docs/format.md": [
            f"none of {sum(one['all'] for one in edits):_} edits and "
            f"{sum(one['ran'] for one in last)} of {sum(one['all'] for one in last)} "
            "last values",
        ],
    }
    assert len(ran) == 6
    for name, sentences in said.items():
        text = " ".join((paths.project_root() / name).read_text("utf-8").split())
        for sentence in sentences:
            assert sentence.replace("_", " ").replace("%", " %") in text
