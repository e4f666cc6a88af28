# SPDX-License-Identifier: Apache-2.0
"""The pace of a stream, measured on a server that sends chunks at known times."""

import asyncio
import json
from typing import Any

import httpx

from gpu import pace

GAP = 0.05


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    )
    for number in range(6):
        writer.write(b'data: {"choices":[{"index":0}]}\n\n')
        await writer.drain()
        await asyncio.sleep(GAP if number < 5 else 0)
    usage = json.dumps(
        {"choices": [], "usage": {"completion_tokens": 12}}, separators=(",", ":")
    )
    writer.write(f"data: {usage}\n\ndata: [DONE]\n\n".encode())
    await writer.drain()
    writer.close()


def test_tokens_and_gaps() -> None:
    async def measured() -> dict[str, Any]:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, httpx.AsyncClient(base_url=url) as client:
            return await pace.measure(client, {"model": "m"}, streams=4, rounds=2)

    found = asyncio.run(measured())
    assert 0.8 * GAP * 1000 < found["p50_ms"] <= found["p99_ms"]
    # An answer of 12 tokens takes five gaps, or longer on a busy machine.
    assert 0 < found["tokens_per_second"] <= 4 * 12 / (5 * GAP) * 1.1
