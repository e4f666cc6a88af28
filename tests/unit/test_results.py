# SPDX-License-Identifier: Apache-2.0
"""Results belong to content: words change nothing, a case changes everything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import Project, diff_line
from patchset.errors import PatchsetError
from patchset.release import load
from patchset.results import totals
from patchset.results.key import key, read_suite


@pytest.fixture
def run(project: Project, tmp_path: Path) -> Project:
    """A release of two patches with results of the suite, stock and patched."""
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.add_patch("0002-second.diff", diff_line(30, "thirty"))
    case = project.root / "tests/lanes/conformance/cases/one.json"
    case.parent.mkdir(parents=True)
    case.write_text('{"name": "one"}\n')
    (project.root / "tests/lanes/conformance/case.py").write_text("RIGHT = 1\n")
    project.run("refresh")
    row = {"surface": "chat", "reasoning": "none", "k=0": {"right": 3, "all": 4, "near": 0}}
    target = {
        "release": "1.2.0", "right": 3, "all": 4, "white_space_only": 0, "classes": {}, "matrix": [row],
    }  # fmt: skip
    found = tmp_path / "result.json"
    found.write_text(json.dumps({"targets": [target | {"kind": "stock"}, target | {"kind": "tree"}]}))
    project.run("results", str(found))
    assert not stale()
    return project


def stale() -> list[str]:
    """As a run of the tool sees it, which reads a suite once."""
    read_suite.cache_clear()
    return totals.stale(load())


def keys() -> dict[str, str]:
    read_suite.cache_clear()
    return {kind: key(load(), kind, "conformance") for kind in ("stock", "patched")}


def test_a_word_in_a_header_keeps_results(run: Project) -> None:
    before = keys()
    diff = run.folder / "0001-first.diff"
    diff.write_text(diff.read_text().replace("a test needs it", "other words"))
    run.run("refresh")
    assert keys() == before and not stale()


def test_a_fold_of_two_patches_keeps_results(run: Project) -> None:
    before = keys()
    first, second = (run.folder / name for name in ("0001-first.diff", "0002-second.diff"))
    hunk = second.read_text().partition("+++ b/pkg/parser.py\n")[2]
    first.write_text(first.read_text() + hunk)
    second.unlink()
    (run.folder / "series").write_text("0001-first.diff\n")
    run.run("refresh")
    run.run("apply")
    assert keys() == before and not stale()


def test_one_changed_case_makes_all_results_stale(run: Project) -> None:
    before = keys()
    (run.root / "tests/lanes/conformance/cases/one.json").write_text('{"name": "another"}\n')
    assert all(keys()[kind] != before[kind] for kind in ("stock", "patched"))
    assert stale() == ["v1.2.0: stale results of lane conformance: patched, stock (nox -s conformance)"]


@pytest.mark.parametrize("name", ["tests/lanes/conformance/case.py", "tests/requirements.txt"])
def test_runner_and_requirements_are_of_the_suite(run: Project, name: str) -> None:
    (run.root / name).write_text("# another\n")
    assert "patched, stock" in stale()[0]


def test_tests_of_the_suite_and_generators_are_not(run: Project) -> None:
    for name in ("test_cases.py", "generate.py", "README.md", "writers/prose.py"):
        file = run.root / "tests/lanes/conformance" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("another\n")
    assert not stale()


def test_a_changed_series_makes_the_patched_results_stale_alone(run: Project) -> None:
    run.add_patch("0003-third.diff", diff_line(38, "more"))
    run.run("refresh")
    assert stale() == ["v1.2.0: stale results of lane conformance: patched (nox -s conformance)"]
    said = run.run("lint").stderr
    assert "warning: v1.2.0: stale results" in said and "as it should be" in said
    message = run.run("publish", "registry.example/name", status=1).stderr
    assert "stale results of lane conformance" in message and "nox -s conformance" in message


def test_tokens_do_not_depend_on_what_the_api_server_alone_loads(
    run: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchset.results.key._API_SERVER", ("pkg/parser",))
    before = {lane: key(load("v1.2.0"), "patched", lane) for lane in ("tokens", "cpu")}
    run.add_patch("0003-third.diff", diff_line(38, "more"))
    run.run("refresh")
    after = {lane: key(load("v1.2.0"), "patched", lane) for lane in ("tokens", "cpu")}
    assert after["tokens"] == before["tokens"]
    assert after["cpu"] != before["cpu"]


def test_the_file_is_small_and_has_no_matrix(run: Project) -> None:
    place = totals.file("conformance", "v1.2.0")
    assert place.stat().st_size < 1000 and not re.search("surface|matrix", place.read_text())
    place.write_text('{"stock": {"right": 3}}')
    with pytest.raises(PatchsetError, match="a cell without a key"):
        totals.read("conformance", "v1.2.0")
