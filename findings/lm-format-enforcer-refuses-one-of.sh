#!/usr/bin/env bash
# lm-format-enforcer 0.11.3, JSON Schema: oneOf of a string and an integer, or of a string and
# null, admits no value. anyOf of the same does, and so does oneOf with an object.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq lm-format-enforcer==0.11.3
expected='oneOf string or integer: False
oneOf string or null: False
oneOf object or null: True
anyOf string or integer: True
anyOf string or null: True
anyOf object or null: True'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
from lmformatenforcer import JsonSchemaParser


def admits(schema, text):
    parser = JsonSchemaParser(schema)
    for character in text:
        if character not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(character)
    return parser.can_end()


string, integer, null = {"type": "string"}, {"type": "integer"}, {"type": "null"}
record = {"type": "object", "properties": {"k": integer}, "required": ["k"]}
for keyword in "oneOf", "anyOf":
    print(keyword, "string or integer:", admits({keyword: [string, integer]}, '"x"'))
    print(keyword, "string or null:", admits({keyword: [string, null]}, "null"))
    print(keyword, "object or null:", admits({keyword: [record, null]}, '{"k": 1}'))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: oneOf of plain values admits none of them"
