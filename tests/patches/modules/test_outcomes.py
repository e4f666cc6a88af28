# SPDX-License-Identifier: Apache-2.0
"""The counter of calls by outcome, as the release's own /metrics shows it."""

import asyncio
import logging
import re
from collections import Counter

import httpx
import pytest

from harness import LOOP, application, ask, call

pytest.importorskip("vllm.parser.metrics", reason="the release counts no parsers")

READ = call("read", ("path", "/a"))
OUTPUTS = {
    "plain": READ,
    "held": "```\n" + READ,
    "forgiven": READ.removesuffix("</function>\n</tool_call>"),
    "cut": READ[:-40],
    "text": f"Write `{READ}` there.",
}


def counted() -> Counter[str]:
    """Calls by outcome, of all the models that this process has served."""

    async def get() -> str:
        transport = httpx.ASGITransport(application("none", "qwen3_coder"))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://tree", follow_redirects=True
        ) as client:
            return (await client.get("/metrics")).text

    text = LOOP.run_until_complete(asyncio.wait_for(get(), 60))
    lines = re.findall(r"^vllm:qwen_tool_calls_total\{(.*)\} (\S+)$", text, re.M)
    found: Counter[str] = Counter()
    for labels, number in lines:
        found[labels.partition('outcome="')[2].partition('"')[0]] += int(float(number))
    return found


@pytest.mark.parametrize("width", [None, 3])
@pytest.mark.parametrize("outcome", OUTPUTS)
def test_each_call_is_counted_once(
    outcome: str, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda line: lines.append(line.getMessage()))
    logger = logging.getLogger("vllm.parser.qwen_tool_deltas")
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    monkeypatch.setattr(logger, "handlers", [handler])
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    application("none", "qwen3_coder")
    before = counted()
    assert before.keys() == OUTPUTS.keys()
    output = OUTPUTS[outcome]
    ask(output, width, end="length" if outcome == "cut" else "stop")
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    after = counted()
    assert {name: after[name] - before[name] for name in after} == {
        name: int(name == outcome) for name in after
    }
    raw = [line for line in lines if repr(output) in line]
    assert len(raw) == (outcome in ("held", "forgiven", "cut"))
