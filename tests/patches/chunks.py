# SPDX-License-Identifier: Apache-2.0
"""What a stream costs in models, and whether its text chunks are what these write."""

import re
from importlib import import_module
from typing import Any

import pytest

from conformance.host.engine import use_cpu_platform
from harness import MIXED, THINKING, call, raw

#: Every kind of delta, and what JSON escapes or must not.
OUTPUT = (
    'Hm, "why"?\n\tBecause\\.'
    + MIXED
    + " über 数据 – \U0001f600 \x7f\x85\u2028</b>\n"
    + call("write", ("path", "a\\b"), ("content", 'x = "é" # <tool>\n' * 40))
)
_ID = re.compile(rb"[0-9a-f]{16,32}")
_TIME = re.compile(rb'"(?:created|created_at|completed_at)":\d+')


def models_made(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, surface: str
) -> int:
    """How often a module makes a model while it sends a stream of 100 deltas."""
    use_cpu_platform()  # before serving is imported
    return times_called(monkeypatch, import_module(module), name, surface)


def times_called(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, surface: str
) -> int:
    """How often an attribute is called while a stream of 100 deltas is sent."""
    called, made = getattr(owner, name), [0]

    def counted(*args: Any, **fields: Any) -> Any:
        made[0] += 1
        return called(*args, **fields)

    monkeypatch.setattr(owner, name, counted)
    status, answer = raw(OUTPUT, 2, surface=surface, **THINKING)
    assert status == 200
    assert answer.count(b"data: ") > 100
    return made[0]


def differences(
    monkeypatch: pytest.MonkeyPatch, cls: Any, slow: Any, surface: str, **fields: Any
) -> list[tuple[bytes, bytes]]:
    """Streams with text chunks and without, where these differ in more than ids and
    times; *slow* replaces a method of the class that makes text chunks.
    """
    found = []
    for width in (1, 2, 5, 100_000):
        with monkeypatch.context() as patched:
            mine = _stream(width, surface, fields)
            patched.setattr(cls, slow.__name__, slow)
            found.append((mine, _stream(width, surface, fields)))
    return [pair for pair in found if pair[0] != pair[1]]


def _stream(width: int, surface: str, fields: dict[str, Any]) -> bytes:
    status, answer = raw(OUTPUT, width, surface=surface, **THINKING, **fields)
    assert status == 200
    ids: dict[bytes, bytes] = {}
    answer = _ID.sub(lambda match: ids.setdefault(match[0], b"%d" % len(ids)), answer)
    return _TIME.sub(b"", answer)
