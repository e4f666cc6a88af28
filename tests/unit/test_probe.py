# SPDX-License-Identifier: Apache-2.0
"""The probe of somebody's own server, against servers of every kind it may meet."""

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from conftest import ran
from package_index import begin
from server import probe

Say = Callable[[probe.Case], tuple[str, list[dict[str, Any]]]]


def whole(case: probe.Case) -> tuple[str, list[dict[str, Any]]]:
    """Return content and calls as they are meant; one that max_tokens cut is open."""
    if case.calls is None:
        return "", [{"name": "bash", "arguments": '{"command": "rm -rf build'}]
    calls = [
        {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        for name, arguments in case.calls
    ]
    return case.content, calls


def runs_quoted(case: probe.Case) -> tuple[str, list[dict[str, Any]]]:
    content, calls = whole(case)
    return content, [*calls, {"name": "bash", "arguments": "{}"}]


def closes(case: probe.Case) -> tuple[str, list[dict[str, Any]]]:
    content, calls = whole(case)
    if case.calls is None:
        calls[0]["arguments"] += '"}'
    return content, calls


class Server(BaseHTTPRequestHandler):
    """A server whose model obeys a grammar, and says ``Yes.`` without one."""

    say: Say = staticmethod(whole)
    refuses: frozenset[str] = frozenset()
    text = ""
    stream = "data: {}\n\n"
    #: Of GET and of /detokenize, what is answered to a path.
    told: Mapping[str, Any] = {}

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        told = {
            "/v1/models": {"data": [{"id": "m"}]},
            "/version": {"version": "0.33.0+mtp.1"},
            **self.told,
        }
        if told.get(self.path) == "nothing":
            return
        self.answer(told.get(self.path, {}), 200 if self.path in told else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.text or body["model"] == "m"
        if self.path == "/detokenize":
            text = "".join(map(chr, body["tokens"]))
            whole = {"prompt": f"{text}<|im_end|>\n"}
            return self.answer(self.told.get(self.path, whole))
        if self.path in self.refuses or self.refuses & body.keys():
            return self.answer({"error": self.headers["Authorization"]}, 400)
        if "structured_outputs" not in body:
            return self.answer(self.choice({"content": "Yes."}, "Yes.", body))
        regex = body["structured_outputs"]["regex"]
        (case,) = [case for case in probe.CASES if re.fullmatch(regex, case.text)]
        content, calls = type(self).say(case)
        said = case.text[:100] if case.calls is None else case.text
        message = {
            "content": content,
            "tool_calls": [{"index": i, "function": c} for i, c in enumerate(calls)],
        }
        self.answer(self.choice(message, said, body, cut=case.calls is None))

    def choice(
        self, message: Any, said: str, body: Any, *, cut: bool = False
    ) -> dict[str, Any] | list[Any]:
        """Return a completion, or the parts of a stream."""
        end = "length" if cut else "stop"
        tokens = {"finish_reason": end, "token_ids": [*map(ord, said)]}
        if not body.get("stream"):
            return {"choices": [{"message": message, **tokens}]}
        parts = [
            {"index": call["index"], "function": {key: piece}}
            for call in message.get("tool_calls", [])
            for key, value in call["function"].items()
            for piece in ([value] if key == "name" else value)
        ]
        deltas = [{"tool_calls": [part]} for part in parts]
        chunks = [
            {"choices": [{"delta": delta}]}
            for delta in (*deltas, {"content": message["content"]})
        ]
        return [*chunks, {"choices": [{"delta": {}, **tokens}]}]

    def answer(self, told: Any, status: int = 200) -> None:
        text = json.dumps(told, ensure_ascii=False)
        if isinstance(told, list) and not self.stream:
            return
        if isinstance(told, list) and told:
            lines = [json.dumps(part, ensure_ascii=False) for part in told]
            text = "".join(self.stream.format(line) for line in [*lines, "[DONE]"])
        data = (self.text or text).encode()
        begin(self, status, Content_Length=str(len(data)))
        self.wfile.write(data)


def asked(status: int, url: str, key: str = "") -> str:
    """Return what the probe of a server says."""
    command = [sys.executable, "-I", probe.__file__, url]
    env = {**os.environ, "OPENAI_API_KEY": key}
    done = ran(command, status, env=env)
    return done.stdout + done.stderr


def run(status: int, key: str = "", **kind: Any) -> str:
    handler = type("Kind", (Server,), kind)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = asked(status, f"http://127.0.0.1:{server.server_address[1]}/v1", key)
        server.shutdown()
    return said


def test_a_server_whose_calls_arrive_whole() -> None:
    said = run(0)
    assert "verdict   calls arrive whole: 12 right, 0 wrong, 0 could not" in said
    assert "vLLM 0.33.0+mtp.1; its wheel or image has the patches" in said
    assert "late-system-messages yes" in said and "sse-line-separators no" in said


@pytest.mark.parametrize(
    ("say", "wrong", "why"),
    [
        (runs_quoted, 12, "in an answer, streamed: calls bash, not nothing"),
        (closes, 2, "cuts, not streamed: half a call arrives as a whole one: bash"),
    ],
)
def test_a_server_whose_calls_do_not(say: Say, wrong: int, why: str) -> None:
    said = run(1, say=staticmethod(say))
    assert f"do NOT arrive whole: {12 - wrong} right, {wrong} wrong" in said
    assert why in said


def test_what_cannot_be_forced_is_not_judged() -> None:
    said = run(3, refuses=frozenset({"structured_outputs"}))
    assert "nothing could be judged: 0 right, 0 wrong, 12 could not be forced" in said
    assert "open      an ordinary call, streamed: the model was not forced" in said


@pytest.mark.parametrize(
    "told",
    [
        {"/version": []},
        {"/version": {"version": 33}},
        {"/version": "[" * 100_000},
        {"/version": {"version": "\x1b[2J\u2603\nverdict   calls do NOT arrive"}},
        {"/metrics": "nothing"},
        {"/detokenize": {"prompt": None}},
        {"/detokenize": []},
    ],
)
def test_what_it_asks_beside_may_have_no_answer(told: dict[str, Any]) -> None:
    said = run(0, told=told)
    assert said.isascii() and "\x1b" not in said
    assert "\nverdict   calls arrive whole: 12 right" in said
    assert said.count("\nverdict") == 1


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (": a comment\n\ndata: {}\n\n", "12 right"),
        ("data:{}\n\n", "12 right"),
        ("event: message\nid: 3\nretry: 5\ndata: {}\n\n", "12 right"),
        ("data: {}\r\n\r\n", "12 right"),
        # No stream is answered, as after a minute, when a server is slow.
        ("", "6 right, 0 wrong, 6 could not"),
    ],
)
def test_a_stream_in_each_of_its_forms(stream: str, said: str) -> None:
    assert f"calls arrive whole: {said}" in run(0, stream=stream)


