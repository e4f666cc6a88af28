# SPDX-License-Identifier: Apache-2.0
"""Servers that dribble, never end, or lead elsewhere; files and settings that are odd; credentials in messages."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from conftest import Project
from patchset import console
from patchset.errors import PatchsetError, UnavailableError
from patchset.inputs import fetch, index, lock
from patchset.release import load

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

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


def dribble(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, of a body that is said to be large."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.send_header("Content-Type", "text/html")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.02)


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.send_header("Content-Type", "text/html")
    handler.end_headers()
    while True:
        handler.wfile.write(b"<a href=x></a>" * 10_000)


def leads_to(goal: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", goal)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "PATIENCE", 0.3)
    monkeypatch.setattr(index, "MAX_PAGE", 1 << 20)
    monkeypatch.setattr(fetch, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(fetch, "TRIES", 2)


def settings(url: str) -> index.Settings:
    return index.Settings((url,), timeout=5.0)


@pytest.mark.parametrize(
    "answer", [dribble, endless, leads_to("file:///etc/passwd"), leads_to("ftp://x/y")]
)
def test_an_index_that_never_ends_or_leads_elsewhere(answer: Answer) -> None:
    with server(answer) as where:
        start = time.monotonic()
        with pytest.raises(UnavailableError):
            index.Index(settings(f"http://{where}/simple")).link("pkg", "pkg-1.tar.gz")
        assert time.monotonic() - start < 8


def test_a_download_that_dribbles_is_given_up(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = load("v1.2.0").sdist
    assert pinned is not None
    (project.downloads / pinned.file).unlink()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path.endswith("/pkg/"):
            page = f'<a href="{pinned.file}">{pinned.file}</a>'.encode()
            handler.send_response(200)
            handler.send_header("Content-Type", "text/html")
            handler.send_header("Content-Length", str(len(page)))
            handler.end_headers()
            handler.wfile.write(page)
        else:
            dribble(handler)

    with server(answer) as where:
        monkeypatch.setattr(
            index, "pip_settings", lambda: settings(f"http://{where}/simple")
        )
        with pytest.raises(UnavailableError, match="could not be downloaded"):
            fetch.artifact(pinned)


def test_a_wrong_pin_costs_no_good_download(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = load("v1.2.0").sdist
    assert pinned is not None
    place = project.downloads / pinned.file
    content = place.read_bytes()
    monkeypatch.setattr(
        index, "pip_settings", lambda: settings("http://127.0.0.1:1/simple")
    )
    for wrong in (
        pinned.model_copy(update={"size": 7}),
        pinned.model_copy(update={"sha256": "0" * 64}),
    ):
        with pytest.raises(PatchsetError):
            fetch.artifact(wrong)
        assert place.read_bytes() == content


def test_a_part_that_is_a_link_is_not_followed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = load("v1.2.0").sdist
    assert pinned is not None
    content = (project.downloads / pinned.file).read_bytes()
    (project.downloads / pinned.file).unlink()
    links = tmp_path / "links"
    links.mkdir()
    (links / pinned.file).write_bytes(content)
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (project.downloads / f".{pinned.file}.part").symlink_to(victim)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        page = f'<a href="/{pinned.file}">{pinned.file}</a>'.encode()
        body = page if handler.path.endswith("/pkg/") else content
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with server(answer) as where:
        monkeypatch.setattr(
            index, "pip_settings", lambda: settings(f"http://{where}/simple")
        )
        assert fetch.artifact(pinned).read_bytes() == content
    assert victim.read_text() == "mine\n"


def test_credentials_stay_out_of_messages(capfd: pytest.CaptureFixture[str]) -> None:
    error = PatchsetError(
        "https://me:hunter2@index.example/simple fails",
        "try git+ssh://me:hunter2@host/x",
    )
    assert (
        "hunter2" not in f"{error} {error.message} {error.hint}"
        and "index.example" in error.message
    )
    assert PatchsetError("mail to me@example.org").message == "mail to me@example.org"
    console.note("https://me:hunter2@index.example/simple")
    with console.step("fetch from https://me:hunter2@index.example/"):
        pass
    with (
        pytest.raises(UnavailableError) as other,
        server(lambda handler: handler.send_error(403)) as where,
    ):
        index.Index(settings(f"http://me:hunter2@{where}/simple")).link(
            "pkg", "pkg-1.tar.gz"
        )
    said = capfd.readouterr()
    assert "hunter2" not in said.out + said.err + str(other.value)


def test_uv_is_given_the_index_and_its_credentials_as_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in uv's place says its arguments; the index says who asked."""
    asked: list[str | None] = []

    def refuse(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.headers["Authorization"])
        handler.send_error(403)

    program = tmp_path / "uv"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\nexec {lock.uv()} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(lock, "uv", lambda: str(program))
    with server(refuse) as where:
        monkeypatch.setattr(
            index, "pip_settings", lambda: settings(f"http://me:hunter2@{where}/simple")
        )
        with pytest.raises(PatchsetError) as caught:
            lock._write(tmp_path / "pylock.toml", [], ["pkg"], "x86_64", upgrade=False)
    assert asked[0] == "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert "hunter2" not in str(caught.value) + (tmp_path / "arguments").read_text()
