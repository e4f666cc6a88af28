# SPDX-License-Identifier: Apache-2.0
"""How fast a server streams: tokens per second, and the time between chunks."""

import asyncio
import itertools
import json
import statistics
import time
from typing import Any

import httpx

from conformance.surfaces import chat


async def measure(
    client: httpx.AsyncClient, body: dict[str, Any], streams: int, rounds: int
) -> dict[str, Any]:
    """Ask for the same answer ``streams`` times at a time, each ``rounds`` times."""
    asked = body | {"stream_options": {"include_usage": True}}
    begun = time.perf_counter()
    many = (_streams(client, asked, rounds) for _ in range(streams))
    found = await asyncio.gather(*many)
    seconds = time.perf_counter() - begun
    shares = statistics.quantiles([gap for gaps, _ in found for gap in gaps], n=100)
    return {
        "streams": streams,
        "tokens_per_second": round(sum(tokens for _, tokens in found) / seconds, 1),
        "p50_ms": round(shares[49] * 1000, 2),
        "p99_ms": round(shares[98] * 1000, 2),
    }


async def _streams(
    client: httpx.AsyncClient, body: dict[str, Any], rounds: int
) -> tuple[list[float], int]:
    """Return the seconds between the chunks of an answer, and its tokens, of all
    rounds.
    """
    gaps: list[float] = []
    tokens = 0
    for _ in range(rounds):
        times = []
        async with client.stream("POST", chat.PATH, json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if '"usage":{' in line and '"choices":[]' in line:
                    tokens += json.loads(line[6:])["usage"]["completion_tokens"]
                elif line.startswith('data: {"'):
                    times.append(time.perf_counter())
        gaps += [after - before for before, after in itertools.pairwise(times)]
    return gaps, tokens
