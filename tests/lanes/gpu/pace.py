# SPDX-License-Identifier: Apache-2.0
"""How fast a server streams: tokens per second, and the time between the chunks of a stream, with many at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

#: One round warms the server up, the others are measured.
ROUNDS = 4
_TIMEOUT = 300


@dataclass(frozen=True)
class _Stream:
    gaps: tuple[float, ...]
    tokens: int


async def measure(
    url: str, body: dict[str, Any], at_once: int, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Ask for the same answer ``at_once`` times at a time; what all measured rounds together showed."""
    streams: list[_Stream] = []
    seconds = 0.0
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(
        base_url=url, timeout=_TIMEOUT, limits=limits
    ) as client:
        for number in range(rounds):
            begun = time.perf_counter()
            found = await asyncio.gather(
                *(_stream(client, body) for _ in range(at_once))
            )
            if number:
                seconds += time.perf_counter() - begun
                streams += found
    gaps = sorted(gap for stream in streams for gap in stream.gaps)
    tokens = sum(stream.tokens for stream in streams)
    return {
        "streams": at_once,
        "rounds": rounds - 1,
        "tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 1),
        "between_chunks_ms": {
            name: round(_share(gaps, share) * 1000, 2)
            for name, share in _SHARES.items()
        },
    }


_SHARES = {"p50": 0.50, "p99": 0.99}


def _share(sorted_values: list[float], share: float) -> float:
    """The smallest value that ``share`` of all do not exceed; 0 without values."""
    if not sorted_values:
        return 0.0
    return sorted_values[max(0, -int(-len(sorted_values) * share // 1) - 1)]


async def _stream(client: httpx.AsyncClient, body: dict[str, Any]) -> _Stream:
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    times: list[float] = []
    tokens = 0
    async with client.stream("POST", "/v1/chat/completions", json=asked) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            if '"usage":{' in line and '"choices":[]' in line:
                tokens = int(json.loads(line[6:])["usage"]["completion_tokens"])
            else:
                times.append(time.perf_counter())
    return _Stream(
        tuple(after - before for before, after in itertools.pairwise(times)), tokens
    )


def paired(
    results: Iterable[dict[str, Any]], field: str
) -> Iterator[tuple[str, Any, Any]]:
    """Where both trees have ``field``: release, cell and k in words, stock's value, patched's value."""
    found = {
        (p["release"], p["cell"], p["mtp"], p["variant"]): p[field]
        for p in results
        if p.get(field)
    }
    for release, cell, mtp, variant in sorted(found):
        stock = found.get((release, cell, mtp, "stock"))
        if variant == "patched" and stock:
            yield f"{release} {cell} k={mtp}", stock, found[release, cell, mtp, variant]


def compared(results: Iterable[dict[str, Any]]) -> list[str]:
    """Patched beside stock, one line for each cell that both have."""
    lines = []
    for where, stock, ours in paired(results, "pace"):
        share = ours["tokens_per_second"] / stock["tokens_per_second"]
        between = ", ".join(
            f"{name} {ours['between_chunks_ms'][name]} ms (stock {stock['between_chunks_ms'][name]})"
            for name in _SHARES
        )
        lines.append(
            f"{where}: {share:.1%} of stock's tokens per second; between chunks {between}"
        )
    return lines
