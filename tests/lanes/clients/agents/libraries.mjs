// SPDX-License-Identifier: Apache-2.0
// `libraries.mjs NAME` takes runs, one JSON document a line, and answers each with
// {"name", "answer"} or {"name", "error"}.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, resolve, sep } from "node:path";
import { createInterface } from "node:readline";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { chat, maxIterations, toolDefinition } from "@tanstack/ai";
import { openaiCompatibleText } from "@tanstack/ai-openai/compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

// The answers alone go to standard output.
const answer = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);

const MODEL = "scripted";
const KEY = "dummy-key";
const STEPS = 40;
const INSTRUCTIONS = "You write files.";
const PROMPT =
  "Do the work that you know of, step by step, with your tools, " +
  "then say that it is done.";

function write({ path, content }) {
  writeFileSync(path, content);
  return `wrote ${basename(path)}`;
}

function edit(given) {
  const parts = readFileSync(given.path, "utf8").split(given.old_string);
  const times = parts.length - 1;
  if (times !== 1) throw new Error(`the text stands ${times} times in the file`);
  return write({ path: given.path, content: parts.join(given.new_string) });
}

function clear({ path }) {
  const folders = path ? [path] : readdirSync(".").filter((p) => statSync(p).isDirectory());
  for (const folder of folders) {
    if (!resolve(folder).startsWith(process.cwd() + sep))
      throw new Error(`there is no folder ${folder} here`);
    rmSync(folder, { recursive: true });
  }
  return `removed ${folders.length}`;
}

const shell = ({ command }) =>
  execFileSync("/bin/sh", ["-c", command], { encoding: "utf8" });
const strings = (...names) =>
  z.object(Object.fromEntries(names.map((name) => [name, z.string()])));
const folder = "The folder; all of them, if none is given";

const TOOLS = [
  ["write_file", "Write a file.", strings("path", "content"), write],
  [
    "edit_file",
    "Replace a text that stands once in a file.",
    strings("path", "old_string", "new_string"),
    edit,
  ],
  ["run_shell", "Run a command in a shell.", strings("command"), shell],
  [
    "clear_folder",
    "Remove a folder of the working folder, with all that is in it.",
    z.object({ path: z.string().optional().describe(folder) }),
    clear,
  ],
].map(([name, description, inputSchema, run]) => ({
  name,
  description,
  inputSchema,
  execute: async (given) => {
    try {
      return run(given);
    } catch (error) {
      return `error: ${error.message}`;
    }
  },
}));

const named = (make) => Object.fromEntries(TOOLS.map((each) => [each.name, make(each)]));

async function vercel_ai(run) {
  const provider = createOpenAICompatible({
    name: "lane",
    baseURL: `${run.url}/v1`,
    apiKey: KEY,
  });
  const question = {
    model: provider(MODEL),
    system: INSTRUCTIONS,
    prompt: PROMPT,
    tools: named(({ name, ...given }) => tool(given)),
    stopWhen: stepCountIs(STEPS),
    maxRetries: 0,
  };
  if (!run.stream) return (await generateText(question)).text;
  const result = streamText({ ...question, onError: () => {} });
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error;
  }
  return await result.text;
}

async function mastra(run) {
  const agent = new Agent({
    id: "writer",
    name: "writer",
    instructions: INSTRUCTIONS,
    model: { id: `lane/${MODEL}`, url: `${run.url}/v1`, apiKey: KEY },
    tools: named(({ name, ...given }) => createTool({ id: name, ...given })),
    maxRetries: 0,
  });
  if (!run.stream) return (await agent.generate(PROMPT, { maxSteps: STEPS })).text;
  const result = await agent.stream(PROMPT, { maxSteps: STEPS });
  let last = "";
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.payload.error;
    if (part.type === "step-start") last = "";
    if (part.type === "text-delta") last += part.payload.text;
  }
  return last;
}

async function tanstack_ai(run) {
  const stream = chat({
    adapter: openaiCompatibleText(MODEL, { baseURL: `${run.url}/v1`, apiKey: KEY }),
    messages: [{ role: "user", content: PROMPT }],
    systemPrompts: [INSTRUCTIONS],
    tools: TOOLS.map(({ execute, ...given }) => toolDefinition(given).server(execute)),
    agentLoopStrategy: maxIterations(STEPS),
  });
  let last = "";
  for await (const chunk of stream) {
    if (chunk.type === "RUN_ERROR") throw new Error(chunk.message);
    if (chunk.type === "TEXT_MESSAGE_START") last = "";
    if (chunk.type === "TEXT_MESSAGE_CONTENT") last += chunk.delta;
  }
  return last;
}

const ask = { vercel_ai, mastra, tanstack_ai }[process.argv[2]];

for await (const line of createInterface({ input: process.stdin })) {
  const run = JSON.parse(line);
  process.chdir(run.folder);
  let result;
  try {
    result = { answer: await ask(run) };
  } catch (error) {
    result = { error: String(error).slice(0, 2000) };
  }
  answer(`${JSON.stringify({ name: run.name, ...result })}\n`);
}
