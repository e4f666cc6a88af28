"""opencode over chat completions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Program, Run
from clients.scenarios import Call


class Opencode(Program):
    """Writes files by its tool ``write``."""

    name = "opencode"
    surfaces = ("chat",)

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """An ``opencode.json`` with the lane as an OpenAI-compatible provider, whose package is built in."""
        config = {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "permission": "allow",
            "model": f"lane/{MODEL}",
            "small_model": f"lane/{MODEL}",
            "provider": {
                "lane": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "lane",
                    "options": {"baseURL": run.url + "/v1", "apiKey": KEY},
                    "models": {
                        MODEL: {
                            "name": MODEL,
                            "reasoning": True,
                            "tool_call": True,
                            "limit": {"context": 200000, "output": 32000},
                        }
                    },
                }
            },
        }
        file = run.home / "opencode.json"
        file.write_text(json.dumps(config))
        return (
            [
                str(run.installed / "npm/node_modules/opencode-linux-x64/bin/opencode"),
                "run", "--format", "json", "--model", f"lane/{MODEL}", PROMPT,
            ],
            {
                "OPENCODE_CONFIG": str(file),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                "OPENCODE_DISABLE_SHARE": "1",
            },
        )  # fmt: skip

    def answer(self, output: str, run: Run) -> str:
        """The text parts after the last step began."""
        answer = ""
        for line in output.strip().split("\n"):
            event = json.loads(line)
            if event.get("type") == "step_start":
                answer = ""
            elif event.get("type") == "text":
                answer += event["part"]["text"]
        return answer

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """Its own tool."""
        return Call("write", {"filePath": str(path), "content": content})


CLIENT = Opencode()
