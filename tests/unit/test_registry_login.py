# SPDX-License-Identifier: Apache-2.0
"""Logging in with tokens, against a small server that hands them out as registries do."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from patchset.registry import auth
from patchset.registry.client import Repository
from patchset.registry.reference import Reference, parse
from patchset.registry.transport import LoginError
from registry_server import own_places

__all__ = ["own_places"]

DIGEST = "sha256:" + "a" * 64


class TokenServer:
    """Answers HEAD of manifests to whoever has a token that ``/token`` gave for that repository and action."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.realm = ""
        self.elsewhere = ""
        self.seen_elsewhere: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _say(self, status: int, content: bytes = b"", **headers: str) -> None:
                self.send_response_only(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                if self.path.startswith("/other"):
                    server.seen_elsewhere.append(self.headers.get("Authorization"))
                    return self._say(200, b"x")
                if "/blobs/" in self.path:
                    return self._say(307, Location=server.elsewhere)
                self._token(parse_qs(urlsplit(self.path).query))

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                self._token(parse_qs(self.rfile.read(length).decode()))

            def _token(self, fields: dict[str, list[str]]) -> None:
                server.asked.append(fields)
                login = self.headers.get("Authorization", "").removeprefix("Basic ")
                named = base64.b64decode(login) == b"user:secret" or fields.get("refresh_token") == [
                    "identity"
                ]
                push = any(scope.endswith("pull,push") for scope in fields["scope"])
                if push and not named:
                    return self._say(401, b'{"errors":[{"code":"UNAUTHORIZED"}]}')
                self._say(200, json.dumps({"token": "push" if push else "pull"}).encode())

            def do_HEAD(self) -> None:
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                if token not in ("push", "pull"):
                    challenge = f'Bearer realm="{server.realm}",service="registry",scope="ignored"'
                    return self._say(401, WWW_Authenticate=challenge)
                self._say(200, Docker_Content_Digest=DIGEST)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.realm = f"http://{self.host}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[TokenServer]:
    found = TokenServer()
    yield found
    found.close()


def login(folder: Path, host: str, **entry: str) -> None:
    (folder / ".docker").mkdir(exist_ok=True)
    (folder / ".docker/config.json").write_text(json.dumps({"auths": {host: entry}}))


def test_a_token_for_anybody_and_for_a_user(server: TokenServer, tmp_path: Path) -> None:
    with Repository(Reference(server.host, "team/x")) as found:
        assert found.digest_of("v1") == DIGEST
    assert server.asked[-1] == {"service": ["registry"], "scope": ["repository:team/x:pull"]}
    with Repository(Reference(server.host, "team/x"), push=True) as found, pytest.raises(LoginError):
        found.digest_of("v1")
    login(tmp_path, server.host, auth=base64.b64encode(b"user:secret").decode())
    with Repository(Reference(server.host, "team/x"), push=True) as found:
        found.allow_reading("official/y")
        assert found.digest_of("v1") == DIGEST
    assert server.asked[-1]["scope"] == ["repository:team/x:pull,push", "repository:official/y:pull"]


def test_an_identity_token_is_exchanged(server: TokenServer, tmp_path: Path) -> None:
    login(tmp_path, server.host, identitytoken="identity")
    with Repository(Reference(server.host, "team/x"), push=True) as found:
        assert found.digest_of("v1") == DIGEST
    assert server.asked[-1]["grant_type"] == ["refresh_token"]


def test_a_login_is_not_sent_over_plain_http(server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.realm = "ftp://somewhere/token"
    with Repository(Reference(server.host, "team/x")) as found, pytest.raises(LoginError, match="not https"):
        found.digest_of("v1")


def test_a_token_is_not_sent_where_blobs_are_kept(server: TokenServer) -> None:
    storage = TokenServer()
    try:
        server.elsewhere = f"http://{storage.host}/other"
        with Repository(Reference(server.host, "team/x")) as found:
            found.digest_of("v1")
            with found.open_blob(DIGEST, 1) as pieces, pytest.raises(Exception, match="something else"):
                list(pieces)
        assert storage.seen_elsewhere == [None]
    finally:
        storage.close()


def test_the_most_exact_entry_counts(tmp_path: Path) -> None:
    entries = {
        "registry.example": {"auth": base64.b64encode(b"all:1").decode()},
        "registry.example/team": {"auth": base64.b64encode(b"team:2").decode()},
        "https://index.docker.io/v1/": {"auth": base64.b64encode(b"hub:3").decode()},
        "broken.example": {"auth": "***"},
    }
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text(json.dumps({"auths": entries}))
    users = {
        text: found.user if (found := auth.find(parse(text))) else None
        for text in (
            "registry.example/x",
            "registry.example/team/x",
            "vllm/vllm",
            "broken.example/x",
            "other.example/x",
        )
    }
    assert list(users.values()) == ["all", "team", "hub", None, None]
    assert "secret" not in repr(auth.Login("user", "secret"))
