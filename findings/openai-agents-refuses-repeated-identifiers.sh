#!/usr/bin/env bash
# openai-agents 0.24.0: a server that numbers the calls of each reply anew (call_0,
# call_1) ends the run at the second reply that calls a tool. The identifier was
# answered in the history, and the chat API matches each result with the assistant
# message before it; other clients run both calls.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq openai-agents==0.24.0
expected='new identifiers: a, b, done
numbered in each reply: a, ModelBehaviorError'
seen=$(timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import http.server
import json
import threading

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from agents import set_tracing_disabled
from openai import AsyncOpenAI

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


@function_tool
def write(path: str) -> str:
    """Write."""
    ran.append(path)
    return "ok"


async def ask(second):
    global replies
    requests.clear()
    ran.clear()
    replies = [
        assistant(None, call("call_0", "write", {"path": "a"})),
        assistant(None, call(second, "write", {"path": "b"})),
        assistant("done"),
    ]
    client = AsyncOpenAI(base_url=url, api_key="x")
    model = OpenAIChatCompletionsModel("m", client)
    try:
        result = await Runner.run(Agent(name="a", model=model, tools=[write]), "go")
        end = result.final_output
    except Exception as error:
        end = type(error).__name__
    return ", ".join([*ran, end])


set_tracing_disabled(True)
url = serve()
print("new identifiers:", asyncio.run(ask("call_1")))
print("numbered in each reply:", asyncio.run(ask("call_0")))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: an identifier that comes again in a later reply ends the run"
