#!/usr/bin/env bash
# xgrammar 0.2.8 and outlines_core 0.2.14, JSON Schema: a pattern is laid on the text of the
# JSON, not on the string that it stands for. If it asks for a backslash or a quote, what is
# admitted is no JSON, and the string that the pattern means is refused.
# llguidance 1.7.6 admits that string.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-deps apache-tvm-ffi==0.1.15.post2 typing-extensions==4.16.0 \
    xgrammar==0.2.8 llguidance==1.7.6 outlines_core==0.2.14
expected='xgrammar C:\\ab False
xgrammar C:\ab True, no JSON
xgrammar \"ab\" False
xgrammar "ab" True, no JSON
outlines C:\\ab False
outlines C:\ab True, no JSON
outlines \"ab\" False
outlines "ab" True, no JSON
guidance C:\\ab True
guidance C:\ab False
guidance \"ab\" True
guidance "ab" False'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json
import re
import sys
import types
from pathlib import Path

import llguidance
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


def is_json(text):
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


PATTERNS = {
    r"^C:\\[a-z]+$": [r'"C:\\ab"', r'"C:\ab"'],
    r'^"[a-z]+"$': [r'"\"ab\""', '""ab""'],
}
ENGINES = {"xgrammar": accepts, "outlines": outlines, "guidance": guidance}
for name, admits in ENGINES.items():
    for pattern, texts in PATTERNS.items():
        for text in texts:
            answer = str(admits({"type": "string", "pattern": pattern}, text))
            if answer == "True" and not is_json(text):
                answer += ", no JSON"
            print(name, text[1:-1], answer)
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a pattern with a backslash or a quote forces text that is no JSON"
