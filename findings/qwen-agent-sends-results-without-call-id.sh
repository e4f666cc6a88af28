#!/usr/bin/env bash
# qwen-agent 0.0.34 with use_raw_api: the message with a tool's result has "id" in place
# of "tool_call_id", which the chat API requires, so a server that checks its requests
# refuses the second one, and one that matches results by identifier finds none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq qwen-agent==0.0.34 soundfile tqdm python-dateutil
expected='call: call_a
result: content, extra, id, name, role; id call_a, tool_call_id None'
seen=$(timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import http.server
import json
import threading

from qwen_agent.agents import Assistant
from qwen_agent.tools.base import BaseTool, register_tool

requests = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        requests.append(json.loads(self.rfile.read(length)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        function = {"name": "count", "arguments": "{}"}
        call = {"index": 0, "id": "call_a", "type": "function", "function": function}
        delta = {"tool_calls": [call]} if len(requests) == 1 else {"content": "done"}
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        for delta, reason in [(delta, None), ({}, "stop")]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            event = json.dumps({**head, "choices": [choice]})
            self.wfile.write(f"data: {event}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args):
        pass


@register_tool("count")
class Count(BaseTool):
    description = "Count."
    parameters = {"type": "object", "properties": {}, "required": []}

    def call(self, params, **kwargs):
        return "5"


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
options = {"model": "m", "model_server": url, "api_key": "x"}
options["generate_cfg"] = {"use_raw_api": True}
agent = Assistant(llm=options, function_list=["count"])
for _ in agent.run([{"role": "user", "content": "go"}]):
    pass
call, result = requests[1]["messages"][-2:]
print("call:", call["tool_calls"][0]["id"])
names = ", ".join(sorted(result))
print(f"result: {names}; id {result.get('id')}, tool_call_id {result.get('tool_call_id')}")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a result does not say to which call it belongs"
