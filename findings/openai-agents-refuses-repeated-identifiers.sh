#!/usr/bin/env bash
# openai-agents 0.24.0: a server that numbers the calls of each reply anew (call_0,
# call_1) ends the run at the second reply that calls a tool. The identifier was
# answered in the history, and the chat API matches each result with the assistant
# message before it; other clients run both calls.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq openai-agents==0.24.0
expected='new identifiers: a, b, done
numbered in each reply: a, ModelBehaviorError'
seen=$(PYTHONPATH=$here timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from agents import set_tracing_disabled
from openai import AsyncOpenAI
from scripted_server import assistant, call, replies, requests, serve

ran = []


@function_tool
def write(path: str) -> str:
    """Write."""
    ran.append(path)
    return "ok"


async def ask(second):
    requests.clear()
    ran.clear()
    replies[:] = [
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
