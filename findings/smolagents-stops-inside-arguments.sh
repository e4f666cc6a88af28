#!/usr/bin/env bash
# smolagents 1.26.0 sends stop strings with native tools as well: "Observation:" and
# "Calling tools:". A server looks for them in all that the model writes, so a call
# whose argument holds one, as a report or a prompt of an agent may, is cut there, with
# finish_reason "stop". The agent's own history is text in this form, which invites the
# model to write it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq "smolagents[openai]==1.26.0"
expected='tools: write, final_answer
stop: ["Observation:", "Calling tools:"]
history: assistant, "I write.\nCalling tools:\n[{'\''id'\'': '\''call_", user, "Observation:\nwrote a"'
seen=$(cat >main.py <<'PY'
import json

from smolagents import OpenAIModel, ToolCallingAgent, tool
from scripted_server import assistant, call, replies, requests, serve

ran = []


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


replies[:] = [
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
    PYTHONPATH=$here timeout 200 venv/bin/python main.py 2>/dev/null | tail -n 3
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: arguments are searched for the words that the agent puts around results"
