#!/usr/bin/env bash
# regex 2026.11.15, match(…, partial=True) on text that is still arriving: "partial" is said only
# where nothing matches yet. Where a shorter alternative matches, or a negative lookahead has not
# met its text, the match counts as complete, and the next characters make it another or none.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-deps regex==2026.11.15
expected="alternative: '</a>' complete, then '</a></b>' complete
atomic: '</a>' complete, then '</a></b>' complete
lookahead: '</a>' complete, then none
no alternative: '</a></' partial, then '</a></b>' complete"
seen=$(timeout 60 venv/bin/python - <<'PY'
import regex

PATTERNS = {
    "alternative": "</a>(?:</b>|)",
    "atomic": "(?></a></b>|</a>)",
    "lookahead": "</a>(?!</b>)",
    "no alternative": "</a></b>",
}


def answer(pattern, text):
    match = regex.match(pattern, text, partial=True)
    if match is None:
        return "none"
    return f"{match.group()!r} {'partial' if match.partial else 'complete'}"


for name, pattern in PATTERNS.items():
    print(f"{name}: {answer(pattern, '</a></')}, then {answer(pattern, '</a></b>')}")
PY
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a complete match of text that is cut is no promise"
