# SPDX-License-Identifier: Apache-2.0
"""Totals, and the table that is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import HEADER, Project, diff_line
from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import releases
from patchset.results import conformance, lanes, tables, totals
from patchset.results.key import key


def result(kind: str, **columns: tuple[int, int]) -> dict[str, Any]:
    rows = [
        {"surface": surface, "reasoning": "qwen3"}
        | {c: {"right": r, "all": a, "near": 0} for c, (r, a) in columns.items()}
        for surface in ("chat", "responses")
    ]
    return {
        "label": "x", "kind": kind, "release": "1.2.0", "right": 1, "all": 2, "white_space_only": 0,
        "classes": {}, "matrix": rows, "differs": [], "failures": ["long"],
    }  # fmt: skip


def rows(project: Project) -> dict[str, str]:
    lines = conformance.table(releases()).splitlines()[2:]
    return {line.split("|")[2].strip(): line for line in lines}


def test_table_is_made_of_totals_and_says_what_was_not_run(project: Project, tmp_path: Path) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    assert rows(project)["stock"].count("*not run*") == len(conformance.COLUMNS)
    file = tmp_path / "result.json"
    file.write_text(
        json.dumps({"targets": [result("stock", **{"k=5": (1, 4)}), result("tree", **{"k=5": (4, 4)})]})
    )
    project.run("results", str(file))
    assert " 2/8 " in rows(project)["stock"]
    assert " 8/8 " in rows(project)["patched"]
    assert "long" not in totals.file("conformance", "v1.2.0").read_text()
    project.add_patch("0002-second.diff", diff_line(30, "thirty"))
    assert " 8/8 † " in rows(project)["patched"], "figures of another series are marked"
    assert " 2/8 " in rows(project)["stock"]


def test_what_is_no_result_is_refused(project: Project, tmp_path: Path) -> None:
    for text in ("", "{}", "no json", '{"targets": [{"kind": "tree"}]}'):
        (tmp_path / "bad.json").write_text(text)
        said = project.run("results", str(tmp_path / "bad.json"), status=1).stderr
        assert "is not a result of the conformance suite" in said and "next:  run the suite again" in said


def test_lanes_show_what_was_run_and_the_soak_beside_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    monkeypatch.setattr(lanes, "RELEASES", {"cpu": ("v1.2.0",)})
    release = releases()[0]

    def line() -> str:
        return lanes.table(releases()).splitlines()[3]

    assert line().count("*not run*") == 9  # k = 0 to 5, 7, 15, and the soak
    result = {
        "variant": "patched", "mtp": 5, "key": key(release, "patched", "cpu"), "wheel": {},
        "right": 23, "requests": 30, "acceptance": 0.52,
        "by_check": {"everywhere": {"right": 8, "requests": 10}, "soak": {"right": 15, "requests": 20}},
    }  # fmt: skip
    place = totals.keep("cpu", release.name, *lanes.cell_of(result))
    assert "| 8/10 (52%) | *not run* | *not run* | 15/20 |" in line()
    project.add_patch("0002-second.diff", diff_line(30, "thirty"))
    assert "| 8/10 (52%) † | *not run* | *not run* | 15/20 † |" in line()
    place.write_text("{")
    with pytest.raises(PatchsetError, match="cannot be read"):
        line()


def test_the_gpu_lane_has_a_row_for_each_cell_and_real_weights_only_where_they_were_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "RELEASES", {"gpu": ("v1.2.0",)})
    rows = lanes.table(releases()).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows[::2]] == [f"| gpu {cell}" for cell in lanes.CELLS["gpu"]]
    eager = next(row for row in rows if "gpu eager" in row)
    assert (eager.count("*not run*"), eager.count("–")) == (3, 6)  # k = 0 and 3, and the soak
    result = {
        "variant": "stock", "cell": "graphs", "mtp": 0, "key": key(releases()[0], "stock", "gpu"), "wheel": {},
        "right": 7, "requests": 9, "acceptance": 0.5, "by_check": {},
    }  # fmt: skip
    totals.keep("gpu/Some-Model", "v1.2.0", *lanes.cell_of(result))
    more = lanes.table(releases()).splitlines()[2 + len(rows) :]
    assert len(more) == 1
    assert more[0].startswith("| gpu graphs Some-Model | v1.2.0 | stock | 7/9 | *not run* |")


def test_each_document_has_its_tables_and_lint_names_the_one_that_is_out_of_date(project: Project) -> None:
    project.add_patch(
        "0001-first.diff", diff_line(5, "five"), HEADER.format(subject="Keep <tool_call> | as text & so on")
    )
    project.run("refresh")
    summary, patches = (paths.project_root() / name for name in tables.DOCUMENTS)
    summary.write_text("Before\n<!-- table: summary -->\n<!-- end of table -->\nafter\n")
    patches.parent.mkdir()
    patches.write_text("<!-- table: patches -->\n<!-- end of table -->\n")
    assert "README.md: its tables are out of date; run nox -s tables" in project.run("lint", status=1).stdout
    assert project.run("tables").stderr.count("tables updated") == 2
    assert "| v1.2.0 | *not run* → *not run* |" in summary.read_text()
    assert "Keep &lt;tool_call&gt; \\| as text &amp; so on" in patches.read_text(), (
        "a tag is shown, not rendered"
    )
    project.run("lint")
    assert "up to date" in project.run("tables").stderr
    patches.write_text(patches.read_text().replace("v1.2.0", "v1.2.1"))
    assert "docs/results.md: its tables are out of date" in project.run("lint", status=1).stdout
    patches.write_text("<!-- table: nonsense -->\n<!-- end of table -->\n")
    assert "names no table" in project.run("tables", status=1).stderr


def test_a_share_is_rounded_down_so_that_100_per_cent_means_all(project: Project, tmp_path: Path) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    file = tmp_path / "result.json"
    columns = {"k=0": (999, 1000), "k=5": (1000, 1000)}
    file.write_text(json.dumps({"targets": [result("tree", **columns)]}))
    project.run("results", str(file))
    release = releases()[0]
    assert [conformance.share(release, "patched", column) for column in ("k=0", "k=5", "k=1")] == [
        "99 %",
        "100 %",
        "*not run*",
    ]
