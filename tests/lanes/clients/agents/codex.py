"""Codex CLI over responses."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Program, Run
from clients.scenarios import Call

CONFIG = """\
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
    """Writes files by a shell command."""

    name = "codex"
    surfaces = ("responses",)

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """A ``config.toml`` with the lane as the provider."""
        (run.home / "config.toml").write_text(CONFIG.format(model=MODEL, url=run.url))
        vendor = run.installed / "npm/node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl"
        return (
            [str(vendor / "bin/codex"), "exec", "--json", "--skip-git-repo-check", PROMPT],
            {"CODEX_HOME": str(run.home), "LANE_KEY": KEY},
        )

    def answer(self, output: str, run: Run) -> str:
        """The last message among the events."""
        answer = ""
        for line in output.strip().split("\n"):
            item = json.loads(line).get("item") or {}
            if item.get("type") == "agent_message":
                answer = item["text"]
        return answer

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """A shell command that prints the file: it can hold any text, and a patch cannot."""
        return Call("exec_command", {"cmd": f"printf %s {shlex.quote(content)} > {shlex.quote(str(path))}"})


CLIENT = Codex()
