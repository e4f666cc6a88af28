# SPDX-License-Identifier: Apache-2.0
"""The table of the clients lane."""

import json
from pathlib import Path

import pytest

from patchset.release import load
from patchset.results import clients, totals
from patchset.results.key import key


def test_stock_stands_beside_patched_and_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "file", lambda lane, release: tmp_path / f"{release}.json")
    new, old = load("v0.33.0"), load("v0.27.1")
    run = {"k": [0, 3], "right": 1, "runs": 3, "quoted": 2}
    good = {**run, "right": 3, "quoted": 0}
    cells = {
        "stock": {"key": key(new, "stock", "clients"), "clients": {"qwen_code/chat": run}},
        "patched": {"key": key(new, "patched", "clients"), "clients": {"qwen_code/chat": good}},
    }
    (tmp_path / "v0.33.0.json").write_text(json.dumps(cells))
    cells = {"patched": {"key": "of another series", "clients": {"codex/responses": run}}}
    (tmp_path / "v0.27.1.json").write_text(json.dumps(cells))
    text = clients.table([old, new])
    assert "| client | API | v0.33.0, k = 0, 3 | v0.27.1, k = 0, 3 † |" in text
    assert "| qwen code | chat | 1/3 → 3/3 | *not run* → *not run* |" in text
    assert "| codex | responses | *not run* → *not run* | *not run* → 1/3 |" in text
    assert "| quoted calls delivered or run | all | 2 → 0 | *not run* → 2 |" in text
