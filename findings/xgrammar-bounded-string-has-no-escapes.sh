#!/usr/bin/env bash
# xgrammar 0.2.8, JSON Schema: a string with minLength or maxLength admits no escape, so a
# model can write no quote, no line break and no backslash in it, however long it may be.
# Without a length the same texts are admitted.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-deps apache-tvm-ffi==0.1.15.post2 typing-extensions==4.16.0 \
    xgrammar==0.2.8
expected='no length: True True True
minLength 1: True False False
maxLength 500: True False False'
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


for name, length in [
    ("no length", {}),
    ("minLength 1", {"minLength": 1}),
    ("maxLength 500", {"maxLength": 500}),
]:
    texts = '"plain"', r'"a\nb"', r'"say \"yes\""'
    print(f"{name}:", *(accepts({"type": "string", **length}, text) for text in texts))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a string with a length holds no quote and no line break"
