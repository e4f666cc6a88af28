# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.core FOLDER``: an engine core that says what it is told, and its
clients, in a process of their own, whose time does not count.

It speaks the core's own protocol, msgpack over the sockets in FOLDER, and needs no
vLLM.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

import msgspec
import zmq.asyncio

from conformance import lines

#: Types of messages, as ``vllm.v1.engine.EngineCoreRequestType`` has them.
_ADD = b"\x00"
#: ``vllm.v1.engine.FinishReason.STOP``, behind the fields of an output before it.
_STOP = [None, None, None, 0]

#: The clock of the CPU time of the process that serves, as ``clock_getcpuclockid``
#: makes it.
_SERVER = (~os.getppid() << 3) | 2


class Core:
    """Answers all requests of a run alike, a step of each at a time."""

    def __init__(self, folder: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._connect(folder))
        self._ids: list[int] = []

    async def _connect(self, folder: str) -> None:
        context = zmq.asyncio.Context()
        self._requests = context.socket(zmq.DEALER)
        self._requests.setsockopt(zmq.IDENTITY, (0).to_bytes(2, "little"))
        self._requests.connect(f"ipc://{folder}/input")
        self._outputs = context.socket(zmq.PUSH)
        self._outputs.connect(f"ipc://{folder}/output")
        await self._requests.send(b"")  # it is ready
        self._turns = asyncio.StreamReader()
        pipe = os.fdopen(os.open(f"{folder}/turns", os.O_RDONLY | os.O_NONBLOCK), "rb")
        await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._turns), pipe
        )

    def answer(self, asked: dict[str, Any]) -> Any:
        """Take the token ids of the runs that follow, or make one run."""
        if "ids" in asked:
            self._ids = asked["ids"]
            return True
        return self._loop.run_until_complete(self._run(**asked))

    async def _run(
        self,
        *,
        port: int,
        path: str,
        body: dict[str, Any],
        end: str,
        streams: int,
        width: int,
        limit: float,
    ) -> float:
        """Return the share of the tokens that was said before the process that serves
        had spent ``limit`` seconds.
        """
        said, limit = 0, limit + time.clock_gettime(_SERVER)
        async with asyncio.TaskGroup() as clients:
            for _ in range(streams):
                clients.create_task(_ask(port, path, body, end))
            names = [await self._request() for _ in range(streams)]
            late = False
            while said < len(self._ids) and not late:
                await self._turns.readexactly(1)
                late = time.clock_gettime(_SERVER) > limit
                step = self._ids[said : said + width]
                said += len(step)
                last = _STOP if late or said == len(self._ids) else []
                outputs = [[name, step, *last] for name in names]
                message = [0, outputs, None, time.monotonic()]
                await self._outputs.send(msgspec.msgpack.encode(message))
        return said / len(self._ids)

    async def _request(self) -> str:
        while True:
            kind, request, *_ = await self._requests.recv_multipart()
            if kind == _ADD:
                return str(msgspec.msgpack.decode(request)[0])


async def _ask(port: int, path: str, body: dict[str, Any], end: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    document = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(document)}\r\n\r\n"
    )
    writer.write(head.encode() + document)
    last = b""
    while piece := await reader.read(1 << 16):
        last = (last + piece)[-4096:]
    writer.close()
    if end.encode() not in last:
        raise RuntimeError(f"the response ends with {last!r}")


if __name__ == "__main__":
    lines.answer(lambda: Core(sys.argv[1]).answer)
