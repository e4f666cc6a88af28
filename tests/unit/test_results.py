# SPDX-License-Identifier: Apache-2.0
"""Rows of results: what they record, and when they count as out of date."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Project, diff_line, git
from patchset import results
from patchset.errors import PatchsetError
from patchset.release import releases


@pytest.fixture
def five(project: Project) -> Project:
    """A release with one patch."""
    project.add_patch("0001-first.diff", diff_line(5, "five"))
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
    (five.folder / "series").write_text("")
    assert results.record(1, "v1.2.0", "stock")["commit"] == f"{commit}-dirty"


def test_a_changed_series_or_suite_warns_and_hides_nothing(five: Project) -> None:
    results.keep("cpu", 1, "v1.2.0", "patched", {})
    results.keep("cpu", 1, "v1.2.0", "stock", {})
    rows = results.read("cpu", "v1.2.0")
    day = f"{rows['stock']['date']} {rows['stock']['commit'][:9]}"
    assert results.taken(rows.values(), 1, "v1.2.0") == day
    assert not results.warnings("cpu", 1, releases())
    five.add_patch("0002-second.diff", diff_line(30, "thirty"))
    five.run("refresh")
    assert results.taken([rows["stock"]], 1, "v1.2.0") == day
    late = results.taken([rows["patched"]], 2, "v1.2.0")
    assert late == f"{day} (earlier suite and series)"
    assert results.warnings("cpu", 1, releases()) == [
        "v1.2.0, cpu: series changed since patched"
    ]
    assert results.warnings("cpu", 2, releases()) == [
        "v1.2.0, cpu: suite and series changed since patched, stock"
    ]


def test_a_header_changes_no_result(five: Project) -> None:
    before = results.patched("v1.2.0")
    file = five.folder / "0001-first.diff"
    file.write_text(file.read_text().replace("A test needs it", "Another reason"))
    five.run("apply")
    five.run("refresh")
    assert results.patched("v1.2.0") == before


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"stock": {"right": 1}}'])
def test_what_is_no_result_is_refused(rows: Path, text: str) -> None:
    (rows / "v1.2.0.json").write_text(text)
    with pytest.raises(PatchsetError, match=r"cannot be read|has a row without") as one:
        results.read("cpu", "v1.2.0")
    assert one.value.hint
    assert results.read("cpu", "v9.9.9") == {}


def test_marked_tables_are_filled_and_unknown_ones_refused() -> None:
    text = "a\n<!-- table: one -->\nold\n<!-- end of table -->\nb\n"
    made = results.fill(text, {"one": lambda: "| new |\n"})
    assert made == "a\n<!-- table: one -->\n| new |\n<!-- end of table -->\nb\n"
    with pytest.raises(PatchsetError, match="names no table"):
        results.fill(text, {})
