# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.worker``: measure cells in a process with one vLLM tree on its
path: its parser alone, or its whole API process with a scripted engine core.

One JSON document a line in, one out.
"""

import asyncio
import functools
import gc
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

from bench import workloads
from bench.cells import Cell
from bench.workloads import TOOLS, Step, Workload
from conformance import lines, tokens
from conformance.host.engine import MODEL, build, use_cpu_platform
from conformance.lines import LANES, Child

PARSER = "qwen3_coder"
#: A sample repeats a short stream for this long, in seconds, and no longer: other work
#: on the processor comes and goes within seconds.
LEAST_SECONDS = 0.02
#: Steps between two looks at the clock.
_LOOK = 256

#: Takes a step's text, its token ids, and whether the output ends.
Feed = Callable[[str, list[int], bool], Any]


class Parsers:
    def __init__(self, model_folder: str) -> None:
        use_cpu_platform()
        from vllm.entrypoints.openai.chat_completion.protocol import (
            ChatCompletionRequest,
        )
        from vllm.parser.abstract_parser import Parser
        from vllm.parser.parser_manager import ParserManager
        from vllm.tokenizers import get_tokenizer

        self._manager = ParserManager
        # As serving has it: with the vocabulary cached.
        self._tokenizer = get_tokenizer(model_folder)
        asked = [{"role": "user", "content": "hello"}]
        self._request = ChatCompletionRequest(
            model="scripted", messages=asked, tools=TOOLS, stream=True
        )
        # Where the chat service asks for a step's deltas instead of its one delta.
        self._many = hasattr(Parser, "parse_deltas")

    def opener(self, workload: Workload) -> Callable[[], Feed]:
        reasoning = "qwen3" if workload.reasoning else None
        parser = self._manager.get_parser(PARSER, reasoning, True)
        end = "<|im_start|>assistant\n" + ("<think>\n" if workload.reasoning else "")
        prompt = self._tokenizer.encode(end, add_special_tokens=False)
        name = "parse_deltas" if self._many else "parse_delta"
        request = self._request

        def open_stream() -> Feed:
            parse = getattr(parser(self._tokenizer, request.tools), name)
            return lambda text, ids, finished: parse(
                text, ids, request, prompt, finished=finished
            )

        return open_stream

    def time(
        self, workload: Workload, steps: list[Step], streams: int, budget: float
    ) -> dict[str, Any]:
        """Return seconds of a pass over all steps, the parsers' opening included.

        A pass that takes longer than ``budget`` seconds is given up.
        """
        opener = self.opener(workload)
        return repeated(lambda limit: feed(opener, steps, streams, limit), budget)


def feed(
    opener: Callable[[], Feed], steps: list[Step], streams: int, limit: float
) -> float:
    """Feed streams, a step of each in turn, until ``limit``; the share that was fed."""
    feeds = [opener() for _ in range(streams)]
    for number, (text, ids) in enumerate(steps, 1):
        for one in feeds:
            one(text, ids, number == len(steps))
        if not (number - 1) * streams % _LOOK and time.thread_time() > limit:
            return number / len(steps)
    return 1.0


def repeated(make: Callable[[float], float], budget: float) -> dict[str, Any]:
    """Make passes for ``LEAST_SECONDS``; ``make`` takes a time limit, gives a share."""
    passes, spent = 0, 0.0
    while passes == 0 or spent < LEAST_SECONDS:
        began = time.thread_time()
        done = make(began + budget)
        spent += time.thread_time() - began
        passes += 1
        if done < 1:
            return {"bounded": True, "seconds": spent / passes, "done": done}
    return {"seconds": spent / passes, "passes": passes}


#: The path of each surface, and what its streams end with.
SURFACES = {
    "chat": ("/v1/chat/completions", "[DONE]"),
    "messages": ("/v1/messages", "message_stop"),
    "responses": ("/v1/responses", "response.completed"),
}


def request(surface: str, asked: str) -> dict[str, Any]:
    said: Any = [{"role": "user", "content": asked}]
    body: dict[str, Any] = {"model": MODEL, "stream": True}
    functions = [tool["function"] for tool in TOOLS]
    own = {
        "chat": {"messages": said, "tools": TOOLS},
        "responses": {
            "input": said,
            "tools": [{"type": "function", **function} for function in functions],
        },
        "messages": {
            "messages": said,
            "tools": [
                {"name": function["name"], "input_schema": function["parameters"]}
                for function in functions
            ],
            "max_tokens": 100_000,
        },
    }
    return body | own[surface]


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
        status = Path("/proc/self/status").read_text()
        (memory,) = re.findall(r"VmHWM:\s+(\d+)", status)
        sample = {"seconds": seconds, "mib": int(memory) / 1024}
        return sample | ({"bounded": True, "done": done} if done < 1 else {})

    def _serve(self, reasoning: str) -> tuple[Child, int]:
        if reasoning not in self._served:
            folder = tempfile.mkdtemp(prefix="bench-")
            os.mkfifo(f"{folder}/turns")
            command = (sys.executable, "-m", "bench.core", folder)
            core = Child(command, {**os.environ, "PYTHONPATH": str(LANES)})
            port = self._loop.run_until_complete(self._start(reasoning, folder))
            self._served[reasoning] = core, port
        return self._served[reasoning]

    async def _start(self, reasoning: str, folder: str) -> int:
        import uvicorn

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


@functools.cache
def _path(name: str) -> Any:
    return (Parsers if name == "parser" else Process)(str(tokens.model_folder()))


# Two at a time, as growth needs two; the longest takes 100 MB.
@functools.lru_cache(maxsize=2)
def _workload(name: str, wanted: int) -> tuple[Any, list[int], list[str]]:
    """Return a workload, its token ids, and what each adds to the text."""
    tokenizer = tokens.load()

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    made = workloads.build(name, wanted, count)
    ids = tokens.encode(tokenizer, made.output)
    texts = [*tokens.deltas(tokenizer, ids), ""]  # the end token adds no text
    return made, [*ids, tokenizer.token_to_id(tokens.EOS)], texts


def sample(asked: dict[str, Any]) -> dict[str, Any]:
    cell, budget = Cell(**asked["cell"]), asked["budget"]
    workload, ids, texts = _workload(cell.workload, cell.tokens)
    streams = workloads.STREAMS if cell.workload.startswith("streams") else 1
    if cell.path == "parser":
        steps = workloads.steps_of(texts, ids, cell.width)
        measure = functools.partial(_path("parser").time, workload, steps)
    else:
        measure = functools.partial(
            _path("process").time, cell.path, workload, ids, cell.width
        )
    gc.collect()
    gc.freeze()
    return {"tokens": len(ids) * streams, **measure(streams, budget)}


if __name__ == "__main__":
    lines.answer(lambda: sample)
