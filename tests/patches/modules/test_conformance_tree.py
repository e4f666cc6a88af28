# SPDX-License-Identifier: Apache-2.0
"""The conformance suite's whole chain on a real tree, which ``VLLM_TREE`` names.

Plain calls are right on every supported release at one token a step; that the runner
says so, in process and over HTTP, and says otherwise for a wrong expectation, is what
is tested here.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from conformance import case as cases

TREE = os.environ["VLLM_TREE"]
TESTS = Path(__file__).parents[2] / "lanes"


def conformance(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "conformance", *words],
        cwd=TESTS,
        text=True,
        capture_output=True,
        check=False,
        timeout=300,
    )


def test_a_plain_case_is_right_and_a_wrong_expectation_is_reported(
    tmp_path: Path,
) -> None:
    good = conformance(
        TREE,
        "--case",
        "escapes/quotes",
        "--schedule",
        "w1",
        "--start",
        "plain",
        "--jobs",
        "1",
    )
    assert good.returncode == 0, good.stdout + good.stderr
    (case,) = cases.load(["escapes/quotes"])
    document = cases.document(case)
    document["expected"]["calls"][0]["arguments"]["content"] += "!"
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(document))
    bad = conformance(
        TREE,
        "--case",
        str(wrong),
        "--schedule",
        "w1",
        "--start",
        "plain",
        "--jobs",
        "1",
        "--json",
        str(tmp_path / "out.json"),
    )
    assert bad.returncode == 1, bad.stdout + bad.stderr
    failure = json.loads((tmp_path / "out.json").read_text())["targets"][0]["failures"][
        0
    ]
    assert any(
        p.startswith("arguments of call 0: matched") for p in failure["problems"]
    )
    assert "--schedule 'full'" in failure["repeat"]


def test_the_same_case_over_http() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": f"{TREE}{os.pathsep}{TESTS}"}
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "conformance.host.serve",
            "--port",
            str(port),
            "--reasoning",
            "qwen3",
            "--case",
            "escapes",
        ],
        cwd=TESTS,
        env=env,
    )
    try:
        for _ in range(240):
            try:
                httpx.get(f"http://127.0.0.1:{port}/health")
                break
            except httpx.TransportError:
                assert server.poll() is None
                time.sleep(0.5)
        done = conformance(
            "--url",
            f"http://127.0.0.1:{port}",
            "--case",
            "escapes/quotes",
            "--start",
            "closed",
            "--schedule",
            "w1",
            "--schedule",
            "mtp3#0",
        )
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        server.kill()
        server.wait()


def test_no_tree_is_exit_code_three(tmp_path: Path) -> None:
    assert conformance("v9.99.9", "--trees", str(tmp_path)).returncode == 3
