#!/usr/bin/env bash
# agno 3.1.10 turns a string of the arguments that reads true, false, null or none, in
# any case and with white space around it, into a boolean or null, whatever the tool
# declares. A parameter that is a string then refuses the call, so the model cannot
# write a file that holds the word; one that may be null gets null in place of the text.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq agno==3.1.10 openai
expected='str, "true": refused
str, " None\n": refused
str, "yes": '\''yes'\''
str or null, "null": None'
seen=$(timeout 200 venv/bin/python - >log 2>&1 <<'PY'
import http.server
import json
import os
import threading

os.environ["AGNO_TELEMETRY"] = "false"
from agno.agent import Agent
from agno.models.openai.like import OpenAILike

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


def write(text: str) -> str:
    """Write."""
    ran.append(text)
    return "ok"


def note(text: str | None) -> str:
    """Note."""
    ran.append(text)
    return "ok"


def ask(name, text):
    global replies
    requests.clear()
    ran.clear()
    replies = [assistant(None, call("call_a", name, {"text": text})), assistant("done")]
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
