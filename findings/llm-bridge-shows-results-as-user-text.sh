#!/usr/bin/env bash
# llm-bridge 2.0.1, from the Messages API to chat: the result of a call becomes text of the
# user, with the package's own objects in it, and no message has the role "tool". The calls
# are there twice, once as such text of the assistant. From chat to the Messages API, results
# stand in messages of the role "tool", which that API does not have.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts llm-bridge@2.0.1
expected='assistant: 1 calls, texts I look. | {"_original":{"provider":"anthropic","raw":{"type":"tool_use","id":"a"
user: 0 calls, texts {"_original":{"provider":"anthropic","raw":{"type":"tool_result","tool | go on
to messages: user assistant tool'
seen=$(cat >main.mjs <<'JS'
import { translateBetweenProviders } from 'llm-bridge';

const use = { type: 'tool_use', id: 'a', name: 'read', input: { path: 'x' } };
const result = { type: 'tool_result', tool_use_id: 'a', content: 'It has 5 lines.' };
const { messages } = translateBetweenProviders('anthropic', 'openai', {
  model: 'm', max_tokens: 9, messages: [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: [{ type: 'text', text: 'I look.' }, use] },
    { role: 'user', content: [result, { type: 'text', text: 'go on' }] }] });
for (const { role, content, tool_calls: calls = [] } of messages.slice(1)) {
  const texts = content.map((part) => part.text.slice(0, 70));
  console.log(`${role}: ${calls.length} calls, texts ${texts.join(' | ')}`);
}
const call = { id: 'a', type: 'function',
  function: { name: 'read', arguments: '{"path": "x"}' } };
const body = translateBetweenProviders('openai', 'anthropic', {
  model: 'm', messages: [
    { role: 'user', content: 'go' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'a', content: 'It has 5 lines.' }] });
console.log('to messages:', ...body.messages.map((message) => message.role));
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: results become text of the user"
