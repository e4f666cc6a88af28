#!/usr/bin/env bash
# xgrammar 0.2.8, JSON Schema: a list or an object of which nothing more is said may hold
# anything; a further keyword makes it an empty one. With maxItems 2 no list but [] is
# admitted, with minItems 1 the schema is an error, and an object that requires a key may not
# have it. By JSON Schema each of the values asked for here is valid.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-deps apache-tvm-ffi==0.1.15.post2 typing-extensions==4.16.0 \
    xgrammar==0.2.8
expected='list: [1] True
list, maxItems 2: [1] False, [] True
list, minItems 1: error
object: {"q": 1} True
object, required q: {"q": 1} False, {} True
object with property a, required a and q: {"a": 1, "q": 1} False, {"a": 1} True'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json
import sys
import types
from pathlib import Path

# The whole package imports torch and transformers, which no grammar of a text needs.
package = types.ModuleType("xgrammar")
package.__path__ = [str(*Path("venv").glob("lib/*/site-packages/xgrammar"))]
sys.modules["xgrammar"] = package
import xgrammar.load_binding
from xgrammar.base import _core

tokens = _core.TokenizerInfo([], 0, None, None, False)
compiler = _core.GrammarCompiler(tokens, 1, False, -1)


def accepts(schema, text):
    options = True, None, None, True, None, False  # as GrammarCompiler's are by itself
    grammar = compiler.compile_json_schema(json.dumps(schema), *options)
    matcher = _core.GrammarMatcher(grammar, None, True, -1, None)
    return bool(matcher.accept_string(text, False) and matcher.is_terminated())


def show(name, schema, *texts):
    try:
        answers = [f"{text} {accepts(schema, text)}" for text in texts]
    except Exception as error:
        assert "additional items are not allowed" in str(error)
        answers = ["error"]
    print(f"{name}:", ", ".join(answers))


show("list", {"type": "array"}, "[1]")
show("list, maxItems 2", {"type": "array", "maxItems": 2}, "[1]", "[]")
show("list, minItems 1", {"type": "array", "minItems": 1}, "[1]")
show("object", {"type": "object"}, '{"q": 1}')
show("object, required q", {"type": "object", "required": ["q"]}, '{"q": 1}', "{}")
schema = {"type": "object", "properties": {"a": {}}, "required": ["a", "q"]}
name = "object with property a, required a and q"
show(name, schema, '{"a": 1, "q": 1}', '{"a": 1}')
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a keyword makes an open list or object an empty one"
