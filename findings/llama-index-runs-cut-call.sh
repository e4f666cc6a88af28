#!/usr/bin/env bash
# llama-index-llms-openai 0.8.3 (llama-index-core 0.14.25): an agent runs a call that the
# server cut, without the unfinished string, so an optional text is None. And it parses all
# arguments so far again at each delta: a call of 400 characters (100 deltas) is parsed as
# 21 000 characters, one of 800 as 82 000: four times the work for twice the call.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq llama-index-llms-openai==0.8.3 llama-index-core==0.14.25 \
    openai==2.54.0
expected='cut call ran with: [("a.txt", None)]
100 deltas: 102 parses, 21000 characters
200 deltas: 202 parses, 82000 characters'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
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


import llama_index.llms.openai.base as base
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from openai._base_client import httpx

CUT = body(
    [
        {"role": "assistant", "content": ""},
        {"tool_calls": [call(0, "", name="write")]},
        {"tool_calls": [call(0, '{"path": "a.txt", ')]},
        {"tool_calls": [call(0, '"text": "half')]},
    ],
    "length",
)
DONE = body([{"role": "assistant", "content": "done"}], "stop")
parse = base.parse_partial_json


async def run(first):
    answers, ran, lengths = [first, DONE], [], []

    def answer(request):
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=answers.pop(0).encode())

    def count(text):
        lengths.append(len(text))
        return parse(text)

    def write(path: str = None, text: str = None):
        """Write."""
        ran.append((path, text and len(text)))
        return "ok"

    base.parse_partial_json = count
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    llm = base.OpenAI(
        model="gpt-4o",
        api_key="x",
        api_base="http://127.0.0.1:9/v1",
        async_http_client=client,
    )
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(write)], llm=llm)
    await agent.run("x")
    return ran, len(lengths), sum(lengths)


def whole(deltas):
    text = json.dumps({"path": "a.txt", "text": "x" * (4 * deltas - 29)})
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    begin = {"tool_calls": [call(0, "", name="write")]}
    rest = [{"tool_calls": [call(0, piece)]} for piece in pieces]
    return body([begin, *rest], "tool_calls")


print("cut call ran with:", str(asyncio.run(run(CUT))[0]).replace("'", '"'))
for deltas in (100, 200):
    _, times, characters = asyncio.run(run(whole(deltas)))
    print(f"{deltas} deltas: {times} parses, {characters} characters")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a cut call runs, and every delta is parsed from the start"
