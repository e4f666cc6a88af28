# SPDX-License-Identifier: Apache-2.0
"""The whole API process of the vLLM tree on the path: uvicorn, serving, the output
processor, the detokenizer, and the sockets to an engine core, which is scripted.
"""

import asyncio
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.workloads import TOOLS, Workload
from conformance.lines import LANES, Child

#: The path of each surface, and what its streams end with.
SURFACES = {
    "chat": ("/v1/chat/completions", "[DONE]"),
    "messages": ("/v1/messages", "message_stop"),
    "responses": ("/v1/responses", "response.completed"),
}


def request(surface: str, asked: str) -> dict[str, Any]:
    """Return the body of a request for a stream."""
    from conformance.host.engine import MODEL

    said: Any = [{"role": "user", "content": asked}]
    body: dict[str, Any] = {"model": MODEL, "stream": True}
    functions = [tool["function"] for tool in TOOLS]
    if surface == "chat":
        return body | {"messages": said, "tools": TOOLS}
    if surface == "responses":
        tools = [{"type": "function", **function} for function in functions]
        return body | {"input": said, "tools": tools}
    tools = [
        {"name": function["name"], "input_schema": function["parameters"]}
        for function in functions
    ]
    return body | {"messages": said, "tools": tools, "max_tokens": 200_000}


class Process:
    """Serves in this process, with an application for each reasoning parser."""

    def __init__(self, model_folder: str) -> None:
        self._folder = model_folder
        self._loop = import_module("uvloop").new_event_loop()  # as vLLM has it
        self._served: dict[str, tuple[Child, int]] = {}

    def time(
        self,
        surface: str,
        workload: Workload,
        ids: list[int],
        width: int,
        streams: int,
        budget: float,
    ) -> dict[str, Any]:
        """Return CPU seconds of this process for all streams, and its greatest resident
        memory meanwhile, in MiB.

        Streams that take longer than ``budget`` seconds are ended.
        """
        core, port = self._serve("qwen3" if workload.reasoning else "none")
        core.ask({"ids": ids}, 300)
        path, end = SURFACES[surface]
        asked = "hello [prompt:open]" if workload.reasoning else "hello"
        run = {"port": port, "path": path, "body": request(surface, asked)}
        run |= {"end": end, "streams": streams, "width": width, "limit": budget}
        Path("/proc/self/clear_refs").write_text("5")  # forgets the greatest
        began = time.process_time()
        done = self._loop.run_until_complete(
            asyncio.to_thread(core.ask, run, 20 * budget)
        )
        seconds = time.process_time() - began
        if done is None:
            raise RuntimeError("the scripted engine core ended, or hung")
        memory = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        assert memory
        sample = {"seconds": seconds, "mib": int(memory[1]) / 1024}
        return sample | ({"bounded": True, "done": done} if done < 1 else {})

    def _serve(self, reasoning: str) -> tuple[Child, int]:
        if reasoning not in self._served:
            folder = tempfile.mkdtemp(prefix="bench-")
            os.mkfifo(f"{folder}/turns")
            command = (sys.executable, "-m", "bench.core", folder)
            core = Child(command, {**os.environ, "PYTHONPATH": str(LANES)})
            # Beside the process that is measured, not in turn with it.
            others = os.sched_getaffinity(os.getppid()) or {0}
            os.sched_setaffinity(core.process.pid, others)
            port = self._loop.run_until_complete(self._start(reasoning, folder))
            self._served[reasoning] = core, port
        return self._served[reasoning]

    async def _start(self, reasoning: str, folder: str) -> int:
        import uvicorn

        from conformance.host.engine import build

        app = await build(self._folder, reasoning, [], _engine(folder))
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self._task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.1)
        return int(listener.getsockname()[1])


def _engine(folder: str) -> Callable[[Any], Any]:
    """Return what makes the release's AsyncLLM, joined to a scripted core."""

    def make(args: Any) -> Any:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM
        from vllm.v1.engine.core_client import MPClient

        MPClient._apply_ready_response = lambda *_: None
        llm = AsyncLLM.from_vllm_config(
            AsyncEngineArgs.from_cli_args(args).create_engine_config(),
            client_addresses={
                "input_address": f"ipc://{folder}/input",
                "output_address": f"ipc://{folder}/output",
            },
        )
        core, turns = llm.engine_core, os.open(f"{folder}/turns", os.O_WRONLY)
        get_output = core.get_output_async

        async def next_output() -> Any:
            os.write(turns, b".")  # the step before is done with
            return await get_output()

        async def tasks() -> tuple[str, ...]:
            return ("generate",)

        core.get_output_async, core.get_supported_tasks_async = next_output, tasks
        return llm

    return make
