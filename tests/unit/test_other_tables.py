# SPDX-License-Identifier: Apache-2.0
"""The tables of the lanes bfcl and engines."""

import json
import re
from pathlib import Path

import pytest

from patchset.release import load
from patchset.results import bfcl, engines, totals
from patchset.results.key import key


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(totals, "file", lambda lane, release: tmp_path / f"{release}.json")
    return tmp_path


def test_bfcl_counts_what_can_be_right_and_marks_an_earlier_series(results: Path) -> None:
    release = load("v0.33.0")
    run = {"possible": 4, "apart": ["simple_java_36"], "right": {"not streamed": 3, "k=0": 2}}
    cells = {
        "stock": {"key": key(release, "stock", "bfcl"), **run},
        "patched": {"key": "of another series", **run, "right": {"not streamed": 4, "k=0": 4}},
    }
    (results / "v0.33.0.json").write_text(json.dumps(cells))
    text = bfcl.table([release, load("v0.27.1")])
    assert "| release |  | not streamed | k=0 | possible | set apart |" in text
    assert "| v0.33.0 | stock | 3 | 2 | 4 | 1 |" in text
    assert "| v0.33.0 | patched | 4 † | 4 † | 4 | 1 |" in text
    assert "v0.27.1" not in text
    assert re.search(r"^bfcl-eval [\d.]+: sha256 [0-9a-f]{64}$", text, re.MULTILINE)


def test_nothing_run_is_said_and_not_shown_as_an_empty_table(results: Path) -> None:
    assert bfcl.table([load("v0.33.0")]) == engines.table([load("v0.33.0")]) == "*not run*\n"


def test_an_engine_is_invariant_or_the_cases_are_counted(results: Path) -> None:
    release = load("v0.33.0")
    run = {"key": key(release, "stock", "engines"), "right": 5, "all": 9, "white_space_only": 1, "cases": 3}
    cells = {
        "stock one": {**run, "engine": "One 1.0", "burst_dependent": 0, "quoted_executed": 2},
        "stock rust": {**run, "engine": "Two 2.0", "burst_dependent": 1, "quoted_executed": 0},
    }
    (results / "v0.33.0.json").write_text(json.dumps(cells))
    text = engines.table([release])
    assert "| One 1.0 | 5/9 | 1 | yes | yes: 2 of 3 cases |" in text
    assert "| Two 2.0 | 5/9 | 1 | no: 1 of 3 cases | no |" in text
    wheels = [
        release.wheel("cuda", "x86_64").sha256,
        "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
    ]
    assert all(f": sha256 {digest}" in text for digest in wheels)
