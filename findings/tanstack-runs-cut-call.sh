#!/usr/bin/env bash
# @tanstack/ai 0.58.0 with @tanstack/ai-openai 0.23.1 runs a call that the server cut
# (finish_reason "length") with {} in place of its arguments, whatever had been written, and
# shows the model a call with {}. A tool with optional parameters alone then does its
# default.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts \
    @tanstack/ai@0.58.0 @tanstack/ai-openai@0.23.1
expected='ran with: [{}], shown to the model: write({})'
seen=$(cat >main.mjs <<'JS'
import { chat, toolDefinition } from '@tanstack/ai';
import { openaiCompatibleText } from '@tanstack/ai-openai/compatible';

const event = (delta, finish_reason = null) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1,
    model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const piece = (text, more) => event({
  tool_calls: [{ index: 0, ...more, function: { arguments: text, ...more?.function } }] });
const cut = event({ role: 'assistant', content: '' })
  + piece('', { id: 'call_0', type: 'function', function: { name: 'write' } })
  + piece('{"path": "a.txt", ') + piece('"text": "half')
  + event({}, 'length') + 'data: [DONE]\n\n';
const done = event({ role: 'assistant', content: 'done' }) + event({}, 'stop')
  + 'data: [DONE]\n\n';
const requests = [];
const answer = async (url, options) => {
  requests.push(JSON.parse(options.body));
  return new Response(requests.length === 1 ? cut : done,
    { headers: { 'content-type': 'text/event-stream' } });
};

const adapter = openaiCompatibleText('m', { name: 'server', apiKey: 'x',
  baseURL: 'http://127.0.0.1:9/v1', api: 'chat-completions', fetch: answer });
const ran = [];
const string = { type: 'string' };
const write = toolDefinition({ name: 'write', description: 'Write.',
  inputSchema: { type: 'object', properties: { path: string, text: string } },
}).server(async (input) => { ran.push(input); return 'ok'; });
const messages = [{ role: 'user', content: 'x' }];
for await (const _ of chat({ adapter, messages, tools: [write] }));
const { name, arguments: text } = requests[1].messages[1].tool_calls[0].function;
console.log(`ran with: ${JSON.stringify(ran)}, shown to the model: ${name}(${text})`);
JS
    timeout 120 node main.mjs 2>/dev/null | tail -n 1
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: a cut call runs with empty arguments"
