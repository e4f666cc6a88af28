"""The tree adapter survives hosts that die or hang, and refuses what is no tree."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conformance import adapters, report
from conformance import case as cases
from conformance.adapters import AdapterError, TreeAdapter
from conformance.host.__main__ import knows
from conftest import lay, running

HOST = """
import json, sys, time
print(json.dumps({"ready": "9.9.9", "tree": sys.argv[1]}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    if job["name"] == "dies":
        sys.exit(1)
    if job["name"] == "hangs":
        time.sleep(60)
    print(json.dumps({"name": job["name"], "results": [], "streams": 1, "seconds": 0}), flush=True)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return lay(tmp_path, {"vllm/__init__.py": ""})


class Stub(TreeAdapter):
    """The adapter with another program in the place of the host."""

    host_tree: Path | None = None
    started = 0

    def _start(self) -> Any:
        self.started += 1
        return subprocess.Popen(
            [sys.executable, "-c", HOST, str(self.host_tree or self.tree)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )


def job(name: str) -> adapters.Job:
    return {
        "name": name,
        "case": {"class": "must", "output": ""},
        "surfaces": ["chat"],
        "starts": ["plain"],
    }


def test_a_host_that_dies_or_hangs_is_replaced_and_its_case_is_wrong(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "JOB_LIMIT_S", 1.0)
    jobs = [job(name) for name in ("a", "dies", "b", "hangs", "c")]
    results = {found["name"]: found for found in Stub(tree, workers=1).run(jobs)}
    assert len(results) == 5 and results["a"]["results"] == []
    for name in ("dies", "hangs"):
        found = report.Report("x", "tree", "repeat")
        found.add(results[name])
        assert found.total()["right"] == 0 < found.total()["lost"]
        assert found.failures()[0]["problems"][0].startswith("hang:")


def test_a_run_that_ends_early_leaves_no_host_and_starts_none(
    tree: Path,
) -> None:
    adapter = Stub(tree, workers=2)
    # Each death starts another host.
    results = adapter.run([job("a"), *(job("dies") for _ in range(50))])
    next(results)
    results.close()
    count = adapter.started
    assert not running(str(tree))
    time.sleep(0.3)
    assert adapter.started == count < 50


def test_a_host_that_runs_other_code_is_refused(tree: Path, tmp_path: Path) -> None:
    adapter = Stub(tree, workers=1)
    adapter.host_tree = tmp_path / "elsewhere"
    with pytest.raises(AdapterError, match="could not be started"):
        list(adapter.run([job("a")]))


def test_a_surface_or_a_release_that_does_not_know_the_request_is_not_asked() -> None:
    (case,) = cases.load(["requests/namespace"])
    jobs = adapters.jobs_for(
        [case],
        surfaces=["chat", "responses", "messages"],
        reasoning=None,
        pattern=None,
        names=None,
        full=False,
        seeds=1,
        starts=cases.STARTS,
    )
    assert [job["surfaces"] for job in jobs] == [["responses"]]
    assert [
        knows(release, case.since)
        for release in ("0.20.2", "0.25.0", "0.25.1", "0.33.0", "dev")
    ] == [
        False,
        False,
        True,
        True,
        True,
    ]
