#!/usr/bin/env bash
# agno 3.1.10 turns a string of the arguments that reads true, false, null or none, in
# any case and with white space around it, into a boolean or null, whatever the tool
# declares. A parameter that is a string then refuses the call, so the model cannot
# write a file that holds the word; one that may be null gets null in place of the text.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq agno==3.1.10 openai
expected='str, "true": refused
str, " None\n": refused
str, "yes": '\''yes'\''
str or null, "null": None'
seen=$(PYTHONPATH=$here timeout 200 venv/bin/python - >log 2>&1 <<'PY'
import json
import os

os.environ["AGNO_TELEMETRY"] = "false"
from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from scripted_server import assistant, call, replies, requests, serve

ran = []


def write(text: str) -> str:
    """Write."""
    ran.append(text)
    return "ok"


def note(text: str | None) -> str:
    """Note."""
    ran.append(text)
    return "ok"


def ask(name, text):
    requests.clear()
    ran.clear()
    replies[:] = [assistant(None, call("call_a", name, {"text": text})), assistant("done")]
    model = OpenAILike(id="m", base_url=url, api_key="x")
    Agent(model=model, tools=[write, note], telemetry=False).run("go")
    return repr(ran[0]) if ran else "refused"


url = serve()
seen = []
for text in ["true", " None\n", "yes"]:
    seen.append(f"str, {json.dumps(text)}: {ask('write', text)}")
seen.append('str or null, "null": ' + ask("note", "null"))
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
echo "verdict: a string that reads true or null is no string"
