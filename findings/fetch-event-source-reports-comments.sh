#!/usr/bin/env bash
# @microsoft/fetch-event-source 2.0.1: an SSE comment, which servers send to keep a stream
# alive (vLLM's --sse-keep-alive-interval), calls onmessage with empty data, so a client that
# parses each message as JSON fails while a model thinks. A retry field does the same. By the
# standard an event without data is none; eventsource-parser 4.1.3 reports none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts \
    @microsoft/fetch-event-source@2.0.1 eventsource-parser@4.1.3
expected='fetch-event-source: ["","{\"n\":1}","","{\"n\":2}"]
eventsource-parser: ["{\"n\":1}","{\"n\":2}"]'
seen=$(cat >main.mjs <<'JS'
import http from 'node:http';
import { fetchEventSource } from '@microsoft/fetch-event-source';
import { EventSourceParserStream } from 'eventsource-parser/stream';

const body = ': keep-alive\n\ndata: {"n":1}\n\n: keep-alive\n\ndata: {"n":2}\n\n';
const server = http.createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.end(body);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/`;
globalThis.window = globalThis;  // the library is for browsers
globalThis.document = { addEventListener() {}, removeEventListener() {} };
const messages = [];
await fetchEventSource(url, {
  openWhenHidden: true,
  onmessage: ({ data }) => messages.push(data),
  onerror: (error) => { throw error; },
});
console.log('fetch-event-source:', JSON.stringify(messages));
const events = (await fetch(url)).body.pipeThrough(new TextDecoderStream())
  .pipeThrough(new EventSourceParserStream());
const parsed = [];
for await (const { data } of events) parsed.push(data);
console.log('eventsource-parser:', JSON.stringify(parsed));
server.close();
server.closeAllConnections();
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: each comment arrives as an empty message"
