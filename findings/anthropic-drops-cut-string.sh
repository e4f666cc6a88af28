#!/usr/bin/env bash
# The stream helpers of @anthropic-ai/sdk 1.14.0 (npm) and anthropic 2.14.0 (PyPI) leave an
# unfinished string out of a cut call's input. Of {"path": "a.txt", "text": "half the final
# message keeps {"path": "a.txt"}: valid for a tool whose text is optional. Only stop_reason
# "max_tokens" tells.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq anthropic==2.14.0 httpx2
npm install --silent --no-audit --no-fund --ignore-scripts \
    @anthropic-ai/sdk@1.14.0
expected='PyPI {"path":"a.txt"} max_tokens
npm {"path":"a.txt"} max_tokens'
seen=$(cat >events.py <<'PY'
import json

usage = {"input_tokens": 10, "output_tokens": 1}
message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
block = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}
deltas = [
    {"type": "input_json_delta", "partial_json": part}
    for part in ('{"path": "a.txt", ', '"text": "half')
]
end = {"stop_reason": "max_tokens", "stop_sequence": None}
events = [
    {"type": "message_start", "message": message},
    {"type": "content_block_start", "index": 0, "content_block": block},
    *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}},
    {"type": "message_stop"},
]
with open("events.txt", "w") as file:
    for event in events:
        file.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")
PY
    venv/bin/python events.py
    timeout 60 venv/bin/python - <<'PY'
import json

import anthropic
import httpx2

with open("events.txt", "rb") as file:
    events = file.read()
headers = {"content-type": "text/event-stream"}
transport = httpx2.MockTransport(
    lambda request: httpx2.Response(200, headers=headers, content=events)
)
client = anthropic.Anthropic(
    api_key="x",
    base_url="http://127.0.0.1:9",
    http_client=httpx2.Client(transport=transport),
)
messages = [{"role": "user", "content": "x"}]
with client.messages.stream(model="m", max_tokens=20, messages=messages) as stream:
    final = stream.get_final_message()
call = json.dumps(final.content[0].input, separators=(",", ":"))
print("PyPI", call, final.stop_reason)
PY
    cat >main.mjs <<'JS'
import { readFileSync } from 'fs';
import Anthropic from '@anthropic-ai/sdk';

const events = readFileSync('events.txt');
const client = new Anthropic({ apiKey: 'x', baseURL: 'http://127.0.0.1:9',
  fetch: async () =>
    new Response(events, { headers: { 'content-type': 'text/event-stream' } }) });
const final = await client.messages.stream({ model: 'm', max_tokens: 20,
  messages: [{ role: 'user', content: 'x' }] }).finalMessage();
console.log('npm', JSON.stringify(final.content[0].input), final.stop_reason);
JS
    timeout 60 node main.mjs
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a cut string is left out of the input"
