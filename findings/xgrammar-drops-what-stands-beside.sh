#!/usr/bin/env bash
# xgrammar 0.2.8, JSON Schema: what stands beside anyOf, oneOf, an allOf of one member or $ref
# is dropped, and no error says so. Of an object that also has "one of these keys is required",
# the type and the properties count for nothing: 5 is admitted in its place.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-deps apache-tvm-ffi==0.1.15.post2 typing-extensions==4.16.0 \
    xgrammar==0.2.8
# shellcheck disable=SC2016
expected='alone: {"a": 1} True, {"a": "x"} False, 5 False
anyOf: {"a": 1} True, {"a": "x"} True, 5 True
oneOf: {"a": 1} True, {"a": "x"} True, 5 True
allOf: {"a": 1} True, {"a": "x"} True, 5 True
$ref: {"a": 1} True, {"a": "x"} True, 5 True'
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


required = {"required": ["a"]}
integer = {"type": "object", "properties": {"a": {"type": "integer"}}, **required}
for name, beside in [
    ("alone", {}),
    ("anyOf", {"anyOf": [required]}),
    ("oneOf", {"oneOf": [required]}),
    ("allOf", {"allOf": [required]}),
    ("$ref", {"$ref": "#/$defs/any", "$defs": {"any": {}}}),
]:
    texts = '{"a": 1}', '{"a": "x"}', "5"
    answers = [f"{text} {accepts({**integer, **beside}, text)}" for text in texts]
    print(f"{name}:", ", ".join(answers))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: what stands beside anyOf, oneOf, allOf or \$ref is dropped"
