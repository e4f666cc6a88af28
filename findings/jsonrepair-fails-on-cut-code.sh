#!/usr/bin/env bash
# jsonrepair 3.15.0 (npm): where a string is cut off, what stands in its last line decides.
# Code with an opening bracket raises an error, a closing brace or a comma at the end is lost
# from the value, and words are kept. The package's page says that it adds missing quotes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts \
    jsonrepair@3.15.0
expected='"return value" -> "return value"
"a[0] = 1;" -> "a[0] = 1;"
"x = [1, 2]" -> error: Unexpected character "["
"f({ a: 1 })" -> error: Unexpected character "{"
"}" -> ""
"a," -> "a"'
seen=$(cat >main.mjs <<'JS'
import { jsonrepair } from 'jsonrepair';

for (const text of ['return value', 'a[0] = 1;', 'x = [1, 2]', 'f({ a: 1 })', '}', 'a,']) {
  let answer;
  try {
    const cut = JSON.stringify({ content: text }).slice(0, -'"}'.length);
    answer = JSON.stringify(JSON.parse(jsonrepair(cut)).content);
  } catch (error) {
    answer = `error: ${error.message.split(' at ')[0]}`;
  }
  console.log(JSON.stringify(text), '->', answer);
}
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: cut code is refused, or loses its end"
