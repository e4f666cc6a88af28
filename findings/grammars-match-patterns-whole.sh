#!/usr/bin/env bash
# JSON Schema's pattern may match any part of a string. xgrammar 0.2.8 and lm-format-enforcer
# 0.11.3 take it for the whole string, so "^https?://" admits no address but "https://" itself.
# outlines_core 0.2.14 admits nothing at all if ^ or $ stands alone. llguidance 1.7.6 is right.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq lm-format-enforcer==0.11.3
venv/bin/pip install -qq --no-deps apache-tvm-ffi==0.1.15.post2 typing-extensions==4.16.0 \
    xgrammar==0.2.8 llguidance==1.7.6 outlines_core==0.2.14
expected='xgrammar: False True False
enforcer: False True False
outlines: False False False
guidance: True True False'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json
import re
import sys
import types
from pathlib import Path

import llguidance
from lmformatenforcer import JsonSchemaParser
from outlines_core import json_schema

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


def outlines(schema, text):
    pattern = json_schema.build_regex_from_schema(json.dumps(schema))
    return bool(re.fullmatch(pattern, text))


def guidance(schema, text):
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), grammar)
    return bool(matcher.consume_tokens([*text.encode()]) and matcher.is_accepting())


def enforcer(schema, text):
    parser = JsonSchemaParser(schema)
    for character in text:
        if character not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(character)
    return parser.can_end()


ENGINES = {
    "xgrammar": accepts,
    "enforcer": enforcer,
    "outlines": outlines,
    "guidance": guidance,
}
schema = {"type": "string", "pattern": "^https?://"}
for name, admits in ENGINES.items():
    texts = '"https://a.example/b"', '"https://"', '"ftp://a.example"'
    print(f"{name}:", *(admits(schema, text) for text in texts))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a pattern that is not anchored at both ends refuses what it means"
