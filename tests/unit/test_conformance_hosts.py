# SPDX-License-Identifier: Apache-2.0
"""The processes that judge a tree, and the jobs that they are given."""

import sys
import time
from pathlib import Path

import pytest

from conformance import adapters, report
from conformance import case as cases
from conformance.host.__main__ import knows
from conformance.host.engine import Script, end_text
from conformance.tokens import EOS
from conftest import lay, running
from patchset.errors import PatchsetError

HOST = """
import json, sys, time
for line in sys.stdin:
    job = json.loads(line)
    if job.get("name") == "dies":
        sys.exit(1)
    if job.get("name") == "hangs":
        time.sleep(60)
    ready = {"release": "9.9.9", "tree": sys.argv[1]}
    answer = {"name": job["name"], "results": []} if job else ready
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return lay(tmp_path, {"vllm/__init__.py": ""})


class Stub(adapters.TreeAdapter):
    """The adapter with another program in the place of the host."""

    host_tree: Path | None = None
    started = 0

    def _command(self) -> list[str]:
        self.started += 1
        return [sys.executable, "-c", HOST, str(self.host_tree or self.tree)]


def job(name: str) -> adapters.Job:
    return {
        "name": name,
        "case": {"class": "must", "output": ""},
        "surfaces": ["chat"],
        "starts": ["plain"],
    }


@pytest.mark.parametrize(
    ("said", "skips", "text"),
    [
        (Script((), "stop"), False, EOS),
        (Script((), "stop"), True, ""),
        (Script((), "stop", stop="END"), True, "END"),
        (Script((), "length"), False, ""),
    ],
)
def test_what_ended_an_output_has_a_text(said: Script, skips: bool, text: str) -> None:
    assert end_text(said, skips) == text


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
    with pytest.raises(PatchsetError, match="could not be started"):
        list(adapter.run([job("a")]))


def test_a_surface_or_a_release_that_does_not_know_the_request_is_not_asked() -> None:
    (case,) = cases.load(["requests/namespace"])
    jobs = adapters.jobs_for([case], surfaces=["chat", "responses", "messages"])
    assert [job["surfaces"] for job in jobs] == [["responses"]]
    releases = ("0.20.2", "0.25.0", "0.25.1", "0.33.0", "dev")
    known = [release for release in releases if knows(release, case.since)]
    assert known == ["0.25.1", "0.33.0", "dev"]
