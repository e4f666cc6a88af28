#!/usr/bin/env bash
# strands-agents 1.62.0 adds "type": "string" to a property of an MCP tool that has no
# type of its own: one that takes anything, and an enum or const of numbers, which no
# value then satisfies. A parser that goes by the schema, as those of Qwen's XML calls
# do, hands over the text "[1]" in place of a list.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq "strands-agents[openai]==1.62.0" mcp==1.30.0
cat >mcp_server.py <<'PY'
import json
import sys

TOOL = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    result = {}
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "s", "version": "1"}
    if method == "tools/list":
        result = {"tools": [TOOL]}
    if method == "tools/call":
        result = {"content": [{"type": "text", "text": "It\u0027s 5 lines."}]}
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        print(json.dumps(reply), flush=True)
PY
expected='any: {"description": "Anything.", "type": "string"}
level: {"enum": [1, 2], "description": "A level.", "type": "string"}
either: {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "A number."}'
seen=$(timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import http.server
import json
import sys
import threading

from mcp import StdioServerParameters, stdio_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

requests = []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        requests.append(json.loads(self.rfile.read(length)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        for delta, reason in [({"content": "done"}, None), ({}, "stop")]:
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            event = json.dumps({**head, "choices": [choice]})
            self.wfile.write(f"data: {event}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
properties = {
    "any": {"description": "Anything."},
    "level": {"enum": [1, 2], "description": "A level."},
    "either": {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "description": "A number.",
    },
}
schema = {"type": "object", "properties": properties}
tool = json.dumps({"name": "f", "description": "x", "inputSchema": schema})
start = StdioServerParameters(command=sys.executable, args=["mcp_server.py", tool])
url = f"http://127.0.0.1:{server.server_port}/v1"
with MCPClient(lambda: stdio_client(start)) as client:
    model = OpenAIModel(client_args={"base_url": url, "api_key": "x"}, model_id="m")
    Agent(model=model, tools=client.list_tools_sync(), callback_handler=None)("go")
sent = requests[0]["tools"][0]["function"]["parameters"]["properties"]
for name, value in sent.items():
    print(f"{name}: {json.dumps(value)}")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: what has no type is declared a string"
