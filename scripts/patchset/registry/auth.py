# SPDX-License-Identifier: Apache-2.0
"""Logins of container engines, read where they keep them (containers-auth.json(5), docker's config.json)."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from patchset.errors import PatchsetError
from patchset.registry import media
from patchset.registry.reference import Reference


@dataclass(frozen=True)
class Login:
    """A user with a password, or (``identity``) a token to be exchanged for others; shown without these secrets."""

    user: str
    password: str = field(repr=False)
    identity: str | None = field(default=None, repr=False)

    @property
    def basic(self) -> str:
        """The value of an ``Authorization`` header (RFC 7617)."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def find(reference: Reference) -> Login | None:
    """The login for a repository: the most exact entry of the first file that has one."""
    keys, stores = [reference.host], [reference.host]
    for part in reference.name.split("/"):
        keys.insert(0, f"{keys[0]}/{part}")
    keys += [f"https://{reference.host}", f"http://{reference.host}"]
    if reference.host == "docker.io":  # what docker calls its own registry in these files
        stores = ["https://index.docker.io/v1/", "index.docker.io"]
        keys += stores
    home = Path.home()
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    files = [
        os.environ.get("REGISTRY_AUTH_FILE"),
        f"{runtime}/containers/auth.json" if runtime else f"/run/containers/{os.geteuid()}/auth.json",
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "auth.json",
        Path(os.environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json",
    ]
    logins = (_from_config(_read(Path(file)), keys, stores) for file in files if file)
    return next(filter(None, logins), None)


def _read(file: Path) -> dict[str, Any]:
    """A file of logins; as good as empty where it cannot be read."""
    try:
        return media.parse(file.read_bytes() if file.stat().st_size <= 4 << 20 else b"{}", file.name)
    except (OSError, PatchsetError):
        return {}


def _from_config(config: dict[str, Any], keys: list[str], stores: list[str]) -> Login | None:
    helpers, auths = _table(config.get("credHelpers")), _table(config.get("auths"))
    logins = chain(
        (_ask_helper(helpers.get(key), key) for key in keys),
        (_from_entry(_table(auths.get(key))) for key in keys),
        (_ask_helper(config.get("credsStore"), key) for key in stores),
    )
    return next(filter(None, logins), None)


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


def _ask_helper(name: object, server: str) -> Login | None:
    """Ask ``docker-credential-NAME``, the protocol of docker-credential-helpers."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        return None
    argv = [f"docker-credential-{name}", "get"]
    try:
        done = subprocess.run(argv, input=server.encode(), capture_output=True, check=True, timeout=30)
        found = media.parse(done.stdout, name)
    except (OSError, subprocess.SubprocessError, PatchsetError):
        return None
    user, secret = found.get("Username"), found.get("Secret")
    if not isinstance(user, str) or not isinstance(secret, str):
        return None
    return Login("", "", secret) if user == "<token>" else Login(user, secret)
