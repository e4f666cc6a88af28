"""``python -m conformance.host.serve``: the scripted server on a real socket.

For the URL adapter, and for a look with curl: a request whose last message holds
``[case:NAME]`` is answered with that case's output, cut as the header
``x-conformance-schedule`` says.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from typing import Any

import click
import uvicorn
from starlette.middleware.base import BaseHTTPMiddleware

from conformance import case as cases
from conformance import schedule, tokens
from conformance.case import Case
from conformance.host import engine, judge


def said(
    known: dict[str, Case], body: str, headers: Any, json_calls: bool
) -> engine.Script:
    """What the engine says to a request; without a known case, the first one's."""
    match = re.search(r"\[case:([^\]]+)\]", body)
    case = known.get(match[1] if match else "") or next(iter(known.values()))
    start = headers.get("x-conformance-start") or case.starts[0]
    ids, texts = judge.pieces(case, case.run(start, json_calls=json_calls))
    widths = schedule.named(headers.get("x-conformance-schedule") or "w1", len(ids))
    return judge.script(ids, texts, widths, case.end, case.stop_string)


async def serve(reasoning: str, port: int, names: tuple[str, ...]) -> None:
    """Serve until killed."""
    app = await engine.build(str(tokens.model_folder()), reasoning, [])
    json_calls = engine.constrains_to_json()
    known = {case.name: case for case in cases.load(names)}

    async def scripted(request: Any, go_on: Any) -> Any:
        if request.method == "POST":
            body = (await request.body()).decode("utf-8", "replace")
            engine.SCRIPT.set(said(known, body, request.headers, json_calls))
        response = await go_on(request)
        response.headers["x-conformance"] = "json-calls" if json_calls else "1"
        return response

    listening = socket.create_server(("127.0.0.1", port))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    print(json.dumps({"url": url, "cases": len(known)}), flush=True)
    served = BaseHTTPMiddleware(app, dispatch=scripted)
    config = uvicorn.Config(served, log_level="warning", lifespan="off")
    await uvicorn.Server(config).serve(sockets=[listening])


@click.command()
@click.option("--reasoning", type=click.Choice(["qwen3", "none"]), default="qwen3")
@click.option("--port", default=8000)
@click.option("--case", "names", multiple=True)
def command(reasoning: str, port: int, names: tuple[str, ...]) -> None:
    """Serve the tree on the path."""
    asyncio.run(serve(reasoning, port, names))


if __name__ == "__main__":
    command()
