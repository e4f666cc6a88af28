// Takes runs, one JSON document a line, and answers each with {"name", "answer"} or {"name", "error"}.
import { writeFileSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const PROMPT = "Do the work that you know of, step by step, with your tools, then say that it is done.";

const writeFile = tool({
  description: "Write a file.",
  inputSchema: z.object({ path: z.string(), content: z.string() }),
  execute: async ({ path, content }) => {
    try {
      writeFileSync(path, content);
      return `wrote ${basename(path)}`;
    } catch (error) {
      return `error: ${error.message}`;
    }
  },
});

async function ask(run) {
  const provider = createOpenAICompatible({ name: "lane", baseURL: `${run.url}/v1`, apiKey: "dummy-key" });
  const result = streamText({
    model: provider("scripted"),
    system: "You write files.",
    prompt: PROMPT,
    tools: { write_file: writeFile },
    stopWhen: stepCountIs(40),
    maxRetries: 0,
    onError: () => {},
  });
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error;
  }
  return await result.text;
}

for await (const line of createInterface({ input: process.stdin })) {
  const run = JSON.parse(line);
  let result;
  try {
    result = { answer: await ask(run) };
  } catch (error) {
    result = { error: String(error).slice(0, 2000) };
  }
  process.stdout.write(`${JSON.stringify({ name: run.name, ...result })}\n`);
}
