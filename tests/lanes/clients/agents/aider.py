"""aider over chat completions: it declares no tools, and writes the files that it finds in the answer's text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Library
from clients.scenarios import Call, Say, Scenario, Turn, Write

OPTIONS = [
    "--model", f"openai/{MODEL}", "--edit-format", "whole", "--message", PROMPT, "--yes-always", "--no-git", "--no-check-update",
    "--analytics-disable", "--no-show-model-warnings", "--no-auto-lint", "--no-show-release-notes", "--no-detect-urls",
    "--no-pretty", "--map-tokens", "0",
]  # fmt: skip


def ask(run: dict[str, Any]) -> str:
    """One run of its command line, which shows the edit and is done."""
    os.environ |= {"OPENAI_API_BASE": run["url"] + "/v1", "OPENAI_API_KEY": KEY}
    from aider.main import main

    home = os.environ["HOME"]  # it would put its histories into the repository around the run's folder
    if status := main(
        [*OPTIONS, "--chat-history-file", f"{home}/chat.md", "--input-history-file", f"{home}/input"]
    ):
        raise RuntimeError(f"it ended with status {status}")
    return ""


class Aider(Library):
    """Asked for whole files, each between fences below its name."""

    environments = ("aider",)
    uses_tools = False
    echoes = False
    answers = False
    scenarios = ("plain", "tags", "unicode", "two", "long")

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


CLIENT = Aider("aider", ("chat",), ask)
