# SPDX-License-Identifier: Apache-2.0
"""Measures the whole serving path: a request of chat or of responses through the release's own application, whose engine says the workload.

From the request's body to the last byte of the response, on the event loop's thread. The scripted engine makes the release's
``RequestOutput`` objects, which is part of what is measured and the same for all; "nothing" is the same application with a
parser that looks at nothing, and counts its steps in the server's metrics as any parser of the release does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

from bench.measure import LEAST_SECONDS
from bench.workloads import CUSTOM, TOOLS, Step, Workload

_LOOK = 64


class _Over(Exception):
    """The budget is spent."""


class _Bursts:
    """Bursts for the scripted engine that end with an error when a time is over."""

    def __init__(self, steps: list[Step], limit: float) -> None:
        self._steps, self._limit = steps, limit
        self.done = 0

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        for number, step in enumerate(self._steps):
            if not number % _LOOK and time.thread_time() > self._limit:
                raise _Over
            self.done = number + 1
            yield step


class Serving:
    """The applications of the tree on the path, one for each reasoning parser."""

    def __init__(self, model_folder: str) -> None:
        self._folder = model_folder
        self._loop = asyncio.new_event_loop()
        self._apps: dict[str, Any] = {}

    def run(
        self,
        cell: dict[str, Any],
        parser: str,
        workload: Workload,
        steps: list[Step],
        streams: int,
        budget: float,
    ) -> dict[str, Any]:
        """One sample, as :func:`bench.measure.run` gives it."""
        app = self._app("qwen3" if workload.thinks else "none")
        with _idle_parser(app) if parser == "nothing" else contextlib.nullcontext():
            if cell["path"] == "serving-memory":
                return self._memory(app, workload, steps, budget)
            if cell["path"] == "serving-once":
                self._loop.run_until_complete(
                    self._all(app, workload, steps, 1, float("inf"))
                )
                return {}
            return self._timed(
                app,
                workload,
                steps,
                streams,
                budget,
                responses=cell["path"] == "responses",
            )

    def _app(self, reasoning: str) -> Any:
        if reasoning not in self._apps:
            from conformance.host.engine import build

            self._apps[reasoning] = self._loop.run_until_complete(
                build(self._folder, reasoning, [])
            )
        return self._apps[reasoning]

    def _timed(
        self,
        app: Any,
        workload: Workload,
        steps: list[Step],
        streams: int,
        budget: float,
        *,
        responses: bool,
    ) -> dict[str, Any]:
        passes, spent = 0, 0.0
        while passes == 0 or spent < LEAST_SECONDS:
            began = time.thread_time()
            done = self._loop.run_until_complete(
                self._all(
                    app, workload, steps, streams, began + budget, responses=responses
                )
            )
            ended = time.thread_time()
            if done < len(steps) * streams:
                return {
                    "bounded": True,
                    "seconds": ended - began,
                    "done": done / (len(steps) * streams),
                }
            passes, spent = passes + 1, spent + ended - began
        return {"seconds": spent / passes, "passes": passes}

    def _memory(
        self, app: Any, workload: Workload, steps: list[Step], budget: float
    ) -> dict[str, Any]:
        self._loop.run_until_complete(
            self._all(app, workload, steps[:64], 1, float("inf"))
        )
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            done = self._loop.run_until_complete(
                self._all(app, workload, steps, 1, time.thread_time() + budget)
            )
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (
            {"peak_bytes": peak - before} if done == len(steps) else {"bounded": True}
        )

    async def _all(
        self,
        app: Any,
        workload: Workload,
        steps: list[Step],
        streams: int,
        limit: float,
        *,
        responses: bool = False,
    ) -> int:
        scripts = [_Bursts(steps, limit) for _ in range(streams)]
        # Each in a task: with a context of its own, which is where the engine finds what to say.
        await asyncio.gather(
            *(
                asyncio.create_task(_ask(app, workload, one, streams > 1, responses))
                for one in scripts
            )
        )
        return sum(script.done for script in scripts)


def _request(workload: Workload, responses: bool) -> tuple[str, dict[str, Any]]:
    """A streamed request: its path and its body."""
    from conformance.host.engine import MODEL

    asked = [
        {
            "role": "user",
            "content": "hello [prompt:open]" if workload.thinks else "hello",
        }
    ]
    body = {"model": MODEL, "stream": True, "tool_choice": "auto"}
    if responses:
        tools = [
            {"type": "function", "strict": False, **tool["function"]} for tool in TOOLS
        ]
        custom = [CUSTOM] if workload.name.startswith("custom") else []
        return "/v1/responses", {
            **body,
            "store": False,
            "input": asked,
            "tools": [*tools, *custom],
        }
    return "/v1/chat/completions", {**body, "messages": asked, "tools": TOOLS}


async def _ask(
    app: Any, workload: Workload, bursts: _Bursts, take_turns: bool, responses: bool
) -> None:
    """One request; the response is counted and dropped, as a socket would take it."""
    from conformance.host.engine import SCRIPT, Script

    SCRIPT.set(Script(bursts, "stop"))  # type: ignore[arg-type]
    path, body = _request(workload, responses)
    payload = json.dumps(body).encode()
    closed, sent = asyncio.Event(), False
    last = b""

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": payload, "more_body": False}
        await closed.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal last
        if message["type"] == "http.response.start":
            if message["status"] != 200:
                raise RuntimeError(f"the application answers {message['status']}")
        else:
            last = message.get("body", b"") or last
            if not message.get("more_body", False):
                closed.set()
        if take_turns:
            await asyncio.sleep(0)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(payload)).encode()),
        ],
    }
    await app(scope, receive, send)
    if (b"response.completed" if responses else b"[DONE]") not in last:
        raise RuntimeError(f"the response ends with {last[-200:]!r}")


@contextlib.contextmanager
def _idle_parser(app: Any) -> Iterator[None]:
    """The chat service with a parser in place of its own that makes a content delta of each step and looks at nothing."""
    from vllm.parser.abstract_parser import DeltaMessage

    service = app.state.openai_serving_chat
    before = service.parser_cls
    count = _counter()

    def parse_delta(
        self: Any, delta_text: str, *_: Any, request: Any = None, **__: Any
    ) -> Any:
        count(is_tool_called=False, is_streaming=True, request=request)
        return DeltaMessage(content=delta_text)

    def parse_deltas(
        self: Any, delta_text: str, *_: Any, request: Any = None, **__: Any
    ) -> list[Any]:
        count(is_tool_called=False, is_streaming=True, request=request)
        return [DeltaMessage(content=delta_text)]

    service.parser_cls = type(
        "Idle", (before,), {"parse_delta": parse_delta, "parse_deltas": parse_deltas}
    )
    try:
        yield
    finally:
        service.parser_cls = before


def _counter() -> Callable[..., None]:
    """What counts a parser's steps in the server's metrics, from v0.24.0 on."""
    try:
        from vllm.parser.metrics import record_tool_parser_invocation
    except ImportError:
        return lambda **_: None
    counted: Callable[..., None] = record_tool_parser_invocation
    return counted
