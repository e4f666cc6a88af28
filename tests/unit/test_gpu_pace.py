# SPDX-License-Identifier: Apache-2.0
"""The pace of a stream, measured on a server that sends chunks at known times."""

import asyncio
import json

import pytest

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
    async def measured() -> dict[str, object]:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            return await pace.measure(
                f"http://127.0.0.1:{port}", {"model": "m"}, at_once=4, rounds=3
            )

    found = asyncio.run(measured())
    assert (found["streams"], found["rounds"], found["tokens"]) == (4, 2, 2 * 4 * 12)
    between = found["between_chunks_ms"]
    assert isinstance(between, dict)
    assert 0.8 * GAP * 1000 < between["p50"] <= between["p99"]
    # Four streams of 12 tokens take five gaps, or longer on a busy machine.
    assert isinstance(found["tokens_per_second"], float)
    assert 0 < found["tokens_per_second"] <= 4 * 12 / (5 * GAP) * 1.1


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100)])
def test_shares(share: float, value: int) -> None:
    assert pace._share([float(n) for n in range(1, 101)], share) == value


def test_patched_beside_stock() -> None:
    def result(variant: str, mtp: int, speed: float) -> dict[str, object]:
        between = {"p50": 5.0, "p99": 9.0}
        said = {"tokens_per_second": speed, "between_chunks_ms": between}
        return {
            "release": "v0.26.0",
            "cell": "graphs",
            "mtp": mtp,
            "variant": variant,
            "pace": said,
        }

    lines = pace.compared(
        [result("patched", 3, 990), result("stock", 3, 1000), result("patched", 5, 1)]
    )
    assert lines == [
        "v0.26.0 graphs k=3: 99.0% of stock's tokens per second; "
        "between chunks p50 5.0 ms (stock 5.0), p99 9.0 ms (stock 9.0)"
    ]
