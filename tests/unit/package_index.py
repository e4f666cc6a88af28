# SPDX-License-Identifier: Apache-2.0
"""Servers on loopback: one that answers as told, and a package index of some files."""

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from packaging.utils import canonicalize_name

from patchset.inputs.index import pip_settings

Answer = Callable[[BaseHTTPRequestHandler], None]
JSON_PAGE = "application/vnd.pypi.simple.v1+json"


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[str]:
    """Answer every request so; yields HOST:PORT."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                answer(self)

        do_HEAD = do_POST = do_GET

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.daemon_threads = True
    threading.Thread(target=found.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{found.server_address[1]}"
    finally:
        found.shutdown()
        found.server_close()


def begin(handler: BaseHTTPRequestHandler, status: int = 200, **headers: str) -> None:
    """Send a status and headers; an underscore in a header's name is a hyphen."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def reply(
    handler: BaseHTTPRequestHandler,
    body: bytes = b"",
    kind: str = "text/html",
    status: int = 200,
    **headers: str,
) -> None:
    begin(handler, status, Content_Type=kind, Content_Length=str(len(body)), **headers)
    handler.wfile.write(body)


@dataclass
class PackageIndex:
    """An index below ``/index`` that can misbehave as real ones do.

    ``ranges``: answer Range requests; ``cut``: bytes after which the connection closes,
    for each of the next downloads; ``statuses``: those of the next answers; ``pace``:
    seconds between pieces of 64 KiB; ``hashes``: state sha256 and size, in JSON.
    """

    files: dict[str, bytes]
    hashes: bool = False
    ranges: bool = True
    cut: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    pace: float = 0.0
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def downloads(self) -> list[tuple[str, str | None]]:
        """Return requests for files so far: the path, and the Range header."""
        return [asked for asked in self.requests if asked[0].startswith("/files/")]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path
        self.requests.append((path, handler.headers.get("Range")))
        name = path.removeprefix("/files/")
        status = self.statuses.pop(0) if self.statuses else 200
        if status != 200:
            handler.send_error(status)
        elif path.startswith("/index/") and (page := self.page(path.split("/")[2]))[0]:
            reply(handler, page[0].encode(), page[1])
        elif name in self.files:
            self._send(handler, self.files[name])
        else:
            handler.send_error(404)

    def page(self, project: str) -> tuple[str, str]:
        """Return the page of a project and its kind; "" if no file is of it."""
        found = {
            name: content
            for name, content in self.files.items()
            if canonicalize_name(name.partition("-")[0]) == project
        }
        if not self.hashes or not found:
            return "".join(f'<a href="/files/{n}">{n}</a>' for n in found), "text/html"
        entries = [
            {
                "filename": name,
                "url": f"/files/{name}",
                "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                "size": len(content),
            }
            for name, content in found.items()
        ]
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": entries}
        return json.dumps(page), JSON_PAGE

    def _send(self, handler: BaseHTTPRequestHandler, content: bytes) -> None:
        asked = handler.headers.get("Range")
        start, end, more = 0, len(content), {}
        if asked and self.ranges:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, end) if last else end
            more = {"Content_Range": f"bytes {start}-{end - 1}/{len(content)}"}
        begin(handler, 206 if more else 200, Content_Length=str(end - start), **more)
        end = min(end, start + self.cut.pop(0)) if self.cut else end
        for at in range(start, end, 65536):
            handler.wfile.write(content[at : min(at + 65536, end)])
            time.sleep(self.pace)


@contextlib.contextmanager
def configured(
    files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, *, hashes: bool = False
) -> Iterator[PackageIndex]:
    """Yield a running index, for which alone pip is configured."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    index = PackageIndex(files, hashes)
    with server(index.answer) as where:
        index.url = f"http://{where}/index"
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        pip_settings.cache_clear()
        yield index
    pip_settings.cache_clear()
