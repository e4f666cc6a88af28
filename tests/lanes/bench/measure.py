# SPDX-License-Identifier: Apache-2.0
"""Measures the parser alone: thread time, allocated memory, and the steps to a value's first delta."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from bench.reading import Message
from bench.tree_parsers import Feed
from bench.workloads import Step, Workload

#: A timed sample repeats a short stream until it has run for this long, in seconds. Short, so that the samples of a round lie
#: close together: other work on the processor's core comes and goes within seconds.
LEAST_SECONDS = 0.02

#: Steps between two looks at the clock.
_LOOK = 256


def run(
    path: str,
    opener: Callable[[], Feed],
    workload: Workload,
    steps: list[Step],
    streams: int,
    budget: float,
) -> dict[str, Any]:
    """One sample of what ``path`` names. ``budget`` is in seconds."""
    if path == "first-delta":
        return first_delta(opener, workload, steps)
    if path == "idle":
        return {}
    if path == "once":
        _alone(opener(), steps, float("inf"))
        return {}
    if path == "memory":
        return memory(opener, steps, budget)
    return timed(opener, workload, steps, streams, budget)


def timed(
    opener: Callable[[], Feed],
    workload: Workload,
    steps: list[Step],
    streams: int,
    budget: float,
) -> dict[str, Any]:
    """Seconds of one pass over all steps, opening the parsers included; or how far one pass came in ``budget`` seconds."""
    passes, spent, opening = 0, 0.0, 0.0
    while passes == 0 or spent < LEAST_SECONDS:
        began = time.thread_time()
        feeds = [opener() for _ in range(streams)]
        opened = time.thread_time()
        done = (
            _interleaved(feeds, steps, began + budget)
            if streams > 1
            else _alone(feeds[0], steps, began + budget)
        )
        ended = time.thread_time()
        if done < len(steps):
            return {
                "bounded": True,
                "seconds": ended - began,
                "done": done / len(steps),
            }
        passes, spent, opening = (
            passes + 1,
            spent + ended - began,
            opening + opened - began,
        )
    return {
        "seconds": spent / passes,
        "open_seconds": opening / passes,
        "passes": passes,
    }


def _alone(feed: Feed, steps: list[Step], limit: float) -> int:
    last = len(steps) - 1
    for start in range(0, last, _LOOK):
        for text, ids in steps[start : min(start + _LOOK, last)]:
            feed(text, ids, False)
        if time.thread_time() > limit:
            return min(start + _LOOK, last)
    feed(*steps[last], True)
    return len(steps)


def _interleaved(feeds: list[Feed], steps: list[Step], limit: float) -> int:
    last = len(steps) - 1
    for number, (text, ids) in enumerate(steps):
        for feed in feeds:
            feed(text, ids, number == last)
        if time.thread_time() > limit and number < last:
            return number
    return len(steps)


def read(opener: Callable[[], Feed], steps: list[Step]) -> Message:
    """What a client has at the end."""
    message, feed, last = Message(), opener(), len(steps) - 1
    for number, (text, ids) in enumerate(steps):
        for delta in feed(text, ids, number == last):
            message.add(delta)
    return message


def first_delta(
    opener: Callable[[], Feed], workload: Workload, steps: list[Step]
) -> dict[str, Any]:
    """Steps from the one that delivers the longest value's first character to its first delta: 0 is the same step.

    Also whether the message is right in the end. ``None`` steps: no delta of it ever came.
    """
    message, feed, last, sent = Message(), opener(), len(steps) - 1, 0
    begins: int | None = None
    found: int | None = None
    for number, (text, ids) in enumerate(steps):
        sent += len(text)
        if begins is None and sent > (workload.first_value or 0):
            begins = number
        for delta in feed(text, ids, number == last):
            message.add(delta)
        if found is None and begins is not None and message.has_value(workload):
            found = number
    return {
        "waits": None if found is None or begins is None else found - begins,
        "right": message.right(workload),
    }


def memory(
    opener: Callable[[], Feed], steps: list[Step], budget: float
) -> dict[str, Any]:
    """Bytes that Python allocates for one stream: held when nine tenths of it have come, and at most in between.

    The steps themselves are not counted. Lone objects of C libraries are not seen (tracemalloc); the parsers have none.
    Without sizes if ``budget`` seconds of the thread were not enough.
    """
    read(opener, steps[:64])  # caches that all streams share
    at, last, limit = len(steps) * 9 // 10, len(steps) - 1, time.thread_time() + budget
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        feed = opener()
        held = before
        for number, (text, ids) in enumerate(steps):  # a slice would be counted
            feed(text, ids, number == last)
            if number == at:
                held, _ = tracemalloc.get_traced_memory()
            if not number % _LOOK and time.thread_time() > limit:
                return {"bounded": True}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return {"held_bytes": held - before, "peak_bytes": peak - before}
