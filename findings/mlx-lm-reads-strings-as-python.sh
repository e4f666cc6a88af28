#!/usr/bin/env bash
# mlx-lm 0.32.2, tool parser qwen3_coder: the value of a parameter that may be a string or
# null ({"type": ["string", "null"]}) is read as a Python literal: 12 becomes a number, 1_000
# loses its underscore, "a" its quotes. And null is None even where only a string is
# admitted. Only the parser's file is loaded, so no GPU and no MLX takes part.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-deps mlx-lm==0.32.2 regex==2026.11.19
expected='{"nullable": 12} {"nullable": 1000} {"nullable": "a"} {"plain": null}'
seen=$(timeout 120 venv/bin/python - <<'PY'
import importlib.util
import json
from pathlib import Path

[path] = Path("venv").glob("lib/*/site-packages/mlx_lm/tool_parsers/qwen3_coder.py")
spec = importlib.util.spec_from_file_location("qwen3_coder", path)
parser = importlib.util.module_from_spec(spec)
spec.loader.exec_module(parser)
properties = {"plain": {"type": "string"}, "nullable": {"type": ["string", "null"]}}
parameters = {"type": "object", "properties": properties}
tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
values = [("nullable", "12"), ("nullable", "1_000"), ("nullable", '"a"'), ("plain", "null")]
calls = []
for name, value in values:
    text = f"<function=f>\n<parameter={name}>\n{value}\n</parameter>\n</function>"
    calls.append(json.dumps(parser.parse_tool_call(text, tools)["arguments"]))
print(*calls)
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: strings are read as Python literals"
