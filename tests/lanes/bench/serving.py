# SPDX-License-Identifier: Apache-2.0
"""A chat request through the release's own application, whose engine is scripted.

From the request's body to the response's last byte, on the event loop's thread. The
engine's ``RequestOutput`` objects are part of what is measured, and the same for all.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

from bench.asgi import post
from bench.parsers import repeated
from bench.workloads import TOOLS, Step, Workload

_LOOK = 64


class _Over(Exception):
    """The time is over."""


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

    def time(
        self, workload: Workload, steps: list[Step], streams: int, budget: float
    ) -> dict[str, Any]:
        """Return seconds of all streams, as ``bench.parsers.Parsers.time``."""
        app = self._app("qwen3" if workload.reasoning else "none")

        def ask(limit: float) -> float:
            asked = _all(app, workload, steps, streams, limit)
            return self._loop.run_until_complete(asked)

        return repeated(ask, budget)

    def _app(self, reasoning: str) -> Any:
        if reasoning not in self._apps:
            from conformance.host.engine import build

            self._apps[reasoning] = self._loop.run_until_complete(
                build(self._folder, reasoning, [])
            )
        return self._apps[reasoning]


async def _all(
    app: Any, workload: Workload, steps: list[Step], streams: int, limit: float
) -> float:
    scripts = [_Bursts(steps, limit) for _ in range(streams)]
    # Each in a task: with a context of its own, where the engine finds what to say.
    await asyncio.gather(
        *(asyncio.create_task(_ask(app, workload, one, streams > 1)) for one in scripts)
    )
    return sum(script.done for script in scripts) / len(steps) / streams


async def _ask(app: Any, workload: Workload, bursts: _Bursts, turns: bool) -> None:
    """Make one request."""
    from conformance.host.engine import MODEL, SCRIPT, Script

    SCRIPT.set(Script(bursts, "stop"))  # type: ignore[arg-type]
    asked = "hello [prompt:open]" if workload.reasoning else "hello"
    body = {"model": MODEL, "stream": True, "tool_choice": "auto", "tools": TOOLS}
    body["messages"] = [{"role": "user", "content": asked}]
    status, answer = await post(app, "/v1/chat/completions", body, turns=turns)
    if status != 200 or b"[DONE]" not in answer[-200:]:
        raise RuntimeError(f"{status}: the response ends with {answer[-200:]!r}")
