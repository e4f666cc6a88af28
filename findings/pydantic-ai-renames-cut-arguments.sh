#!/usr/bin/env bash
# pydantic-ai-slim 2.68.0 does not run a call that the server cut. It asks the model again
# before it raises IncompleteToolCall, and shows it the call with another key than it wrote:
# its text stands as the value of INVALID_JSON.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq "pydantic-ai-slim[openai]==2.68.0" openai==3.57.0 httpx2
expected='ran: 0, requests: 2, IncompleteToolCall, keys shown: INVALID_JSON'
seen=$(timeout 120 venv/bin/python - <<'PY'
import asyncio
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


import httpx2 as httpx
import openai
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

CUT = body(
    [
        {"role": "assistant", "content": ""},
        {"tool_calls": [call(0, "", name="write")]},
        {"tool_calls": [call(0, '{"path": "a.txt", ')]},
        {"tool_calls": [call(0, '"text": "half')]},
    ],
    "length",
)
requests, ran = [], []


def answer(request):
    requests.append(json.loads(request.content))
    headers = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, content=CUT.encode())


client = openai.AsyncOpenAI(
    api_key="x",
    base_url="http://127.0.0.1:9/v1",
    http_client=httpx.AsyncClient(transport=httpx.MockTransport(answer)),
)
agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))


@agent.tool_plain
def write(path: str = "", text: str = "") -> str:
    ran.append(path)
    return "ok"


async def main():
    try:
        async with agent.run_stream("x") as result:
            return await result.get_output()
    except Exception as error:
        return type(error).__name__


outcome = asyncio.run(main())
shown = json.loads(requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"])
print(f"ran: {len(ran)}, requests: {len(requests)}, {outcome}, keys shown: {','.join(shown)}")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: the model is asked again and shown another key"
