#!/usr/bin/env bash
# xgrammar 0.2.8, structural tag of qwen_3_coder: a call without arguments, as the template
# of Qwen's models writes it into the prompt (one line break between the two tags), is
# refused; the grammar wants two. It also refuses declared parameters in another order than
# the schema's, unless any_order is set. On the CPU, with torch 2.13.0: a CPU build of it in
# pip's find-links spares the larger one of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq torch==2.13.0 xgrammar==0.2.8
expected='one line break: False
two line breaks: True
order of the schema: True
another order: False
another order, any_order: True'
seen=$(timeout 120 venv/bin/python - <<'PY'
import xgrammar
from xgrammar.testing import _is_grammar_accept_string as accepts


def grammar(names, **options):
    properties = {name: {"type": "string"} for name in names}
    parameters = {"type": "object", "properties": properties, "required": names}
    function = {"name": "f", "parameters": parameters, "strict": True}
    tag = xgrammar.get_model_structural_tag(
        "qwen_3_coder",
        tools=[{"type": "function", "function": function}],
        tool_choice="required",
        reasoning=False,
        **options,
    )
    return xgrammar.Grammar.from_structural_tag(tag)


def call(body):
    return f"<tool_call>\n<function=f>\n{body}</function>\n</tool_call>"


def values(*names):
    return call("".join(f"<parameter={name}>\n1\n</parameter>\n" for name in names))


empty, two = grammar([]), grammar(["a", "b"])
print("one line break:", accepts(empty, call("")))
print("two line breaks:", accepts(empty, call("\n")))
print("order of the schema:", accepts(two, values("a", "b")))
print("another order:", accepts(two, values("b", "a")))
any_order = grammar(["a", "b"], any_order=True)
print("another order, any_order:", accepts(any_order, values("b", "a")))
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a call without arguments, as the template writes it, is refused"
