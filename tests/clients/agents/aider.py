"""aider over chat completions: it declares no tools, and writes the files that it finds in the answer's text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Program, Run
from clients.scenarios import Call, Say, Scenario, Turn, Write


class Aider(Program):
    """Asked for whole files, each between fences below its name."""

    name = "aider"
    surfaces = ("chat",)
    environments = ("aider",)
    uses_tools = False
    echoes = False
    answers = False
    scenarios = ("plain", "tags", "unicode", "two", "long")

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """All by options."""
        return (
            [
                str(run.installed / "aider/bin/aider"), "--model", f"openai/{MODEL}", "--edit-format", "whole", "--message", PROMPT,
                "--yes-always", "--no-git", "--no-check-update", "--analytics-disable", "--no-show-model-warnings",
                "--no-auto-lint", "--no-show-release-notes", "--no-detect-urls", "--no-pretty", "--chat-history-file", str(run.home / "chat.md"), "--input-history-file", str(run.home / "input"), "--map-tokens", "0",
            ],
            {"OPENAI_API_BASE": run.url + "/v1", "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )  # fmt: skip

    def answer(self, output: str, run: Run) -> str:
        """It shows the edit and is done."""
        return ""

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """Quoted only."""
        return Call("write_file", {"path": str(path), "content": content})

    def turn(self, scenario: Scenario, number: int) -> Turn:
        """A file is its name and its text between fences."""
        turn = scenario.turns[number]
        texts = [
            f"{part.path}\n```\n{part.content}```" if isinstance(part, Write) else part.text
            for part in turn.parts
            if isinstance(part, (Write, Say))
        ]
        return Turn((Say("I write what is asked for.\n\n" + "\n\n".join(texts)),), turn.thought)


CLIENT = Aider()
