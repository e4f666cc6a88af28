#!/usr/bin/env bash
# ai 7.0.173 with @ai-sdk/openai-compatible 3.0.92 does not run a call that the server cut,
# tells the model that its JSON is wrong, and shows it the call with empty arguments: the
# next request holds {} where the model had written a path and half a text.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts \
    ai@7.0.173 @ai-sdk/openai-compatible@3.0.92
expected='ran: 0, shown to the model: write({}), error is named: true'
seen=$(cat >main.mjs <<'JS'
import { jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

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

const server = createOpenAICompatible({
  name: 'server', baseURL: 'http://127.0.0.1:9/v1', fetch: answer });
let ran = 0;
const string = { type: 'string' };
const write = tool({
  inputSchema: jsonSchema({ type: 'object', properties: { path: string, text: string } }),
  execute: async () => { ran += 1; return 'ok'; },
});
const result = streamText({ model: server('m'), prompt: 'x', tools: { write },
  stopWhen: stepCountIs(1), onError: () => {} });
await result.consumeStream();
const { messages } = await result.response;
await streamText({ model: server('m'), tools: { write }, stopWhen: stepCountIs(1),
  messages: [{ role: 'user', content: 'x' }, ...messages] }).consumeStream();
const [, assistant, reply] = requests[1].messages;
const { name, arguments: text } = assistant.tool_calls[0].function;
console.log(`ran: ${ran}, shown to the model: ${name}(${text}), `
  + `error is named: ${reply.content.includes('JSON')}`);
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: the model is shown empty arguments"
