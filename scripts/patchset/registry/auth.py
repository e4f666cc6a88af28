# SPDX-License-Identifier: Apache-2.0
"""Logins of container engines, read where they keep them (containers-auth.json(5), docker's config.json)."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset.registry.reference import Reference

#: What docker calls its own registry in these files.
_DOCKER_HUB = "https://index.docker.io/v1/"
_MAX_CONFIG = 4 << 20


@dataclass(frozen=True)
class Login:
    """A user with a password, or (``identity``) a token to be exchanged for others."""

    user: str
    password: str
    identity: str | None = None

    def __repr__(self) -> str:
        """Without the secrets, as this may end up in a message."""
        return f"Login({self.user!r})"

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def files() -> Iterator[Path]:
    """The files in which engines keep logins, in the order in which they count."""
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    else:
        yield Path(f"/run/containers/{os.geteuid()}/auth.json")
    home = Path.home()
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "auth.json"
    yield Path(os.environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json"


def find(reference: Reference) -> Login | None:
    """The login for a repository: the most exact entry of the first file that has one."""
    for file in files():
        config = _read(file)
        if config is not None and (login := _from_config(config, reference)) is not None:
            return login
    return None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        if file.stat().st_size > _MAX_CONFIG:
            return None
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _from_config(config: dict[str, Any], reference: Reference) -> Login | None:
    keys = [reference.host]
    for part in reference.name.split("/"):
        keys.append(f"{keys[-1]}/{part}")
    keys.reverse()
    keys += [f"https://{reference.host}", f"http://{reference.host}"]
    if reference.host == "docker.io":
        keys += [_DOCKER_HUB, "index.docker.io"]
    helpers = _table(config.get("credHelpers"))
    for key in keys:
        if isinstance(helper := helpers.get(key), str) and (login := _ask_helper(helper, key)):
            return login
    auths = _table(config.get("auths"))
    for key in keys:
        entry = auths.get(key)
        if isinstance(entry, dict) and (login := _from_entry(entry)) is not None:
            return login
    if isinstance(store := config.get("credsStore"), str):
        for key in keys[-2:] if reference.host == "docker.io" else [reference.host]:
            if login := _ask_helper(store, key):
                return login
    return None


def _table(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _from_entry(entry: dict[str, Any]) -> Login | None:
    user, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if encoded := entry.get("auth"):
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (ValueError, TypeError):
            return None
    token = entry.get("identitytoken")
    token = token if isinstance(token, str) and token else None
    return Login(user, password.rstrip("\0"), token) if user or token else None


def _ask_helper(name: str, server: str) -> Login | None:
    """Ask ``docker-credential-NAME``, the protocol of docker-credential-helpers."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        return None
    try:
        done = subprocess.run(
            [f"docker-credential-{name}", "get"],
            input=server,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        found = _table(json.loads(done.stdout) if done.returncode == 0 else {})
    except (OSError, ValueError, RecursionError, subprocess.TimeoutExpired):
        return None
    user, secret = found.get("Username"), found.get("Secret")
    if not isinstance(user, str) or not isinstance(secret, str):
        return None
    return Login("", "", secret) if user == "<token>" else Login(user, secret)
