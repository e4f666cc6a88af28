#!/usr/bin/env bash
# @tanstack/ai-openai 0.23.1 (with @tanstack/ai 0.58.0) rewrites every tool for any
# OpenAI-compatible server, unasked: strict is true, each optional parameter becomes a
# required one that may be null, and no other is admitted. A server that holds strict tools
# to a grammar then makes the model name each parameter.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts \
    @tanstack/ai@0.58.0 @tanstack/ai-openai@0.23.1
expected='strict: true, required: path,text, text: string,null'
seen=$(cat >main.mjs <<'JS'
import { chat, toolDefinition } from '@tanstack/ai';
import { openaiCompatibleText } from '@tanstack/ai-openai/compatible';

const requests = [];
const chunk = (delta, finish_reason) => `data: ${JSON.stringify({ id: 'c1', created: 1,
  object: 'chat.completion.chunk', model: 'm',
  choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const adapter = openaiCompatibleText('m', { name: 'server', apiKey: 'x',
  baseURL: 'http://127.0.0.1:9/v1', api: 'chat-completions',
  fetch: async (url, options) => {
    requests.push(JSON.parse(options.body));
    return new Response(chunk({ role: 'assistant', content: 'done' }, null)
      + chunk({}, 'stop') + 'data: [DONE]\n\n',
    { headers: { 'content-type': 'text/event-stream' } });
  } });
const string = { type: 'string' };
const write = toolDefinition({ name: 'write', description: 'Write.', inputSchema: {
  type: 'object', properties: { path: string, text: string }, required: ['path'],
} }).server(async () => 'ok');
const messages = [{ role: 'user', content: 'x' }];
for await (const _ of chat({ adapter, messages, tools: [write] }));
const { strict, parameters } = requests[0].tools[0].function;
console.log(`strict: ${strict}, required: ${parameters.required}, `
  + `text: ${parameters.properties.text.type}`);
JS
    timeout 120 node main.mjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: plain tools are sent as strict ones"
