#!/usr/bin/env bash
# smolagents 1.26.0: of two parallel calls one runs and the other fails. The model is
# shown the error, and neither the calls nor the result of the one that ran, so it
# writes the file again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq "smolagents[openai]==1.26.0"
expected='ran: a
shown to the model: error of b: True, call of a: False, result of a: False'
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
    PYTHONPATH=$here timeout 200 venv/bin/python main.py 2>/dev/null | tail -n 2
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a call that ran beside a failed one is forgotten"
