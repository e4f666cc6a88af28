"""opencode over chat completions: ``opencode serve``, whose sessions are what ``opencode run`` starts."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Library
from clients.scenarios import Call

SWITCHES = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE")
ADDRESS = re.compile(r"listening on (http://\S+)")


@functools.cache
def serve(installed: Path) -> str:
    """Start the server, which ends with this process's group; returns its address."""
    process = subprocess.Popen(
        [str(installed / "npm/node_modules/opencode-linux-x64/bin/opencode"), "serve", "--port", "0"],
        env={**os.environ, **{f"OPENCODE_DISABLE_{switch}": "1" for switch in SWITCHES}},
        cwd=os.environ["HOME"], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    for line in process.stdout:
        if found := ADDRESS.search(line):
            return found[1]
    raise RuntimeError(f"opencode serve ended with status {process.wait()}")


def configuration(url: str) -> dict[str, Any]:
    """The lane as an OpenAI-compatible provider, whose package is built in."""
    model = {
        "name": MODEL, "reasoning": True, "tool_call": True, "limit": {"context": 200000, "output": 32000},
    }  # fmt: skip
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "lane",
        "options": {"baseURL": url + "/v1", "apiKey": KEY},
        "models": {MODEL: model},
    }
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "model": f"lane/{MODEL}",
        "small_model": f"lane/{MODEL}",
        "provider": {"lane": provider},
    }


def ask(run: dict[str, Any]) -> str:
    """One session in the run's folder; its project's configuration stands above the folder."""
    import httpx

    Path(run["folder"]).with_name("opencode.json").write_text(json.dumps(configuration(run["url"])))
    with httpx.Client(
        base_url=serve(Path(run["installed"])), params={"directory": run["folder"]}, timeout=None
    ) as http:
        session = http.post("/session", json={}).raise_for_status().json()
        question = {
            "model": {"providerID": "lane", "modelID": MODEL},
            "parts": [{"type": "text", "text": PROMPT}],
        }
        told = http.post(f"/session/{session['id']}/message", json=question).raise_for_status().json()
        http.post("/instance/dispose")
    if error := told["info"].get("error"):
        raise RuntimeError(f"the session ended with {error}")
    return "".join(part["text"] for part in told["parts"] if part["type"] == "text")


class Opencode(Library):
    """Writes files by its tool ``write``."""

    environments = ("npm", "python")

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """Its own tool."""
        return Call("write", {"filePath": str(path), "content": content})


CLIENT = Opencode("opencode", ("chat",), ask)
