#!/usr/bin/env bash
# @n8n/json-schema-to-zod 1.16.0, of which a client makes the check of a tool's calls: where a
# parameter is one of several objects, the call keeps the keys of the first that fits alone,
# and each key that the schema leaves open is taken out. Nothing is refused, so the tool
# runs with less. zod-from-json-schema 0.5.6 keeps them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir n8n other
npm install --silent --no-audit --no-fund --ignore-scripts --prefix n8n \
    @n8n/json-schema-to-zod@1.16.0 zod@3.25.76
npm install --silent --no-audit --no-fund --ignore-scripts --prefix other \
    zod-from-json-schema@0.5.6 zod@4.6.7
expected='n8n: {"change":{"path":"a"}} {"change":{}}
zod-from-json-schema: {"change":{"path":"a","text":"b"}} {"change":{"path":"a"}}'
seen=$(cat >main.cjs <<'JS'
const { createRequire } = require('node:module');
const load = (folder, name) => createRequire(`${__dirname}/${folder}/x.js`)(name);
const converters = {
  n8n: load('n8n', '@n8n/json-schema-to-zod').jsonSchemaToZod,
  'zod-from-json-schema': load('other', 'zod-from-json-schema').convertJsonSchemaToZod,
};
const string = { type: 'string' };
const remove = { type: 'object', properties: { path: string }, required: ['path'] };
const write = { type: 'object', properties: { path: string, text: string },
  required: ['path', 'text'] };
const tool = (change) => ({ type: 'object', properties: { change } });
for (const [name, convert] of Object.entries(converters)) {
  const union = convert(tool({ anyOf: [remove, write] }));
  const open = convert(tool({ type: 'object', properties: { line: { type: 'integer' } } }));
  console.log(`${name}:`, JSON.stringify(union.parse({ change: { path: 'a', text: 'b' } })),
    JSON.stringify(open.parse({ change: { path: 'a' } })));
}
JS
    timeout 120 node main.cjs 2>/dev/null
)
printf 'seen: %s\n' "$seen"
if [ "$seen" != "$expected" ]; then
    printf 'expected: %s\nverdict: changed\n' "$expected"
    exit 1
fi
echo "verdict: keys that the schema admits are taken out of the call"
