#!/usr/bin/env bash
# ragas 0.4.3, two metrics of the same calls: ToolCallAccuracy compares the text of Python's
# values, so that 5 is "5", an object with its keys in another order is wrong, and arguments
# that the reference does not have cost nothing. ToolCallF1 says the opposite each time, and
# takes a call made three times for one. The metrics are loaded without their package,
# which is 800 MB; the whole package gave the same.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq pydantic==2.13.0
venv/bin/pip install -qq --no-deps ragas==0.4.3
expected='5 for "5": accuracy 1, F1 0
all: true beside what is asked: accuracy 1, F1 0
keys of an inner object in another order: accuracy 0, F1 1
1.0 for 1: accuracy 0, F1 1
three times for once: accuracy 0, F1 1'
seen=$(cat >main.py <<'PY'
import asyncio
import importlib
import sys
import types
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

SITE = next(Path("venv/lib").glob("python*/site-packages"))


class Metric:
    async def single_turn_ascore(self, sample, callbacks):
        return await self._single_turn_ascore(sample, callbacks)


def stand_in(name, **names):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [str(SITE / name.replace(".", "/"))]
    vars(module).update(names)


MetricType = Enum("MetricType", "SINGLE_TURN MULTI_TURN")
metrics = {"SingleTurnMetric": Metric, "MultiTurnMetric": Metric}
samples = {"SingleTurnSample": SimpleNamespace, "MultiTurnSample": SimpleNamespace}
stand_in("ragas")
stand_in("ragas.metrics")
stand_in("ragas.metrics.base", MetricType=MetricType, **metrics)
stand_in("ragas.dataset_schema", **samples)
stand_in("ragas.run_config", RunConfig=object)
stand_in("langchain_core")
stand_in("langchain_core.callbacks", Callbacks=object)
accuracy = importlib.import_module("ragas.metrics._tool_call_accuracy").ToolCallAccuracy
f1 = importlib.import_module("ragas.metrics._tool_call_f1").ToolCallF1
messages = importlib.import_module("ragas.messages")


def score(label, predicted, reference, times=1):
    call = messages.ToolCall(name="list_files", args=predicted)
    answer = messages.AIMessage(content="", tool_calls=[call] * times)
    wanted = [messages.ToolCall(name="list_files", args=reference)]
    sample = SimpleNamespace(user_input=[answer], reference_tool_calls=wanted)
    one, other = (
        asyncio.run(metric()._multi_turn_ascore(sample, None)) for metric in (accuracy, f1)
    )
    print(f"{label}: accuracy {one:g}, F1 {other:g}")


score('5 for "5"', {"depth": 5}, {"depth": "5"})
score("all: true beside what is asked", {"depth": 5, "all": True}, {"depth": 5})
score(
    "keys of an inner object in another order",
    {"at": {"line": 1, "column": 2}},
    {"at": {"column": 2, "line": 1}},
)
score("1.0 for 1", {"depth": 1.0}, {"depth": 1})
score("three times for once", {"depth": 5}, {"depth": 5}, times=3)
PY
    timeout 120 venv/bin/python main.py 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: two metrics contradict each other"
