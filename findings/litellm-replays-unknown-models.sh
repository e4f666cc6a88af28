#!/usr/bin/env bash
# litellm 1.110.2, Responses API with stream: for a model that its price list does not
# know, as the Qwen models of one's own server, it asks the server without stream, waits
# for the whole answer and replays it in pieces of five characters. Nothing arrives
# meanwhile, so that timeouts of idle connections end long answers. A model of its list
# is streamed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq litellm==1.110.2
expected='hosted_vllm/Qwen/Qwen3.5-9B: stream False, replayed: "Let m", "e loo", "k."
openai/Qwen/Qwen3.5-9B: stream False, replayed: "Let m", "e loo", "k."
openai/gpt-5: stream True'
seen=$(timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import http.server
import json
import os
import threading

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

requests = []
text = {"type": "output_text", "text": "Let me look.", "annotations": []}
message = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
answer = {
    "id": "r1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [{**message, "content": [text]}],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        stream = json.loads(self.rfile.read(length)).get("stream", False)
        requests.append(bool(stream))
        event = {"type": "response.completed", "sequence_number": 0, "response": answer}
        body = f"data: {json.dumps(event)}\n\n" if stream else json.dumps(answer)
        kind = "text/event-stream" if stream else "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass


async def ask(model):
    requests.clear()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    events = await litellm.aresponses(
        model=model, api_base=url, api_key="x", input="go", stream=True
    )
    pieces = [event.delta async for event in events if hasattr(event, "delta")]
    line = f"{model}: stream {requests[0]}"
    print(line + (f", replayed: {json.dumps(pieces)[1:-1]}" if pieces else ""))


async def main():
    for model in ["hosted_vllm/Qwen/Qwen3.5-9B", "openai/Qwen/Qwen3.5-9B", "openai/gpt-5"]:
        await ask(model)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
asyncio.run(main())
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a stream of an unknown model is no stream"
