#!/usr/bin/env bash
# inspect-ai 0.3.285: an answer that quotes <think>...</think> loses these words,
# wherever they stand, also in a fenced block: they become reasoning, and what is
# scored, and what the model is shown afterwards, is the rest. Where the server sends
# the reasoning apart, the answer stays whole.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq inspect-ai==0.3.285 openai
# shellcheck disable=SC2016
expected='alone: text "Wrap it:\n```\n\n```\nas `<think>` shows.", reasoning "x"
beside reasoning: text "Wrap it:\n```\n<think>x</think>\n```\nas `<think>` shows.", reasoning "Hm."'
seen=$(PYTHONPATH=$here timeout 200 venv/bin/python - 2>/dev/null <<'PY'
import asyncio
import json

from inspect_ai.model import ContentReasoning, get_model
from scripted_server import assistant, replies, serve


async def main():
    model = get_model("openai-api/qwen/m", base_url=serve(), api_key="x")
    quoted = "Wrap it:\n```\n<think>x</think>\n```\nas `<think>` shows."
    for name, reasoning in [("alone", None), ("beside reasoning", "Hm.")]:
        message = assistant(quoted)
        replies[:] = [{**message, "reasoning": reasoning} if reasoning else message]
        content = (await model.generate("go")).message
        parts = content.content if isinstance(content.content, list) else []
        thoughts = [p.reasoning for p in parts if isinstance(p, ContentReasoning)]
        line = f"{name}: text {json.dumps(content.text)}"
        print(f"{line}, reasoning {json.dumps(''.join(thoughts))}")


asyncio.run(main())
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a quoted thought is taken out of the answer"
