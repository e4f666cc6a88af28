#!/usr/bin/env bash
# semantic-kernel 1.45.0: what the model wrote beside a call is not in the next request;
# its assistant message holds the call alone. The model no longer knows what it said,
# and the prompt differs from what the server computed. Beside no call the text stays.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq semantic-kernel==1.45.0
expected='with a call: no content
without: content "I know."'
seen=$(PYTHONPATH=$here timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import json

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function
from scripted_server import assistant, call, replies, requests, serve


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
