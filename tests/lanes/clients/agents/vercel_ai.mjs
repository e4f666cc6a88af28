// SPDX-License-Identifier: Apache-2.0
// Takes runs, one JSON document a line, and answers each with {"name", "answer"} or
// {"name", "error"}.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const PROMPT =
  "Do the work that you know of, step by step, with your tools, " +
  "then say that it is done.";

function declared(description, names, run) {
  return tool({
    description,
    inputSchema: z.object(Object.fromEntries(names.map((name) => [name, z.string()]))),
    execute: async (given) => {
      try {
        return run(given);
      } catch (error) {
        return `error: ${error.message}`;
      }
    },
  });
}

function write({ path, content }) {
  writeFileSync(path, content);
  return `wrote ${basename(path)}`;
}

const tools = {
  write_file: declared("Write a file.", ["path", "content"], write),
  edit_file: declared(
    "Replace a text that stands once in a file.",
    ["path", "old_string", "new_string"],
    (given) => {
      const parts = readFileSync(given.path, "utf8").split(given.old_string);
      const times = parts.length - 1;
      if (times !== 1) throw new Error(`the text stands ${times} times in the file`);
      return write({ path: given.path, content: parts.join(given.new_string) });
    },
  ),
  run_shell: declared("Run a command in a shell.", ["command"], ({ command }) =>
    execFileSync("/bin/sh", ["-c", command], { encoding: "utf8" }),
  ),
};

async function ask(run) {
  process.chdir(run.folder);
  const provider = createOpenAICompatible({
    name: "lane",
    baseURL: `${run.url}/v1`,
    apiKey: "dummy-key",
  });
  const result = streamText({
    model: provider("scripted"),
    system: "You write files.",
    prompt: PROMPT,
    tools,
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
