#!/usr/bin/env bash
# litellm 1.110.2, /v1/messages over an OpenAI server: the pieces of two calls that arrive
# in turn (index 0, 1, 0, 1, as the index of each delta allows) are put together by arrival.
# The first call ends at its first piece, and the second gets the rest of both. A server
# that finishes one call before it begins the next is read rightly.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq litellm==1.110.2
expected='in turn: call_0 {"path":  | call_1 {"path": "a"}"b"}
one by one: call_0 {"path": "a"} | call_1 {"path": "b"}'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import http.server
import os
import threading
import json


def body(deltas, finish_reason):
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish_reason})
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [json.dumps({**head, "choices": [choice]}) for choice in choices]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


def call(index, arguments, **name):
    function = {"arguments": arguments}
    if not name:
        return {"index": index, "function": function}
    function["name"] = name["name"]
    return {"index": index, "id": f"call_{index}", "type": "function", "function": function}


os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

begin = [call(0, '{"path": ', name="f"), call(1, '{"path": ', name="f")]
end = [call(0, '"a"}'), call(1, '"b"}')]
ORDERS = {
    "in turn": [*begin, *end],
    "one by one": [begin[0], end[0], begin[1], end[1]],
}


async def ask(order):
    content = body([{"tool_calls": [piece]} for piece in order], "tool_calls").encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stream = await litellm.anthropic.messages.acreate(
        model="hosted_vllm/m",
        api_base=f"http://127.0.0.1:{server.server_port}/v1",
        api_key="x",
        max_tokens=50,
        messages=[{"role": "user", "content": "x"}],
        tools=[{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
        stream=True,
    )
    calls = {}
    lines = [line async for event in stream for line in event.decode().splitlines()]
    server.shutdown()
    for line in lines:
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        if event["type"] == "content_block_start":
            calls[event["index"]] = event["content_block"].get("id", "text") + " "
        if event["type"] == "content_block_delta":
            calls[event["index"]] += event["delta"]["partial_json"]
    return " | ".join(calls.values())


for name, order in ORDERS.items():
    print(f"{name}: {asyncio.run(ask(order))}")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: pieces of two calls are mixed"
