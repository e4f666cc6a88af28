#!/usr/bin/env bash
# aiosseclient 0.1.8 and aiohttp-sse-client 0.2.1 (aiohttp 3.14.5): a line of more than
# 524 288 bytes raises LineTooLong and ends the stream. SSE knows no longest line, and a
# server that sends a call whole writes it on one. httpx-sse 0.4.3 reads it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq aiohttp==3.14.5 aiohttp-sse-client==0.2.1 aiosseclient==0.1.8 \
    httpx-sse==0.4.3 httpx==0.28.1
expected='aiosseclient: 500000 LineTooLong
aiohttp-sse-client: 500000 LineTooLong
httpx-sse: 500000 600000'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import http.server
import threading

import aiosseclient
import httpx
import httpx_sse
from aiohttp_sse_client.client import EventSource


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"data: " + b"x" * int(self.path[1:]) + b"\n\n")

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()


async def aiosse(url):
    async for event in aiosseclient.aiosseclient(url):
        return event


async def aiohttp_sse(url):
    async with EventSource(url) as source:
        async for event in source:
            return event


async def httpx_events(url):
    async with httpx.AsyncClient() as client:
        async with httpx_sse.aconnect_sse(client, "GET", url) as source:
            async for event in source.aiter_sse():
                return event


READERS = {
    "aiosseclient": aiosse,
    "aiohttp-sse-client": aiohttp_sse,
    "httpx-sse": httpx_events,
}
for name, read in READERS.items():
    answers = []
    for length in 500_000, 600_000:
        try:
            event = asyncio.run(read(f"http://127.0.0.1:{server.server_port}/{length}"))
            answers.append(len(event.data))
        except Exception as error:
            answers.append(type(error).__name__)
    print(f"{name}:", *answers)
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a line of more than 524288 bytes ends the stream"
