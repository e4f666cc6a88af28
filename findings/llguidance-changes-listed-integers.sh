#!/usr/bin/env bash
# llguidance 1.7.6, JSON Schema: an integer above 2**53 in enum, const or a bound is taken as
# a float. The listed number is refused, and another one is admitted in its place, so an
# identifier that a model may only copy arrives as that of something else.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq llguidance==1.7.6
expected='const: listed False, one less True
enum: listed False, one less True
minimum and maximum: listed False, one less True'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json

import llguidance


def admits(schema, text):
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), grammar)
    assert not matcher.get_error()
    return bool(matcher.consume_tokens([*text.encode()]) and matcher.is_accepting())


LISTED = 1310812345678901249
for name, schema in {
    "const": {"const": LISTED},
    "enum": {"enum": [LISTED]},
    "minimum and maximum": {"type": "integer", "minimum": LISTED, "maximum": LISTED},
}.items():
    answers = admits(schema, str(LISTED)), admits(schema, str(LISTED - 1))
    print("{}: listed {}, one less {}".format(name, *answers))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a listed integer above 2**53 is refused, another is admitted"
