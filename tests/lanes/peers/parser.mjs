// SPDX-License-Identifier: Apache-2.0
// Reads outputs with @ai-sdk-tool/parser's middleware, one JSON document a line: what
// a model of the AI SDK that writes text is wrapped in.
import { createInterface } from "node:readline";
import { qwen3CoderToolMiddleware as middleware } from "@ai-sdk-tool/parser";

async function read({ tools, pieces, end, streamed }) {
  const message = { content: "", calls: [] };
  const add = (part) => {
    if (part.type === "text") message.content += part.text;
    if (part.type === "text-delta") message.content += part.delta;
    if (part.type === "tool-call") message.calls.push([part.toolName, part.input]);
  };
  const asked = tools.map((tool) => ({
    type: "function",
    name: tool.function.name,
    description: tool.function.description,
    inputSchema: tool.function.parameters,
  }));
  const prompt = [{ role: "user", content: [{ type: "text", text: "hello" }] }];
  const params = await middleware.transformParams({
    type: streamed ? "stream" : "generate",
    params: { prompt, tools: asked },
  });
  const usage = { inputTokens: {}, outputTokens: {} };
  const finishReason = { unified: end, raw: end };
  if (!streamed) {
    const content = [{ type: "text", text: pieces[0] }];
    const doGenerate = async () => ({ content, finishReason, usage, warnings: [] });
    (await middleware.wrapGenerate({ doGenerate, params })).content.forEach(add);
    return message;
  }
  const parts = [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "0" },
    ...pieces.map((delta) => ({ type: "text-delta", id: "0", delta })),
    { type: "text-end", id: "0" },
    { type: "finish", finishReason, usage },
  ];
  const doStream = async () => ({ stream: ReadableStream.from(parts) });
  for await (const part of (await middleware.wrapStream({ doStream, params })).stream) add(part);
  return message;
}

console.log = console.warn = console.error;
for await (const line of createInterface({ input: process.stdin })) {
  const { tools, pieces, end } = JSON.parse(line);
  const messages = {};
  const began = process.cpuUsage();
  for (const [name, some] of Object.entries(pieces)) {
    try {
      const message = await read({ tools, pieces: some, end, streamed: name !== "full" });
      const finish = message.calls.length && end === "stop" ? "tool_calls" : end;
      messages[name] = { ...message, finish };
    } catch (error) {
      messages[name] = { error: `${error}`.slice(0, 200) };
    }
  }
  const { user, system } = process.cpuUsage(began);
  process.stdout.write(`${JSON.stringify({ messages, seconds: (user + system) / 1e6 })}\n`);
}
