#!/usr/bin/env bash
# @huggingface/jinja 0.5.11 (transformers.js), with the line of Qwen3-Coder's chat template
# that writes an argument of an earlier call: null is an error, so a conversation with such a
# call cannot go on, and true is written otherwise than by Jinja 3.1.6 (transformers, vLLM).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq jinja2==3.1.6
npm install --silent --no-audit --no-fund --ignore-scripts \
    @huggingface/jinja@0.5.11
cat >arguments.json <<'JSON'
["text", [null, true], null, true, 12]
JSON
cat >template.txt <<'JINJA'
{{- value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string }}
JINJA
expected='Jinja: text [null, true] None True 12
@huggingface/jinja: text [null, true] (Cannot apply filter "string" to type: NullValue) true 12'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

template = ImmutableSandboxedEnvironment().from_string(Path("template.txt").read_text())
values = json.loads(Path("arguments.json").read_text())
print("Jinja:", *(template.render(value=value) for value in values))
PY
    cat >main.mjs <<'JS'
import { readFileSync } from 'node:fs';
import { Template } from '@huggingface/jinja';

const template = new Template(readFileSync('template.txt', 'utf8'));
const render = (value) => {
  try {
    return template.render({ value }).trim();
  } catch (error) {
    return `(${error.message})`;
  }
};
const values = JSON.parse(readFileSync('arguments.json', 'utf8'));
console.log('@huggingface/jinja:', ...values.map(render));
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: null is an error, and true is written otherwise"
