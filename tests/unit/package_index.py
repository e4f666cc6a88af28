# SPDX-License-Identifier: Apache-2.0
"""A package index on loopback that can misbehave as real ones do."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Misbehaviour:
    """``ranges``: answer Range requests; ``cut``: bytes after which the connection closes, for each of the next
    downloads; ``errors``: how many requests get status 500 first; ``pace``: seconds between pieces of 64 KiB."""

    ranges: bool = True
    cut: list[int] = field(default_factory=list)
    errors: int = 0
    pace: float = 0.0
    requests: list[tuple[str, str | None]] = field(default_factory=list)


class PackageIndex:
    """Serves one project's files below ``/simple/<project>/``."""

    def __init__(self, project: str, files: dict[str, bytes]) -> None:
        self.project, self.files, self.behaviour = project, files, Misbehaviour()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"

    def downloads(self) -> list[tuple[str, str | None]]:
        """Requests for files so far: the path, and the Range header."""
        return [request for request in self.behaviour.requests if request[0].startswith("/files/")]

    def _handler(index) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                behaviour = index.behaviour
                behaviour.requests.append((self.path, self.headers.get("Range")))
                if behaviour.errors > 0:
                    behaviour.errors -= 1
                    self.send_error(500)
                elif self.path == f"/simple/{index.project}/":
                    links = "".join(f'<a href="/files/{name}">{name}</a><br/>' for name in index.files)
                    self._send(200, f"<!DOCTYPE html><html><body>{links}</body></html>".encode(), "text/html")
                elif (name := self.path.removeprefix("/files/")) in index.files:
                    self._send_file(index.files[name])
                else:
                    self.send_error(404)

            def _send_file(self, content: bytes) -> None:
                behaviour = index.behaviour
                start, status = 0, 200
                if behaviour.ranges and (asked := self.headers.get("Range")):
                    start, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
                cut = behaviour.cut.pop(0) if behaviour.cut else None
                self._send(status, content[start:], "application/octet-stream", cut)

            def _send(self, status: int, body: bytes, kind: str, cut: int | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    for at in range(0, len(body) if cut is None else cut, 65536):
                        self.wfile.write(body[at : min(at + 65536, len(body) if cut is None else cut)])
                        time.sleep(index.behaviour.pace)
                if cut is not None:
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        return Handler


@contextlib.contextmanager
def serving(project: str, files: dict[str, bytes]) -> Iterator[PackageIndex]:
    """A running index; it stops at the end of the block."""
    index = PackageIndex(project, files)
    thread = threading.Thread(target=index.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        index.server.shutdown()
        index.server.server_close()
        thread.join()
