#!/usr/bin/env bash
# openai-agents 0.24.0 (Python) and @openai/agents-core 0.20.0, apply_diff: a file that the
# model creates has no line end behind its last line, however its diff ends. Where one line
# of a file ends in CRLF, an edit of another line gives every line CRLF in Python, so that git
# shows each as changed; in JavaScript the others stay as they are.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq openai-agents==0.24.0
npm install --silent --no-audit --no-fund --ignore-scripts @openai/agents-core@0.20.0
expected='Python: "a\nb" "a\nb" "1\r\n2\r\nthree\r\n"
JavaScript: "a\nb" "a\nb" "1\n2\r\nthree\n"'
cat >cases.json <<'JSON'
[["", "+a\n+b", "create"],
 ["", "+a\n+b\n", "create"],
 ["1\n2\r\n3\n", "@@\n 2\n-3\n+three\n", "default"]]
JSON
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json
from pathlib import Path

from agents import apply_diff

cases = json.loads(Path("cases.json").read_text())
print("Python:", *(json.dumps(apply_diff(*case)) for case in cases))
PY
    cat >main.mjs <<'JS'
import { readFileSync } from 'node:fs';
import { applyDiff } from '@openai/agents-core';

const cases = JSON.parse(readFileSync('cases.json', 'utf8'));
console.log('JavaScript:', ...cases.map((one) => JSON.stringify(applyDiff(...one))));
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: line ends that the diff does not touch are changed or missing"