def test_a_stream_that_an_error_ends() -> None:
    error = 'data: {{"error": {{"message": "list index"}}}}\n\n'
    said = run(1, stream=f"data: {{}}\n\n{error}")
    assert "calls do NOT arrive whole: 6 right, 6 wrong" in said
    assert 'streamed: the stream ends: {"error": {"message": "list index"}}' in said


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://user:PASSWORD@127.0.0.1:9/v1?key=PASSWORD", ""),
        ("http://user:P/PASSWORD@127.0.0.1:9", ""),
        ("http://127.0.0.1:9", "PASSWORD\nPASSWORD"),
        ("http://127.0.0.1:9", "PASSWORD\u20ac"),
        ("http://[::1", ""),
    ],
)
def test_no_password_is_shown(url: str, key: str) -> None:
    said = asked(3, url, key)
    assert said.count("\n") == 1 and "PASS" not in said


def test_a_key_that_is_refused_is_not_shown() -> None:
    said = run(3, key="PASSWORD", refuses=frozenset({"/v1/chat/completions"}))
    assert '"error": "Bearer ***"' in said and "PASSWORD" not in said


def test_a_key_with_a_line_end() -> None:
    assert "12 right" in run(0, key="PASSWORD\r\n")


@pytest.mark.parametrize(
    "kind",
    [
        {"text": "<html>"},
        {"text": "\n"},
        {"text": "[" * 100_000},
        {"text": '{"choices": [3]}'},
        {"refuses": frozenset({"/v1/chat/completions"})},
    ],
)
def test_what_is_no_such_server(kind: dict[str, Any]) -> None:
    assert "verdict   nothing could be judged: 0 right, 0 wrong" in run(3, **kind)


def test_no_server_at_all() -> None:
    assert "gives no answer" in asked(3, "127.0.0.1:9")
