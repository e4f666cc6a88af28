#!/usr/bin/env bash
# outlines_core 0.2.14, JSON Schema: the expression of a property without a type is an
# alternative that is not put in brackets, so it takes the object apart. What is admitted is
# the beginning of the object without its end, or a value alone; the object itself is not.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq outlines_core==0.2.14
expected='{"a": true} False
{"a": true True
null True
12 True
"x" True'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json
import string

from outlines_core import Guide, Index, Vocabulary, json_schema

END, tokens = 0, {character: ord(character) for character in string.printable}
vocabulary = Vocabulary(END, {text: [token] for text, token in tokens.items()})
schema = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
index = Index(json_schema.build_regex_from_schema(json.dumps(schema)), vocabulary)
for text in '{"a": true}', '{"a": true', "null", "12", '"x"':
    guide = Guide(index)
    admitted = guide.accepts_tokens([tokens[character] for character in text])
    for character in text if admitted else "":
        guide.advance(tokens[character])
    print(text, admitted and END in guide.get_tokens())
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: an object with a property without a type is never admitted whole"
