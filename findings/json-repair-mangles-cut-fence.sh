#!/usr/bin/env bash
# json-repair 0.64.6: of a cut string that begins with a fence, as a written README may, the
# opening and the backslash behind it are lost, so that the line break becomes an "n". White
# space at the end of a cut string is lost too. What is valid, and a cut fence further down,
# stays as it is.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq json-repair==0.64.6
# shellcheck disable=SC2016
expected='{"text": "```json\n[1]\n```"} whole
{"text": "n[1]\n```"} cut
{"text": "# T\n```json\n[1]\n```"} cut further down
{"text": "  two"} cut behind a line break'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json

import json_repair

whole = json.dumps({"text": "```json\n[1]\n```"})
further = json.dumps({"text": "# T\n```json\n[1]\n```"})
lines = json.dumps({"text": "  two\n"})
print(json.dumps(json_repair.loads(whole)), "whole")
print(json.dumps(json_repair.loads(whole.removesuffix('"}'))), "cut")
print(json.dumps(json_repair.loads(further.removesuffix('"}'))), "cut further down")
print(json.dumps(json_repair.loads(lines.removesuffix('"}'))), "cut behind a line break")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: the opening of a fence and the line break behind it are lost"
