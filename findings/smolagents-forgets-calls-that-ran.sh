#!/usr/bin/env bash
# smolagents 1.26.0: of two parallel calls one runs and the other fails. The model is
# shown the error, and neither the calls nor the result of the one that ran, so it
# writes the file again.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq "smolagents[openai]==1.26.0"
expected='ran: a
shown to the model: error of b: True, call of a: False, result of a: False'
seen=$(cat >main.py <<'PY'
import http.server
import json
import threading

from smolagents import OpenAIModel, ToolCallingAgent, tool

requests, ran = [], []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        requests.append(json.loads(self.rfile.read(length)))
        message = replies[min(len(requests), len(replies)) - 1]
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
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


def call(identifier, name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": identifier, "type": "function", "function": function}


def assistant(content, *calls):
    message = {"role": "assistant", "content": content}
    return {**message, "tool_calls": list(calls)} if calls else message


@tool
def write(path: str) -> str:
    """Write.

    Args:
        path: The file.
    """
    if path == "b":
        raise FileNotFoundError("no folder")
    ran.append(path)
    return f"wrote {path}"


def run():
    model = OpenAIModel(model_id="m", api_base=serve(), api_key="x")
    ToolCallingAgent(tools=[write], model=model, verbosity_level=0).run("go")


replies = [
    assistant(
        "I write both.",
        call("call_0", "write", {"path": "a"}),
        call("call_1", "write", {"path": "b"}),
    ),
    assistant(None, call("call_2", "final_answer", {"answer": "done"})),
]
run()
shown = json.dumps(requests[1]["messages"][1:])
print("ran:", ", ".join(ran))
print(
    f"shown to the model: error of b: {'no folder' in shown}, "
    f"call of a: {'call_0' in shown}, result of a: {'wrote a' in shown}"
)
PY
    timeout 200 venv/bin/python main.py 2>/dev/null | tail -n 2
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a call that ran beside a failed one is forgotten"
