# SPDX-License-Identifier: Apache-2.0
"""Index pages as real and as broken servers send them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from package_index import answering
from patchset.errors import PatchsetError, UnavailableError
from patchset.inputs.index import Index, Link, Settings

SHA = "0" * 64
NAME = "pkg-1.0.tar.gz"


def ask(page: object, kind: str = "application/vnd.pypi.simple.v1+json") -> list[Link]:
    body = page if isinstance(page, bytes) else json.dumps(page).encode()
    with answering({"/simple/pkg/": (200, kind, body)}) as where:
        links = Index(Settings((f"http://{where}/simple",))).files("pkg")
        return [link._replace(url=link.url.replace(where, "HOST")) for link in links]


def test_a_json_page_gives_names_sums_and_sizes() -> None:
    entry = {
        "filename": NAME,
        "url": f"../../f/{NAME}",
        "hashes": {"sha256": SHA},
        "size": 7,
    }
    other = {**entry, "filename": "other-1.0.tar.gz"}
    assert ask({"files": [entry, other]}) == [
        Link(NAME, f"http://HOST/f/{NAME}", SHA, 7)
    ]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"hashes": []}, (None, None)),
        ({"hashes": {"sha256": 5}}, (None, None)),
        ({"hashes": {"sha256": "x" * 64}}, (None, None)),
        ({"hashes": {"sha256": SHA}, "size": "7"}, (SHA, None)),
        ({"hashes": {"sha256": SHA}, "size": -7}, (SHA, None)),
    ],
)
def test_odd_fields_of_a_file_are_unknown(
    entry: dict[str, object], expected: tuple[object, ...]
) -> None:
    [link] = ask({"files": [{"filename": NAME, "url": NAME, **entry}]})
    assert (link.sha256, link.size) == expected


@pytest.mark.parametrize(
    "page",
    [
        {"files": [7, None, {"filename": NAME}, {"filename": NAME, "url": 7}]},
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
        f'<base href="http://files.example/x/"><a href="a/{NAME}?y=1#sha256={SHA}">x</a>'
        f'<a href="pkg-1.1.tar.gz#md5=1">y</a><a href="file:///etc/pkg-1.2.tar.gz">z</a>'
        f'<a>none</a><a href="http://[/pkg-1.3.tar.gz">bad</a><a href="pkg%2D1.4.tar.gz">q</a>'
    )
    found = ask(page.encode(), "text/html")
    assert found == [
        Link(NAME, f"http://files.example/x/a/{NAME}?y=1", SHA),
        Link("pkg-1.1.tar.gz", "http://files.example/x/pkg-1.1.tar.gz"),
        Link("pkg-1.4.tar.gz", "http://files.example/x/pkg%2D1.4.tar.gz"),
    ]


def test_credentials_go_to_their_own_host_and_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login net password rc\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    page = {"files": [{"filename": NAME, "url": f"/{NAME}", "hashes": {}}]}
    kind = "application/vnd.pypi.simple.v1+json"
    pages = {
        "/simple/pkg/": (200, kind, json.dumps(page).encode()),
        f"/{NAME}": (403, kind, b""),
    }
    for given, sent in (("me:hunter2@", b"me:hunter2"), ("", b"net:rc")):
        with answering(pages) as where:
            source = Index(Settings((f"http://{given}{where}/simple",)))
            link = source.link("pkg", NAME)
            with pytest.raises(PatchsetError) as caught:
                source.size(link)
        assert "hunter2" not in str(caught.value)
        header = "Basic " + base64.b64encode(sent).decode()
        assert answering.authorized == [header, header]
