#!/usr/bin/env bash
# parse-sse 0.1.0 (npm) and requests-sse 0.5.3 (PyPI): where a stream with CRLF line ends
# arrives cut between CR and LF, the LF is taken for an empty line, and one event with two
# lines of data becomes two. Whole, the same stream is read rightly.
# eventsource-parser 4.1.3 and httpx-sse 0.4.3 wait for the LF.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq httpx-sse==0.4.3 httpx==0.28.1 requests-sse==0.5.3
npm install --silent --no-audit --no-fund --ignore-scripts \
    parse-sse@0.1.0 eventsource-parser@4.1.3
expected='parse-sse: whole ["a\nb"] cut ["a","b"]
eventsource-parser: whole ["a\nb"] cut ["a\nb"]
requests-sse: whole ["a\nb"] cut ["a", "b"]
httpx-sse: whole ["a\nb"] cut ["a\nb"]'
seen=$(cat >main.mjs <<'JS'
import { parseServerSentEvents } from 'parse-sse';
import { EventSourceParserStream } from 'eventsource-parser/stream';

const STREAMS = {
  whole: ['data: a\r\ndata: b\r\n\r\n'],
  cut: ['data: a\r', '\ndata: b\r\n\r\n'],
};
const response = (parts) => new Response(new ReadableStream({
  start(controller) {
    for (const part of parts) controller.enqueue(new TextEncoder().encode(part));
    controller.close();
  },
}), { headers: { 'content-type': 'text/event-stream' } });
const READERS = {
  'parse-sse': (parts) => parseServerSentEvents(response(parts)),
  'eventsource-parser': (parts) => response(parts).body
    .pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()),
};
for (const [name, read] of Object.entries(READERS)) {
  const answers = [];
  for (const [kind, parts] of Object.entries(STREAMS)) {
    const list = [];
    for await (const { data } of read(parts)) list.push(data);
    answers.push(`${kind} ${JSON.stringify(list)}`);
  }
  console.log(`${name}: ${answers.join(' ')}`);
}
JS
    timeout 120 node main.mjs 2>/dev/null
    timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import http.server
import json
import threading
import time

import httpx
import httpx_sse
import requests_sse

STREAMS = {
    "whole": [b"data: a\r\ndata: b\r\n\r\n"],
    "cut": [b"data: a\r", b"\ndata: b\r\n\r\n"],
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in [*STREAMS[self.path[1:]], b""]:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
            time.sleep(1)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"


def read_requests(kind):
    data = []
    with requests_sse.EventSource(url + kind, max_connect_retry=0) as source:
        for event in source:
            data.append(event.data)
            if event.data.endswith("b"):  # it would connect again
                return data


def read_httpx(kind):
    with httpx.Client() as client:
        with httpx_sse.connect_sse(client, "GET", url + kind) as source:
            return [event.data for event in source.iter_sse()]


for name, read in ("requests-sse", read_requests), ("httpx-sse", read_httpx):
    print(f"{name}:", *(f"{kind} {json.dumps(read(kind))}" for kind in STREAMS))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: an event is split where a line end is cut"
