# SPDX-License-Identifier: Apache-2.0
"""How fast a server streams: tokens per second, and the time between the chunks of a stream, with many at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import httpx


async def measure(
    client: httpx.AsyncClient, body: dict[str, Any], streams: int, rounds: int
) -> dict[str, Any]:
    """Ask for the same answer ``streams`` times at a time; the first of the rounds warms the server up."""
    asked = body | {"stream_options": {"include_usage": True}}
    gaps: list[float] = []
    tokens, seconds = 0, 0.0
    for number in range(rounds):
        begun = time.perf_counter()
        found = await asyncio.gather(*(_stream(client, asked) for _ in range(streams)))
        if number:
            seconds += time.perf_counter() - begun
            tokens += sum(count for _, count in found)
            gaps += [gap for between, _ in found for gap in between]
    return {
        "streams": streams,
        "tokens_per_second": round(tokens / seconds, 1),
        "p50_ms": round(share(gaps, 0.50) * 1000, 2),
        "p99_ms": round(share(gaps, 0.99) * 1000, 2),
    }


def share(values: Sequence[float], part: float) -> float:
    """The smallest value that ``part`` of all do not exceed; 0 without values."""
    if not values:
        return 0.0
    return sorted(values)[max(0, -int(-len(values) * part // 1) - 1)]


async def _stream(
    client: httpx.AsyncClient, body: dict[str, Any]
) -> tuple[list[float], int]:
    """The seconds between the chunks of one answer, and its tokens."""
    times: list[float] = []
    tokens = 0
    path = "/v1/chat/completions"
    async with client.stream("POST", path, json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            if '"usage":{' in line and '"choices":[]' in line:
                tokens = json.loads(line[6:])["usage"]["completion_tokens"]
            else:
                times.append(time.perf_counter())
    return [after - before for before, after in itertools.pairwise(times)], tokens
