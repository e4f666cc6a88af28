"""``python -m conformance.host.serve``: the scripted server on a real socket.

For the URL adapter, for a look with curl, and for judging clients: a request whose last
message holds ``[case:NAME]`` is answered with that case's output, cut as the header
``x-conformance-schedule`` says.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Scripted:
    """ASGI middleware: finds the case that a request names and sets the engine's
    script.
    """

    def __init__(self, app: Any, judge: Any, known: dict[str, Any]) -> None:
        self.app, self.judge, self.known = app, judge, known

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {
                    **message,
                    "headers": [
                        *message.get("headers", []),
                        (
                            b"x-conformance",
                            b"json-calls" if self.judge.json_calls else b"1",
                        ),
                    ],
                }
            await send(message)

        if scope["method"] != "POST":
            await self.app(scope, receive, marked)
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        self._script(
            body.decode("utf-8", "replace"),
            {k.decode(): v.decode() for k, v in scope["headers"]},
        )
        given = [False]

        async def again() -> Any:
            if given[0]:
                return await receive()
            given[0] = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, marked)

    def _script(self, body: str, headers: dict[str, str]) -> None:
        from conformance.host.engine import SCRIPT
        from conformance.remote import schedule_of

        match = re.search(r"\[case:([^\]]+)\]", body)
        case = self.known.get(match[1]) if match else None
        if case is None:
            case = next(iter(self.known.values()))
        start = headers.get("x-conformance-start") or case.starts[0]
        ids, texts = self.judge.pieces(
            case.run(start, json_calls=self.judge.json_calls), case
        )
        plan = schedule_of(headers.get("x-conformance-schedule", ""), len(ids))
        SCRIPT.set(
            self.judge.script(ids, texts, plan.widths, case.end, case.stop_string)
        )


async def serve(reasoning: str, port: int, names: list[str]) -> None:
    """Serve until killed."""
    import uvicorn

    from conformance import case as cases
    from conformance import tokens
    from conformance.host.engine import build, constrains_to_json
    from conformance.host.judge import Judge

    app = await build(str(tokens.model_folder()), reasoning, [])
    judge = Judge(app, json_calls=constrains_to_json())
    known = {c.name: c for c in cases.load(names)}
    server = uvicorn.Server(
        uvicorn.Config(
            Scripted(app, judge, known),
            host="127.0.0.1",
            port=port,
            log_level="warning",
            lifespan="off",
        )
    )
    print(
        json.dumps({"url": f"http://127.0.0.1:{port}", "cases": len(known)}), flush=True
    )
    await server.serve()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="conformance.host.serve")
    parser.add_argument("--reasoning", choices=("qwen3", "none"), default="qwen3")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--case", action="append", default=[])
    options = parser.parse_args()
    asyncio.run(serve(options.reasoning, options.port, options.case))


if __name__ == "__main__":
    main()
