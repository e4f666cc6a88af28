# SPDX-License-Identifier: Apache-2.0
"""The Rust frontend of an official wheel on the CPU, with a scripted engine at the
other end of its message queue.

What ``vllm serve`` does with ``VLLM_USE_RUST_FRONTEND=1``, without the engine: the
binary gets three listening sockets and its arguments as JSON; the engine registers at
one ZMQ socket, takes requests from it, and pushes token ids into the other.
"""

import contextlib
import json
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import zmq

from conformance.host.engine import MODEL, Script
from conformance.host.judge import Judge
from conformance.reading import Reading

#: What the engine says of itself when it registers; the binary refuses a message that
#: lacks a field.
READY = {
    "max_model_len": 200_000,
    "num_gpu_blocks": 0,
    "block_size": 16,
    "dp_stats_address": None,
    "dtype": "bfloat16",
    "vllm_version": "scripted",
    "world_size": 1,
    "data_parallel_size": 1,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "decode_context_parallel_size": 1,
    "data_parallel_rank": 0,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 8192,
    "instance_id": "scripted",
    "supports_lora": False,
    "max_loras": 0,
    "kv_cache_size_tokens": None,
    "kv_cache_max_concurrency": None,
}

ADD, UTILITY = b"\x00", b"\x03"
FINISH = {"stop": 0, "length": 1}
START_LIMIT_S = 120.0


class RustFrontend:
    """The binary, serving on ``url``, and its engine, which says the script that is
    set for the next request.
    """

    def __init__(self, binary: Path, model: Path, log: Path) -> None:
        self.script: Script
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        http, requests, outputs = (listener.getsockname()[1] for listener in listeners)
        self.url = f"http://127.0.0.1:{http}"
        arguments = {
            "model_tag": str(model),
            "served_model_name": [MODEL],
            "tool_call_parser": "qwen3_coder",
            "reasoning_parser": "none",
            "enable_auto_tool_choice": True,
            "disable_log_stats": True,
        }
        handles = [listener.fileno() for listener in listeners]
        command = [
            *(str(binary), "frontend"),
            *("--listen-fd", str(handles[0])),
            *("--input-listener-fd", str(handles[1])),
            *("--output-listener-fd", str(handles[2])),
            *("--args-json", json.dumps(arguments)),
        ]
        with log.open("w") as sink:
            self._process = subprocess.Popen(
                command,
                pass_fds=handles,
                stdout=sink,
                stderr=sink,
                stdin=subprocess.DEVNULL,
            )
        for listener in listeners:
            listener.close()  # the binary has them now
        self._context = zmq.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._push = self._context.socket(zmq.PUSH)
        self._dealer.linger = self._push.linger = 0
        self._dealer.setsockopt(zmq.IDENTITY, (0).to_bytes(2, "little"))  # engine 0
        self._dealer.connect(f"tcp://127.0.0.1:{requests}")
        self._push.connect(f"tcp://127.0.0.1:{outputs}")
        self._dealer.send(msgspec.msgpack.encode(READY))
        threading.Thread(target=self._serve, daemon=True).start()
        try:  # the socket listens already, so that this waits
            asked = httpx.get(f"{self.url}/health", timeout=START_LIMIT_S)
            asked.raise_for_status()
        except httpx.HTTPError as error:
            self.close()
            raise RuntimeError(
                f"the Rust frontend does not serve; see {log}"
            ) from error

    def _serve(self) -> None:
        """Serve as the engine: one output message a burst. It closes the sockets, which
        no two threads may use at once.
        """
        with self._dealer, self._push, contextlib.suppress(zmq.ContextTerminated):
            while True:
                kind, payload = self._dealer.recv_multipart()[:2]
                if kind == ADD:
                    self._say(msgspec.msgpack.decode(payload)[0])
                elif kind == UTILITY:
                    _, call, method, *_ = msgspec.msgpack.decode(payload)
                    result = {
                        "get_supported_tasks": ["generate"],
                        "is_sleeping": False,
                    }.get(method)
                    self._send([], utility=[call, None, [None, result]])

    def _say(self, request: str) -> None:
        *bursts, last = [[*ids] for _, ids in self.script.bursts]
        for ids in bursts:
            self._send([[request, ids, None, None, None, None]])
        end = FINISH[self.script.end]
        self._send([[request, last, None, None, None, end]], finished=[request])

    def _send(
        self, outputs: list[Any], utility: Any = None, finished: list[str] | None = None
    ) -> None:
        self._push.send(
            msgspec.msgpack.encode([0, outputs, None, time.time(), utility, finished])
        )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._context.term()


class RustJudge(Judge):
    """The suite's judge; the script goes to the engine of the frontend."""

    def __init__(self, frontend: RustFrontend) -> None:
        super().__init__(httpx.AsyncClient(base_url=frontend.url, timeout=None))
        self._frontend = frontend

    async def ask(
        self, surface: Any, case: Any, run: Any, said: Script, *, stream: bool
    ) -> Reading:
        self._frontend.script = said
        return await super().ask(surface, case, run, said, stream=stream)
