"""Claude Code over messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Program, Run
from clients.scenarios import Call


class ClaudeCode(Program):
    """Writes files by its tool ``Write``."""

    name = "claude_code"
    surfaces = ("messages",)
    faults = {"spaces": "it removes white space at the ends of lines from what it writes"}  # noqa: RUF012
    deferred = (Call("ToolSearch", {"query": "select:CronList"}), Call("CronList", {}))

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """It is configured by variables alone."""
        return (
            [
                str(run.installed / "npm/node_modules/@anthropic-ai/claude-code-linux-x64/claude"),
                "--print", "--output-format", "json", "--dangerously-skip-permissions", PROMPT,
            ],
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
                "IS_SANDBOX": "1",  # it refuses to skip permissions as root elsewhere
                "CLAUDE_CODE_MAX_RETRIES": "1",
                "ENABLE_TOOL_SEARCH": "true",
            },
        )  # fmt: skip

    def answer(self, output: str, run: Run) -> str:
        """The field ``result`` of its one JSON document."""
        return str(json.loads(output)["result"])

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """Its own tool, which takes absolute paths."""
        return Call("Write", {"file_path": str(path), "content": content})


CLIENT = ClaudeCode()
