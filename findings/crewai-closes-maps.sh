#!/usr/bin/env bash
# crewai 1.15.30 sends each tool as strict, and a parameter that is a map (dict[str,
# str], say of environment variables) as an object without properties that admits no
# others. A server that holds strict tools to their schemas lets the model write {}
# alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq crewai==1.15.30
expected='strict: True
env: {"additionalProperties": false, "type": "object", "properties": {}, "required": []}
pydantic: {"additionalProperties": {"type": "string"}, "title": "Env", "type": "object"}'
seen=$(PYTHONPATH=$here timeout 200 venv/bin/python - >log 2>&1 <<'PY'
import json
import os

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from crewai import LLM, Agent
from crewai.tools import tool
from scripted_server import assistant, replies, requests, serve


@tool
def run(command: str, env: dict[str, str]) -> str:
    """Run a command."""
    return "ok"


replies.append(assistant("done"))
model = LLM(model="hosted_vllm/m", base_url=serve(), api_key="x")
Agent(role="r", goal="g", backstory="b", tools=[run], llm=model).kickoff("go")
function = requests[0]["tools"][0]["function"]
seen = [
    f"strict: {function['strict']}",
    f"env: {json.dumps(function['parameters']['properties']['env'])}",
]
declared = run.args_schema.model_json_schema()["properties"]["env"]
seen.append(f"pydantic: {json.dumps(declared)}")
with open("seen", "w") as file:
    file.write("\n".join(seen))
PY
    cat seen
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a map may only be empty"
