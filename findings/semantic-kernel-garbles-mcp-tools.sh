#!/usr/bin/env bash
# semantic-kernel 1.45.0 with mcp 1.30.0: $defs of an MCP tool is left out of the
# request, so its $ref points at nothing: the model is not told what the parameter
# holds, and a server that makes a grammar of the schema refuses the request. The result
# reaches the model as Python's repr of a list of objects, in place of its text.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq "semantic-kernel[mcp]==1.45.0" mcp==1.30.0
cat >mcp_server.py <<'PY'
import json
import sys

TOOL = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    result = {}
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "s", "version": "1"}
    if method == "tools/list":
        result = {"tools": [TOOL]}
    if method == "tools/call":
        result = {"content": [{"type": "text", "text": "It\u0027s 5 lines."}]}
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        print(json.dumps(reply), flush=True)
PY
# shellcheck disable=SC2016
expected='$ref: #/$defs/Place, $defs: missing
result: [TextContent(inner_content=TextContent(type='\''text'\'', text="It'\''s 5 lines.", ...'
seen=$(PYTHONPATH=$here timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import json
import sys

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStdioPlugin
from scripted_server import assistant, call, replies, requests, serve


async def main():
    place = {"type": "object", "properties": {"line": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}}}
    schema = {**schema, "required": ["at"], "$defs": {"Place": place}}
    tool = json.dumps({"name": "count", "description": "x", "inputSchema": schema})
    client = AsyncOpenAI(base_url=serve(), api_key="x")
    service = OpenAIChatCompletion(ai_model_id="m", async_client=client)
    replies[:] = [
        assistant(None, call("call_a", "p-count", {"at": {"line": 1}})),
        assistant("done"),
    ]
    arguments = ["mcp_server.py", tool]
    async with MCPStdioPlugin("p", sys.executable, args=arguments) as plugin:
        agent = ChatCompletionAgent(service=service, plugins=[plugin], name="a")
        await agent.get_response(messages="go")
    parameters = requests[0]["tools"][0]["function"]["parameters"]
    reference = parameters["properties"]["at"]["$ref"]
    definitions = "there" if "$defs" in parameters else "missing"
    print(f"$ref: {reference}, $defs: {definitions}")
    result = [m for m in requests[1]["messages"] if m["role"] == "tool"][0]["content"]
    print("result:", result[:73], "...")


asyncio.run(main())
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: definitions are lost, and a result is shown as Python objects"
