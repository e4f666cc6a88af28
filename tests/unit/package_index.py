# SPDX-License-Identifier: Apache-2.0
"""A package index on loopback that can misbehave as real ones do."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from packaging.utils import canonicalize_name


@dataclass
class Misbehaviour:
    """``ranges``: answer Range requests; ``cut``: bytes after which the connection closes, for each of the next
    downloads; ``errors``: how many requests get status 500 first; ``refused_ranges``: how many Range requests get
    status 416 first; ``pace``: seconds between pieces of 64 KiB."""

    ranges: bool = True
    cut: list[int] = field(default_factory=list)
    errors: int = 0
    refused_ranges: int = 0
    pace: float = 0.0
    requests: list[tuple[str, str | None]] = field(default_factory=list)


class PackageIndex:
    """Serves files below ``/simple/<project>/``, by the project in their names; with ``hashes`` it states sha256."""

    def __init__(
        self, project: str, files: dict[str, bytes], *, hashes: bool = False
    ) -> None:
        self.hashes = hashes
        self.project, self.files, self.behaviour = project, files, Misbehaviour()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"

    def downloads(self) -> list[tuple[str, str | None]]:
        """Requests for files so far: the path, and the Range header."""
        return [
            request
            for request in self.behaviour.requests
            if request[0].startswith("/files/")
        ]

    def page(self, path: str) -> dict[str, str] | None:
        """The links of a project's page, None where there is no such project."""
        project = path.removeprefix("/simple/").rstrip("/")
        found = {
            name: f"/files/{name}"
            + (f"#sha256={hashlib.sha256(content).hexdigest()}" if self.hashes else "")
            for name, content in self.files.items()
            if canonicalize_name(name.partition("-")[0]) == project
        }
        return (
            found
            if path.startswith("/simple/") and (found or project == self.project)
            else None
        )

    def _handler(index) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            content_range: str | None = None

            def do_GET(self) -> None:
                behaviour = index.behaviour
                behaviour.requests.append((self.path, self.headers.get("Range")))
                if behaviour.errors > 0:
                    behaviour.errors -= 1
                    self.send_error(500)
                elif (page := index.page(self.path)) is not None:
                    links = "".join(
                        f'<a href="{link}">{name}</a><br/>'
                        for name, link in page.items()
                    )
                    self._send(
                        200,
                        f"<!DOCTYPE html><html><body>{links}</body></html>".encode(),
                        "text/html",
                    )
                elif (name := self.path.removeprefix("/files/")) in index.files:
                    self._send_file(index.files[name])
                else:
                    self.send_error(404)

            def do_HEAD(self) -> None:
                content = index.files.get(self.path.removeprefix("/files/"))
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(len(content or b"")))
                if index.behaviour.ranges:
                    self.send_header("Accept-Ranges", "bytes")
                self.end_headers()

            def _send_file(self, content: bytes) -> None:
                behaviour = index.behaviour
                start, end, status = 0, len(content), 200
                if behaviour.refused_ranges and self.headers.get("Range"):
                    behaviour.refused_ranges -= 1
                    self._send(416, b"", "text/plain")
                    return
                if behaviour.ranges and (asked := self.headers.get("Range")):
                    first, _, last = asked.removeprefix("bytes=").partition("-")
                    start, status = (
                        int(first) if first else max(0, end - int(last)),
                        206,
                    )
                    end = min(int(last) + 1, end) if first and last else end
                cut = behaviour.cut.pop(0) if behaviour.cut else None
                self.content_range = (
                    f"bytes {start}-{end - 1}/{len(content)}" if status == 206 else None
                )
                self._send(status, content[start:end], "application/octet-stream", cut)

            def _send(
                self, status: int, body: bytes, kind: str, cut: int | None = None
            ) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if self.content_range:
                    self.send_header("Content-Range", self.content_range)
                self.end_headers()
                with contextlib.suppress(OSError):
                    for at in range(0, len(body) if cut is None else cut, 65536):
                        self.wfile.write(
                            body[
                                at : min(at + 65536, len(body) if cut is None else cut)
                            ]
                        )
                        time.sleep(index.behaviour.pace)
                if cut is not None:
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        return Handler


@contextlib.contextmanager
def serving(
    project: str, files: dict[str, bytes], *, hashes: bool = False
) -> Iterator[PackageIndex]:
    """A running index; it stops at the end of the block."""
    index = PackageIndex(project, files, hashes=hashes)
    thread = threading.Thread(target=index.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        index.server.shutdown()
        index.server.server_close()
        thread.join()


class answering:
    """A server on loopback with these pages: status, content type and body by path.

    The block gets its host and port; ``authorized`` has the Authorization headers.
    """

    authorized: ClassVar[list[str | None]] = []

    def __init__(self, pages: dict[str, tuple[int, str, bytes]]) -> None:
        answering.authorized = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answering.authorized.append(self.headers.get("Authorization"))
                status, kind, body = pages.get(self.path, (404, "text/plain", b""))
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{self.server.server_port}"

    def __exit__(self, *exception: object) -> None:
        self.server.shutdown()
        self.server.server_close()
