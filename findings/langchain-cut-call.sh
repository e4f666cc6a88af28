#!/usr/bin/env bash
# langchain-core 1.7.7 closes the arguments of a call that the server cut.
# A stream ends with finish_reason "length" inside the string "half...". The message lists
# the call under tool_calls, as if its text ended there, and nothing under
# invalid_tool_calls: who runs tool_calls without a look at finish_reason writes half a file.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq langchain-core==1.7.7
expected='[{"path": "a.txt", "text": "half"}] invalid: 0'
seen=$(timeout 120 venv/bin/python - <<'PY'
import json

from langchain_core.messages import AIMessageChunk, message_chunk_to_message


def chunk(arguments, name=None):
    call = {"name": name, "args": arguments, "id": name and "call_0", "index": 0}
    return AIMessageChunk(content="", tool_call_chunks=[call])


end = AIMessageChunk(
    content="",
    response_metadata={"finish_reason": "length"},
    chunk_position="last",
)
pieces = chunk("", "write") + chunk('{"path": "a.txt", ') + chunk('"text": "half') + end
message = message_chunk_to_message(pieces)
arguments = json.dumps([call["args"] for call in message.tool_calls])
print(arguments, "invalid:", len(message.invalid_tool_calls))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a cut call is listed as a whole one"
