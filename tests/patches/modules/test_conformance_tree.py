# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over HTTP: a real tree, which ``VLLM_TREE`` names, serves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

TREE = os.environ["VLLM_TREE"]
TESTS = Path(__file__).parents[2] / "lanes"


def test_a_plain_case_is_right_over_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    env = {**os.environ, "PYTHONPATH": f"{TREE}{os.pathsep}{TESTS}"}
    serve = [sys.executable, "-m", "conformance.host.serve", "--port", str(port)]
    serve += ["--reasoning", "qwen3", "--case", "escapes"]
    server = subprocess.Popen(serve, cwd=TESTS, env=env)
    try:
        for _ in range(240):
            try:
                httpx.get(f"{url}/health")
                break
            except httpx.TransportError:
                assert server.poll() is None
                time.sleep(0.5)
        asked = [sys.executable, "-m", "conformance", "--url", url, "--start", "closed"]
        asked += ["--case", "escapes/quotes", "--schedule", "mtp3#0"]
        done = subprocess.run(
            asked, cwd=TESTS, env=env, text=True, capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        server.kill()
        server.wait()
