"""The tree adapter survives hosts that die or hang, and refuses what is no tree."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conformance import adapters, report
from conformance import case as cases
from conformance.adapters import AdapterError, TreeAdapter
from conformance.host.__main__ import knows

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
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/__init__.py").touch()
    return tmp_path


class Stub(TreeAdapter):
    """The adapter with another program in the place of the host."""

    answers_for: Path | None = None

    def _start(self) -> Any:
        import subprocess

        return subprocess.Popen(
            [sys.executable, "-c", HOST, str(self.answers_for or self.tree)],
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
    results = {
        r["name"]: r
        for r in Stub(tree, workers=1).run(
            [job("a"), job("dies"), job("b"), job("hangs"), job("c")]
        )
    }
    assert set(results) == {"a", "dies", "b", "hangs", "c"}
    assert results["a"]["results"] == []
    for name in ("dies", "hangs"):
        found = report.Report("x", "tree", "repeat")
        found.add(results[name])
        assert found.total()["right"] == 0 < found.total()["lost"]
        assert found.failures()[0]["problems"][0].startswith("hang:")


def test_a_run_that_ends_early_leaves_no_host_and_starts_none(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def start(adapter: Stub) -> Any:
        started.append(process := Stub._start(adapter))
        return process

    adapter = Stub(tree, workers=2)
    monkeypatch.setattr(adapter, "_start", lambda: start(adapter))
    results = adapter.run(
        [job("a"), *(job("dies") for _ in range(50))]
    )  # each death starts another host
    next(results)
    results.close()
    count = len(started)
    assert all(process.poll() is not None for process in started)
    time.sleep(0.3)
    assert len(started) == count < 50


def test_a_host_that_runs_other_code_is_refused(tree: Path, tmp_path: Path) -> None:
    adapter = Stub(tree, workers=1)
    adapter.answers_for = tmp_path / "elsewhere"
    with pytest.raises(AdapterError, match="could not be started"):
        list(adapter.run([job("a")]))


def test_a_surface_or_a_release_that_does_not_know_the_request_is_not_asked() -> None:
    (case,) = cases.load(["requests/namespace"])
    names = ["chat", "responses", "messages"]
    jobs = adapters.jobs_for(
        [case],
        surfaces=names,
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
