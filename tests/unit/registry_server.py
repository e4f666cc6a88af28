# SPDX-License-Identifier: Apache-2.0
"""A real registry on loopback, and a faulty network in front of it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from patchset.publish import push
from patchset.registry import transport

#: What happens to a request: None lets it through; a number answers with that status; "close" answers nothing;
#: ("cut", n) lets n bytes of its body through and closes both sides; ("deaf", 0) lets it through and drops the answer.
Fault = int | str | tuple[str, int] | None
Plan = Callable[[str, str], Fault]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def registry(folder: Path, *, htpasswd: str | None = None) -> Iterator[str]:
    """Debian's docker-registry with its storage in ``folder``; its ``host:port``."""
    port = free_port()
    login = ""
    if htpasswd is not None:
        (folder / "htpasswd").write_text(htpasswd)
        login = f"auth:\n  htpasswd:\n    realm: test\n    path: {folder / 'htpasswd'}\n"
    config = folder / "registry.yml"
    config.write_text(
        "version: 0.1\nlog:\n  level: error\n"
        f"storage:\n  filesystem:\n    rootdirectory: {folder / 'storage'}\n  delete:\n    enabled: true\n"
        f"http:\n  addr: 127.0.0.1:{port}\n{login}"
    )
    with (folder / "registry.log").open("wb") as log:
        server = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if server.poll() is not None:
                raise RuntimeError((folder / "registry.log").read_text())
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


class Network:
    """Stands before a registry under its own ``host``; ``plan`` decides what happens to each request."""

    def __init__(self, behind: str) -> None:
        self.plan: Plan = lambda method, path: None
        self.seen: list[tuple[str, str]] = []
        #: Whether it knows If-None-Match for manifests, which docker-registry does not.
        self.conditional = False
        network = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _serve(self) -> None:
                network.seen.append((self.command, self.path))
                fault = network.plan(self.command, self.path)
                length = int(self.headers.get("Content-Length") or 0)
                if fault == "close":
                    self._hang_up()
                elif network.conditional and self.headers.get("If-None-Match") and self._exists():
                    self.rfile.read(length)
                    self._answer(412, [("Content-Length", "0")], b"")
                elif isinstance(fault, int):
                    self.rfile.read(length)
                    self._answer(fault, [("Content-Length", "0")], b"")
                else:
                    self._forward(length, fault if isinstance(fault, tuple) else None)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def _exists(self) -> bool:
                upstream = http.client.HTTPConnection(behind, timeout=30)
                upstream.request("HEAD", self.path, headers={"Accept": "*/*"})
                return upstream.getresponse().status == 200

            def _forward(self, length: int, fault: tuple[str, int] | None) -> None:
                upstream = http.client.HTTPConnection(behind, timeout=30)
                upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    upstream.putheader(name, value)
                upstream.endheaders()
                if fault and fault[0] == "cut":
                    upstream.send(self.rfile.read(min(length, fault[1])))
                    upstream.close()
                    self._hang_up()
                    return
                if length:
                    upstream.send(self.rfile.read(length))
                answer = upstream.getresponse()
                content = answer.read()
                upstream.close()
                if fault:
                    self._hang_up()
                    return
                kept = [
                    (n, v)
                    for n, v in answer.getheaders()
                    if n.lower() not in ("connection", "content-length")
                ]
                size = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self._answer(answer.status, [*kept, ("Content-Length", size or "0")], content)

            def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def _hang_up(self) -> None:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count(self, method: str) -> int:
        return sum(seen == method for seen, _ in self.seen)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of a registry."""
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed (sudo apt-get install docker-registry)")
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def network(host: str) -> Iterator[Network]:
    """A network before the registry that fails as a test plans it."""
    found = Network(host)
    yield found
    found.close()


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses, no logins of whoever runs the tests, nothing written into the checkout."""
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(transport, "LONGEST_PAUSE", 0.4)
    monkeypatch.setattr(push, "SETTLE", 0.5)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    for name in ("REGISTRY_AUTH_FILE", "DOCKER_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
