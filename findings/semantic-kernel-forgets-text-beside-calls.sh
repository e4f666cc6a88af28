#!/usr/bin/env bash
# semantic-kernel 1.45.0: what the model wrote beside a call is not in the next request;
# its assistant message holds the call alone. The model no longer knows what it said,
# and the prompt differs from what the server computed. Beside no call the text stays.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq semantic-kernel==1.45.0
expected='with a call: no content
without: content "I know."'
seen=$(timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import http.server
import json
import threading

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

requests, replies = [], []
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


class Tools:
    @kernel_function
    def write(self, path: str) -> str:
        """Write."""
        return "ok"


def shown(request):
    message = [m for m in request["messages"] if m["role"] == "assistant"][0]
    content = message.get("content")
    return f"content {json.dumps(content)}" if content else "no content"


async def main():
    client = AsyncOpenAI(base_url=serve(), api_key="x")
    service = OpenAIChatCompletion(ai_model_id="m", async_client=client)
    agent = ChatCompletionAgent(service=service, plugins=[Tools()], name="a")
    replies[:] = [
        assistant("Let me look.", call("call_a", "Tools-write", {"path": "a"})),
        assistant("done"),
    ]
    await agent.get_response(messages="go")
    print("with a call:", shown(requests[1]))
    requests.clear()
    replies[:] = [assistant("I know."), assistant("done")]
    first = await agent.get_response(messages="go")
    await agent.get_response(messages="again", thread=first.thread)
    print("without:", shown(requests[1]))


asyncio.run(main())
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: the model is not shown what it wrote beside its call"
