#!/usr/bin/env bash
# mcp 2.3.0 (MCPServer): a text for a parameter that is not declared as a plain str is read as
# JSON first. For "str | None", the tool gets None for the text "null", and a call that writes
# a JSON file is refused, for its text is an object by then. fastmcp 4.2.3 hands over the text.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq mcp==2.3.0 fastmcp==4.2.3
expected='mcp, str | None: "null" -> None, "{\"a\": 1}" -> refused, "[]" -> refused, "12" -> "12"
mcp, list[str] | str: "null" -> refused, "{\"a\": 1}" -> refused, "[]" -> [], "12" -> "12"
fastmcp, str | None: "null" -> "null", "{\"a\": 1}" -> "{\"a\": 1}", "[]" -> "[]", "12" -> "12"'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import json

from fastmcp import FastMCP
from mcp.server.mcpserver import MCPServer

got = []


def write(text: str | None = None) -> str:
    got.append(text)
    return "ok"


def lines(text: list[str] | str) -> str:
    got.append(text)
    return "ok"


async def ask(server, function):
    server.tool()(function)
    seen = []
    for text in ("null", '{"a": 1}', "[]", "12"):
        got.clear()
        try:
            await server.call_tool(function.__name__, {"text": text})
        except Exception:
            pass
        value = "refused"
        if got:
            value = json.dumps(got[0]) if got[0] is not None else "None"
        seen.append(f"{json.dumps(text)} -> {value}")
    return ", ".join(seen)


print("mcp, str | None:", asyncio.run(ask(MCPServer("s"), write)))
print("mcp, list[str] | str:", asyncio.run(ask(MCPServer("s"), lines)))
print("fastmcp, str | None:", asyncio.run(ask(FastMCP("s"), write)))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: text that is JSON is refused, or becomes another value"
