# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over HTTP: a real tree, which ``VLLM_TREE`` names, serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from conformance.lines import Child, tree_environment


def test_a_plain_case_is_right_over_http() -> None:
    environment = tree_environment(Path(os.environ["VLLM_TREE"]))
    serve = [sys.executable, "-m", "conformance.host.serve", "--port", "0"]
    server = Child([*serve, "--case", "escapes"], environment)
    try:
        url = json.loads(server.line(240))["url"]
        asked = [sys.executable, "-m", "conformance", "--url", url, "--start", "closed"]
        asked += ["--case", "escapes/quotes", "--schedule", "mtp3#0"]
        done = subprocess.run(
            asked, env=environment, text=True, capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        server.end()
