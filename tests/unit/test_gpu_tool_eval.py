# SPDX-License-Identifier: Apache-2.0
"""tool-eval-bench's own verdicts on a server whose answers are scripted."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpu import real

ARGUMENTS = '{"location": "Berlin"}'


class Model(BaseHTTPRequestHandler):
    """Looks up the weather of Berlin, and tells it; refuses the price of a stock."""

    protocol_version = "HTTP/1.1"
    arguments = ARGUMENTS
    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        if "AAPL" in body["messages"][1]["content"]:
            self.answer(
                400, b'{"error": {"message": "no such parser"}}', "application/json"
            )
            return
        if body["messages"][-1]["role"] == "tool":
            deltas: list[dict[str, Any]] = [
                {"content": "It is 8 °C and overcast"},
                {"content": " in Berlin."},
            ]
            finish = "stop"
        else:
            first = {
                "index": 0,
                "id": "call-1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": ""},
            }
            parts = [self.arguments[:9], self.arguments[9:]]
            deltas = [{"tool_calls": [first]}]
            deltas += [
                {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
                for part in parts
            ]
            finish = "tool_calls"
        chunks: list[Any] = [
            {"choices": [{"index": 0, "delta": delta}]} for delta in deltas
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self.answer(
            200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream"
        )

    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[Model]]]:
    model = type("Model", (Model,), {"asked": []})
    served = ThreadingHTTPServer(("127.0.0.1", 0), model)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_address[1]}", model
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.mark.parametrize(
    "arguments", [ARGUMENTS, ARGUMENTS[:-1]], ids=["whole", "mended by the package"]
)
def test_the_package_judges_what_the_server_said(
    server: tuple[str, type[Model]],
    arguments: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = "tool_eval_bench.evals.scenarios"
    listed = pytest.importorskip(package, reason="nox -s tests installs it")
    known = listed.ALL_SCENARIOS_WITH_HARDMODE
    assert len(known) == 97
    chosen = [one for one in known if one.id in ("TC-01", "TC-02", "TC-03")]
    monkeypatch.chdir(tmp_path)
    url, model = server
    model.arguments = arguments
    said = asyncio.run(real.tool_eval(url, chosen))
    assert said["verdicts"] == {"TC-01": "pass", "TC-03": "fail"}
    assert (said["failed_by_server"], said["points"]) == (1, [2, 4])
    assert said["tool-eval-bench"] == "3.0.0"
    assert all(body["stream"] and body["temperature"] == 0 for body in model.asked)
    assert not list(tmp_path.iterdir()), "the package left a report or a database"
