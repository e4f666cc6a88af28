#!/usr/bin/env bash
# agentevals 0.0.9: tool_args_match_mode "superset" admits calls with more arguments than the
# reference, "subset" with fewer. With trajectory_match_mode "unordered" neither does: both
# are "exact". With "subset" each does the other's work. Nothing says so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq agentevals==0.0.9
expected='strict: superset admits more; subset admits fewer
superset: superset admits more; subset admits fewer
unordered: superset admits none; subset admits none
subset: superset admits fewer; subset admits more'
seen=$(timeout 120 venv/bin/python - 2>/dev/null <<'PY'
import json

from agentevals.trajectory.match import create_trajectory_match_evaluator


def run(arguments):
    function = {"name": "list_files", "arguments": json.dumps(arguments)}
    call = {"id": "call_0", "type": "function", "function": function}
    question = {"role": "user", "content": "x"}
    return [question, {"role": "assistant", "content": "", "tool_calls": [call]}]


few, many = run({"path": "a"}), run({"path": "a", "all": True})
for mode in ("strict", "superset", "unordered", "subset"):
    seen = []
    for arguments in ("superset", "subset"):
        evaluate = create_trajectory_match_evaluator(
            trajectory_match_mode=mode, tool_args_match_mode=arguments
        )
        more = evaluate(outputs=many, reference_outputs=few)["score"]
        fewer = evaluate(outputs=few, reference_outputs=many)["score"]
        admitted = ["more"] * more + ["fewer"] * fewer
        seen.append(f"{arguments} admits {' and '.join(admitted) or 'none'}")
    print(f"{mode}: {'; '.join(seen)}")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: how arguments are compared depends on how calls are"
