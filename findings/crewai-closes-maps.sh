#!/usr/bin/env bash
# crewai 1.15.30 sends each tool as strict, and a parameter that is a map (dict[str,
# str], say of environment variables) as an object without properties that admits no
# others. A server that holds strict tools to their schemas lets the model write {}
# alone.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq crewai==1.15.30
expected='strict: True
env: {"additionalProperties": false, "type": "object", "properties": {}, "required": []}
pydantic: {"additionalProperties": {"type": "string"}, "title": "Env", "type": "object"}'
seen=$(timeout 200 venv/bin/python - >log 2>&1 <<'PY'
import http.server
import json
import os
import threading

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from crewai import LLM, Agent
from crewai.tools import tool

requests, replies = [], []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        requests.append(json.loads(self.rfile.read(length)))
        message = replies[min(len(requests), len(replies)) - 1]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
        body = json.dumps({**body, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def assistant(content):
    return {"role": "assistant", "content": content}


@tool
def run(command: str, env: dict[str, str]) -> str:
    """Run a command."""
    return "ok"


replies.append(assistant("done"))
model = LLM(model="hosted_vllm/m", base_url=serve(), api_key="x")
Agent(role="r", goal="g", backstory="b", tools=[run], llm=model).kickoff("go")
function = requests[0]["tools"][0]["function"]
seen = [
    f"strict: {function['strict']}",
    f"env: {json.dumps(function['parameters']['properties']['env'])}",
]
declared = run.args_schema.model_json_schema()["properties"]["env"]
seen.append(f"pydantic: {json.dumps(declared)}")
with open("seen", "w") as file:
    file.write("\n".join(seen))
PY
    cat seen
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a map may only be empty"
