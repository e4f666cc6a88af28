# SPDX-License-Identifier: Apache-2.0
"""Serve a tiny model with ``vllm serve``, wait for /health, ask for one answer; runs inside a cpu image."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

SECONDS = 240


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> str | None:
    folder = tempfile.mkdtemp()
    model, log = f"{folder}/model", Path(folder, "log")
    subprocess.run([sys.executable, str(Path(__file__).with_name("make_model.py")), model], check=True)
    port = free_port()
    words = [
        "vllm",
        "serve",
        model,
        "--served-model-name",
        "tiny",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    words += ["--dtype", "bfloat16", "--max-model-len", "256", "--enforce-eager"]
    env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"}
    start = time.monotonic()
    with log.open("w") as output:
        server = subprocess.Popen(
            words, stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True
        )
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    assert answer.status == 200
                    break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if server.poll() is not None or time.monotonic() - start > SECONDS:
                    print(log.read_text()[-6000:])
                    return f"the server did not become healthy ({server.poll()})"
                time.sleep(1)
        seconds = time.monotonic() - start
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            usage = json.load(answer)["usage"]
        assert 1 <= usage["completion_tokens"] <= 4
        print(f"healthy after {seconds:.0f} s; answered with {usage['completion_tokens']} tokens")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
    return None


if __name__ == "__main__":
    sys.exit(main())
