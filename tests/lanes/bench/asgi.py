# SPDX-License-Identifier: Apache-2.0
"""Posts a JSON body to an ASGI application in this process, without sockets, and
collects the response.
"""

import asyncio
import json
from typing import Any


async def post(
    app: Any,
    path: str,
    body: dict[str, Any],
    *,
    turns: bool,
) -> tuple[int, bytes]:
    """(status, response body); raises what the application raises.

    With ``turns`` other tasks run after each piece of the response.
    """
    payload, parts, status, sent = json.dumps(body).encode(), [], [0], [False]
    closed = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not sent[0]:
            sent[0] = True
            return {"type": "http.request", "body": payload, "more_body": False}
        await closed.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status[0] = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                closed.set()
        if turns:
            await asyncio.sleep(0)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(payload)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    await app(scope, receive, send)
    return status[0], b"".join(parts)
