#!/usr/bin/env bash
# smolagents 1.26.0 sends stop strings with native tools as well: "Observation:" and
# "Calling tools:". A server looks for them in all that the model writes, so a call
# whose argument holds one, as a report or a prompt of an agent may, is cut there, with
# finish_reason "stop". The agent's own history is text in this form, which invites the
# model to write it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq "smolagents[openai]==1.26.0"
expected='tools: write, final_answer
stop: ["Observation:", "Calling tools:"]
history: assistant, "I write.\nCalling tools:\n[{'\''id'\'': '\''call_", user, "Observation:\nwrote a"'
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
    assistant("I write.", call("call_0", "write", {"path": "a"})),
    assistant(None, call("call_2", "final_answer", {"answer": "done"})),
]
run()
names = [each["function"]["name"] for each in requests[0]["tools"]]
print("tools:", ", ".join(names))
print("stop:", json.dumps(requests[0]["stop"]))
call, result = requests[1]["messages"][-2:]
words = [json.dumps(each["content"][0]["text"][:38]) for each in (call, result)]
print(f"history: {call['role']}, {words[0]}, {result['role']}, {words[1]}")
PY
    timeout 200 venv/bin/python main.py 2>/dev/null | tail -n 3
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: arguments are searched for the words that the agent puts around results"
