#!/usr/bin/env bash
# LLaMA-Factory 0.9.5 reads Qwen3.5's calls for its API server without a look at the tool's
# schema: a text that is JSON becomes that value, so a call that writes a JSON file has an
# object in place of the text; white space at the ends is lost. A call that the thoughts
# quote is a call, and the answer around calls is dropped. ms-swift 4.6.0 makes text of
# numbers, with the same white space lost. The readers are loaded without their packages,
# which need PyTorch.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-deps llamafactory==0.9.5 ms-swift==4.6.0 \
    typing-extensions==4.15.0
expected='LLaMA-Factory: {"path": "a.json", "text": {"private": true}, "line": 5}
LLaMA-Factory: {"path": 12, "text": "return", "line": 5}
LLaMA-Factory, quoted in the thoughts: {"path": "a"}
ms-swift: {"path": "a.json", "text": "{\"private\": true}", "line": "5"}
ms-swift: {"path": "12", "text": "return", "line": "5"}'
seen=$(cat >main.py <<'PY'
import importlib.util
import sys
import types
from collections import namedtuple
from pathlib import Path

SITE = next(Path("venv/lib").glob("python*/site-packages"))


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, SITE / path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(name, **names):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(names)


stand_in("swift")
stand_in("swift.agent_template")
Function = namedtuple("Function", "name arguments")
stand_in("swift.infer_engine", Function=Function)
stand_in("swift.template", Prompt=list, split_str_parts_by=None)
for name in ("base", "hermes", "qwen3_coder"):
    swift = load(f"swift.agent_template.{name}", f"swift/agent_template/{name}.py")
tools = load("tool_utils", "llamafactory/data/tool_utils.py")


def call(**arguments):
    parameters = "".join(
        f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items()
    )
    return f"<tool_call>\n<function=write>\n{parameters}</function>\n</tool_call>"


def factory(text):
    return tools.Qwen35ToolUtils.tool_extractor(text)[0].arguments


def modelscope(text):
    return swift.Qwen3_5AgentTemplate().get_toolcall(text)[0].arguments


quoted = f"<think>\nNot {call(path='a')}, I ask first.\n</think>\n\nMay I?"
texts = [
    call(path="a.json", text='{"private": true}', line=5),
    call(path="12", text="    return\n", line=5),
]
for text in texts:
    print("LLaMA-Factory:", factory(text))
print("LLaMA-Factory, quoted in the thoughts:", factory(quoted))
for text in texts:
    print("ms-swift:", modelscope(text))
PY
    timeout 120 venv/bin/python main.py 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: values are read by their looks, or as text alone"
