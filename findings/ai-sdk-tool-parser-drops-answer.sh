#!/usr/bin/env bash
# @ai-sdk-tool/parser 4.1.26, qwen3CoderProtocol: of an answer that mentions <tool_call>,
# everything from the tag on is lost, and no call and no error tells.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts \
    @ai-sdk-tool/parser@4.1.26
expected='{"calls":[],"text":"Begin with "}'
seen=$(cat >main.mjs <<'JS'
import { qwen3CoderProtocol } from '@ai-sdk-tool/parser';

const string = { type: 'string' };
const inputSchema = { type: 'object', properties: { text: string } };
const tools = [{ type: 'function', name: 'write', inputSchema }];
const read = async (text) => {
  const { readable, writable } =
    qwen3CoderProtocol().createStreamParser({ tools, options: {} });
  const writer = writable.getWriter();
  const parts = Array.fromAsync ? Array.fromAsync(readable) : (async () => {
    const list = [];
    for await (const part of readable) list.push(part);
    return list;
  })();
  await writer.write({ type: 'text-start', id: '1' });
  for (const delta of text) await writer.write({ type: 'text-delta', id: '1', delta });
  await writer.write({ type: 'text-end', id: '1' });
  await writer.write({ type: 'finish', finishReason: 'stop', usage: {} });
  await writer.close();
  const list = await parts;
  return { calls: list.filter((part) => part.type === 'tool-call').map((part) => part.input),
    text: list.filter((part) => part.type === 'text-delta').map((part) => part.delta).join('') };
};
console.log(JSON.stringify(
  await read('Begin with <tool_call> when you need a tool. Now the answer.')));
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: the answer ends at the tag it mentions"
