#!/usr/bin/env bash
# strands-agents-tools 0.8.10, editor: it keeps what it read of each file, for as long as the
# process lives. What another tool wrote since (a formatter, git, a shell) is not shown to
# the model, and its next edit puts the old text back, with the one change, and says success.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq strands-agents-tools==0.8.10
expected='view again: one two
edit: success; file: one 2'
seen=$(BYPASS_TOOL_CONSENT=true timeout 120 venv/bin/python - 2>/dev/null <<'PY' | tail -n 2
from pathlib import Path

from strands_tools.editor import editor

path = Path("a.txt").absolute()
path.write_text("one two")
editor(command="view", path=str(path))
path.write_text("one two three, which another tool wrote")
again = editor(command="view", path=str(path))
edit = editor(command="str_replace", path=str(path), old_str="two", new_str="2")
text = again["content"][0]["text"].split("Content: ")[1]
print(f"view again: {text}\nedit: {edit['status']}; file: {path.read_text()}")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: an edit takes back what others wrote"
