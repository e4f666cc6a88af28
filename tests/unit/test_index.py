# SPDX-License-Identifier: Apache-2.0
"""Index pages as real, broken and hostile servers send them; credentials."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from conftest import Project
from package_index import Answer, reply, server
from patchset import console
from patchset.errors import PatchsetError, UnavailableError
from patchset.inputs import fetch, index, lock
from patchset.inputs.index import Index, Link, Settings
from patchset.release import load

SHA = "0" * 64
NAME = "pkg-1.0.tar.gz"


def ask(page: object, kind: str = "application/vnd.pypi.simple.v1+json") -> list[Link]:
    body = page if isinstance(page, bytes) else json.dumps(page).encode()
    with server(lambda handler: reply(handler, body, kind)) as where:
        links = Index(Settings((f"http://{where}/index",))).files("pkg")
        return [link._replace(url=link.url.replace(where, "HOST")) for link in links]


def test_a_json_page_gives_names_sums_and_sizes() -> None:
    entry = {
        "filename": NAME,
        "url": f"../../f/{NAME}",
        "hashes": {"sha256": SHA},
        "size": 7,
    }
    assert ask({"files": [entry]}) == [Link(NAME, f"http://HOST/f/{NAME}", SHA, 7)]


@pytest.mark.parametrize(
    "page",
    [
        {"files": [7, None, {"filename": NAME}, {"filename": NAME, "url": 7}]},
        {"files": [{"filename": NAME, "url": NAME, "hashes": []}]},
        {"files": {}},
    ],
)
def test_odd_entries_are_left_out(page: object) -> None:
    assert ask(page) == []


@pytest.mark.parametrize(
    "page", [[], "text", {"meta": {}}, b"{", b"[" * 100_000, b"\xff"]
)
def test_what_is_no_index_page_is_no_answer(page: object) -> None:
    with pytest.raises(UnavailableError, match="is no index page"):
        ask(page)


def test_an_html_page_is_read_by_its_anchors() -> None:
    page = (
        f'<a href="../../f/{NAME}?y=1&amp;z#sha256={SHA}">x</a><a>none</a>'
        '<a data-requires-python="&gt;=3.9" href="pkg-1.1.tar.gz#md5=1">y</a>'
        '<a href="file:///etc/pkg-1.2.tar.gz">z</a><a href="pkg%2D1.4.tar.gz">q</a>'
    )
    assert ask(page.encode(), "text/html") == [
        Link(NAME, f"http://HOST/f/{NAME}?y=1&z"),
        Link("pkg-1.1.tar.gz", "http://HOST/index/pkg/pkg-1.1.tar.gz"),
        Link("pkg-1.4.tar.gz", "http://HOST/index/pkg/pkg%2D1.4.tar.gz"),
    ]
    with pytest.raises(UnavailableError, match="is no index page"):
        ask(b'<a href="http://[/pkg-1.3.tar.gz">bad</a>', "text/html")


def test_credentials_go_to_their_own_host_and_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login net password rc\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    page = {"files": [{"filename": NAME, "url": f"/{NAME}", "hashes": {}}]}
    kind = "application/vnd.pypi.simple.v1+json"
    authorized: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        authorized.append(handler.headers["Authorization"])
        status = 200 if handler.path == "/index/pkg/" else 403
        reply(handler, json.dumps(page).encode(), kind, status)

    for given, sent in (("me:hunter2@", b"me:hunter2"), ("", b"net:rc")):
        authorized.clear()
        with server(answer) as where:
            source = Index(Settings((f"http://{given}{where}/index",)))
            link = source.link("pkg", NAME)
            with source.get(link.url) as response:
                assert response.status_code == 403
        header = "Basic " + base64.b64encode(sent).decode()
        assert authorized == [header, header]


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"<a href=x></a>" * 10_000)


def leads_to(goal: str) -> Answer:
    return lambda handler: reply(handler, status=302, Location=goal)


def settings(url: str) -> index.Settings:
    return index.Settings((url,), timeout=5.0)


@pytest.mark.parametrize(
    "answer", [endless, leads_to("file:///etc/passwd"), leads_to("ftp://x/y")]
)
def test_an_index_that_never_ends_or_leads_elsewhere(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_PAGE", 1 << 20)
    with server(answer) as where, pytest.raises(UnavailableError):
        index.Index(settings(f"http://{where}/index")).link("pkg", "pkg-1.tar.gz")


def test_a_wrong_pin_costs_no_good_download(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 1)
    monkeypatch.setattr(index, "pip_settings", lambda: settings("http://127.0.0.1:1"))
    pinned = load("v1.2.0").sdist
    content = (project.downloads / pinned.file).read_bytes()
    with pytest.raises(PatchsetError):
        fetch.artifact(pinned.model_copy(update={"sha256": "0" * 64}))
    assert (project.downloads / pinned.file).read_bytes() == content


def test_credentials_stay_out_of_messages(capfd: pytest.CaptureFixture[str]) -> None:
    error = PatchsetError(
        "https://me:hunter2@index.example/index fails",
        "try git+ssh://me:hunter2@host/x",
    )
    assert (
        "hunter2" not in f"{error} {error.message} {error.hint}"
        and "index.example" in error.message
    )
    assert PatchsetError("mail to me@example.org").message == "mail to me@example.org"
    console.note("https://me:hunter2@index.example/index")
    with console.step("fetch from https://me:hunter2@index.example/"):
        pass
    with (
        pytest.raises(UnavailableError) as other,
        server(lambda handler: handler.send_error(403)) as where,
    ):
        index.Index(settings(f"http://me:hunter2@{where}/index")).link(
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
            index, "pip_settings", lambda: settings(f"http://me:hunter2@{where}/index")
        )
        with pytest.raises(PatchsetError) as caught:
            lock._write(tmp_path / "pylock.toml", [], ["pkg"], "x86_64", upgrade=False)
    assert asked[0] == "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert "hunter2" not in str(caught.value) + (tmp_path / "arguments").read_text()
