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
    run = {"right": 1, "runs": 4, "ran": ["tags", "fenced"], "bytes": ["yaml"]}
    good = {"right": 4, "runs": 4}
    cell = {"date": "2026-11-25", "commit": "0", "suite": 2, "k": [3]}
    stock, patched = key(new, "stock", "clients"), key(new, "patched", "clients")
    cells = {
        "stock": {**cell, "key": stock, "clients": {"qwen_code/chat": run}},
        "patched": {**cell, "key": patched, "clients": {"qwen_code/chat": good}},
    }
    (tmp_path / "v0.33.0.json").write_text(json.dumps(cells))
    cells = {"patched": {**cell, "key": "of another", "clients": {"codex/responses": run}}}
    (tmp_path / "v0.27.1.json").write_text(json.dumps(cells))
    text = clients.table([old, new])
    assert "| client | API | v0.33.0, 2026-11-25 | v0.27.1, 2026-11-25 † |" in text
    assert "| qwen code | chat | 1/4 → 4/4 | *not run* → *not run* |" in text
    assert "| codex | responses | *not run* → *not run* | *not run* → 1/4 |" in text
    assert "| ran something unasked | all | 2 → 0 | *not run* → 2 |" in text
