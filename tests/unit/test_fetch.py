# SPDX-License-Identifier: Apache-2.0
"""Downloads, index pages and credentials, with servers that fail or are hostile."""

import base64
import errno
import hashlib
import json
import os
import random
import shutil
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from uv import find_uv_bin

from conftest import lay, program, tar
from package_index import (
    JSON_PAGE,
    Answer,
    PackageIndex,
    begin,
    configured,
    reply,
    server,
)
from patchset import console, files
from patchset.errors import NoSpaceError, NotFoundError, PatchsetError, UnavailableError
from patchset.inputs import fetch, lock, pin, unpack
from patchset.inputs import index as pages
from patchset.inputs.index import Index, Link, Settings, pip_settings
from patchset.release import Artifact

NAME = "pkg-1.2.0.tar.gz"
CONTENT = random.Random(1).randbytes(3 << 20)
PINNED = Artifact(
    project="pkg",
    file=NAME,
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
)


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATCHSET_DOWNLOADS", str(tmp_path / "downloads"))
    (tmp_path / "downloads").mkdir()
    return tmp_path / "downloads"


@pytest.fixture
def index(downloads: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """Make an index that has the pinned file."""
    monkeypatch.setattr(fetch, "FIRST_PAUSE", 0.01)
    with configured({NAME: CONTENT}, monkeypatch) as running:
        yield running


def test_download_is_verified_and_done_once(
    index: PackageIndex, downloads: Path
) -> None:
    file = fetch.artifact(PINNED)
    assert file.read_bytes() == CONTENT
    fetch.artifact(PINNED)
    assert len(index.downloads()) == 1
    file.write_bytes(b"somebody's own file of that name")
    with pytest.raises(PatchsetError, match="is not the pinned file"):
        fetch.artifact(PINNED)
    assert file.read_bytes() == b"somebody's own file of that name"


@pytest.mark.parametrize(
    ("cut", "ranges", "statuses", "asked"),
    [
        ([1_000_000, 500_000], True, [], ["bytes=1000000-", "bytes=1500000-"]),
        # A server that knows no ranges, or refuses this one, is asked from the start.
        ([1_000_000], False, [], ["bytes=1000000-"]),
        # Statuses of page, file, page, file.
        ([1_000_000], False, [200, 200, 200, 416], ["bytes=1000000-", None]),
    ],
    ids=["resumed", "no ranges", "refused"],
)
def test_a_cut_connection(
    index: PackageIndex,
    cut: list[int],
    ranges: bool,
    statuses: list[int],
    asked: list[str | None],
) -> None:
    index.cut, index.ranges, index.statuses = [*cut], ranges, [*statuses]
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert [range_ for _, range_ in index.downloads()] == [None, *asked]


def test_server_errors_are_retried_and_bounded(
    index: PackageIndex, downloads: Path
) -> None:
    index.statuses = [500, 500]
    fetch.artifact(PINNED).unlink()
    index.statuses = [500] * 1000
    with pytest.raises(UnavailableError, match="could not be downloaded") as raised:
        fetch.artifact(PINNED)
    assert str(downloads) in (raised.value.hint or "")
    assert len(index.requests) < 40
    assert not (downloads / NAME).exists()


WRONG = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (WRONG, PatchsetError, f"sha256 [0-9a-f]{{64}}, pinned is {PINNED.sha256}"),
        (CONTENT + b"more", PatchsetError, "more than the pinned"),
        (CONTENT[:-10], UnavailableError, "the server sent"),
    ],
    ids=["other", "longer", "shorter"],
)
def test_what_is_not_the_pinned_file_is_refused_and_not_kept(
    index: PackageIndex,
    downloads: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    error: type[PatchsetError],
    said: str,
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 2)
    index.files[NAME] = content
    with pytest.raises(error, match=said):
        fetch.artifact(PINNED)
    assert {file.suffix for file in downloads.iterdir()} == {".lock"}
    index.files[NAME] = CONTENT
    assert fetch.artifact(PINNED).read_bytes() == CONTENT


def test_nothing_is_left_of_an_interrupted_download(
    index: PackageIndex, downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.cut = [1000]
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(console, "note", Mock(side_effect=KeyboardInterrupt))
        fetch.artifact(PINNED)
    assert [file.suffix for file in downloads.iterdir()] == [".lock"]
    (downloads / f".tmp-killed-{NAME}").mkdir()
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert not list(downloads.glob(".tmp-*"))


def test_two_runs_at_once_download_once(index: PackageIndex, downloads: Path) -> None:
    os.mkfifo(downloads / NAME)  # it is replaced
    index.pace = 0.02
    with ThreadPoolExecutor() as pool:
        list(pool.map(fetch.artifact, [PINNED, PINNED]))
    assert len(index.downloads()) == 1


def test_a_disk_that_is_too_small_is_said_before(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=4 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(NoSpaceError, match="are needed, headroom included"):
        fetch.artifact(PINNED)
    assert index.requests == []


@pytest.mark.parametrize(
    "dead", ["http://127.0.0.1:1/index", "http://no-such-host.invalid/index", ""]
)
def test_a_first_index_of_no_use_does_not_keep_another_from_being_asked(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: str
) -> None:
    (tmp_path / "pip.conf").write_text(f"[global]\nextra-index-url = {index.url}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", dead or f"{index.url}/nothing-here")
    pip_settings.cache_clear()
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    fetch.artifact(PINNED).unlink()
    index.files.clear()
    index.requests.clear()
    said = "no index answers" if dead else "no configured package index has"
    with pytest.raises(UnavailableError, match=said) as caught:
        fetch.artifact(PINNED)
    assert isinstance(caught.value, NotFoundError) != bool(dead)
    assert dead or len(index.requests) == 2, "asking again changes nothing"


@pytest.fixture
def other(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackageIndex]:
    """Make a second index that has the pinned file."""
    made = PackageIndex({NAME: CONTENT})
    with server(made.answer) as where:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"http://{where}/index")
        pip_settings.cache_clear()
        yield made


@pytest.mark.parametrize("status", [404, 500])
def test_another_index_that_has_the_file_is_asked_for_it(
    index: PackageIndex, other: PackageIndex, status: int
) -> None:
    index.statuses = [200, status]
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert len(index.downloads()) == len(other.downloads()) == 1
    fetch.artifact(PINNED).unlink()
    index.statuses = [200, 404]
    other.statuses = [200, 404]
    with pytest.raises(NotFoundError, match="answers 404"):
        fetch.artifact(PINNED)


def test_a_cut_connection_is_resumed_where_it_was_cut(
    index: PackageIndex, other: PackageIndex
) -> None:
    index.cut = [1_000_000]
    other.files[NAME] = WRONG
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert other.downloads() == []
    fetch.artifact(PINNED).unlink()
    other.hashes = True  # it says that its file is another one
    index.statuses = [200, 500]
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert other.downloads() == []


def test_settings_of_pip_count_in_its_own_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = pip_settings.__wrapped__  # each time anew
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\ntimeout = 7\nno-index = false\n"
        "[download]\nindex-url = https://a.example/index\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    monkeypatch.setenv("PIP_QUIET", "1")
    assert read().timeout == 180
    assert read().index_urls[0] == "https://a.example/index"
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "1e400")
    assert read().timeout == 3600
    monkeypatch.delenv("PIP_DEFAULT_TIMEOUT")
    for broken in ("[global]\ntimeout = soon\n", "[global\n"):
        config.write_text(broken)
        with pytest.raises(PatchsetError, match="pip does not show its configuration"):
            read()
    config.unlink()
    os.mkfifo(config)
    monkeypatch.setattr(pages, "PIP_TIME", 3)
    with pytest.raises(PatchsetError, match="timed out after 3 seconds"):
        read()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PIP_PROXY", "nonsense://"),
        ("PIP_CERT", "/nowhere/cert.pem"),
        ("PIP_CLIENT_CERT", "/dev/null"),
        ("PIP_TIMEOUT", "soon"),
        ("PIP_INDEX_URL", "http://[/index"),
    ],
)
def test_a_wrong_setting_ends_in_a_message(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 1)
    monkeypatch.setenv(variable, value)
    pip_settings.cache_clear()
    with pytest.raises(PatchsetError) as caught:
        fetch.artifact(PINNED)
    assert value.partition("/")[0] in caught.value.message and caught.value.hint


@pytest.mark.timeout(30)
def test_a_run_does_not_wait_for_itself(tmp_path: Path) -> None:
    with files.scratch(tmp_path) as work:
        files.write_text(work / "inside", "x")
        files.write_text(work.parent / "beside", "x")
        with files.scratch(tmp_path), files.scratch(work.parent) as nested:
            assert work.is_dir() and nested.is_dir()
    assert not list(tmp_path.iterdir())


NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_while_a_folder_is_copied_is_said_like_any_other(
    tmp_path: Path,
) -> None:
    source = lay(tmp_path / "source", {"series": ""})
    with (
        pytest.raises(NoSpaceError, match="the disk is full"),
        files.atomic_folder(tmp_path / "new") as temp,
    ):
        shutil.copytree(source, temp / "all", copy_function=Mock(side_effect=NO_SPACE))
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def archive(
    target: Path, *more: tarfile.TarInfo, name: str = "top/ok", content: bytes = b"fine"
) -> Path:
    """Return an archive beside ``target`` with a right file, and more entries behind
    it.
    """
    place = target.with_name("bad.tar.gz")
    place.write_bytes(tar({name: content}, *more, form="w:gz"))
    return place


def entry(name: str, kind: bytes, goal: str = "") -> tarfile.TarInfo:
    """Return a link or a device."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, goal
    return member


@pytest.mark.parametrize(
    "member",
    [
        tarfile.TarInfo("../evil"),
        tarfile.TarInfo("/evil"),
        tarfile.TarInfo("top/../../evil"),
        entry("top/link", tarfile.SYMTYPE, "ok"),
        entry("top/hard", tarfile.LNKTYPE, "top/ok"),
        entry("top/device", tarfile.CHRTYPE),
        tarfile.TarInfo("beside/file"),
        tarfile.TarInfo("top/ok"),  # a second time
    ],
    ids=lambda member: member.name,
)
def test_archives_cannot_leave_their_folder(
    target: Path, member: tarfile.TarInfo
) -> None:
    with pytest.raises(PatchsetError):
        unpack.sdist(archive(target, member), target)
    found = sorted(path.name for path in target.parent.iterdir())
    assert found == ["bad.tar.gz", "target"]


def test_truncated_and_oversized_archives(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive(target, content=random.Random(2).randbytes(100_000))
    monkeypatch.setattr(unpack, "MAX_BYTES", 50_000)
    with pytest.raises(PatchsetError, match="larger than"):
        unpack.sdist(file, target)
    monkeypatch.undo()
    file.write_bytes(file.read_bytes()[:50_000])
    with pytest.raises(PatchsetError, match="cannot be unpacked"):
        unpack.sdist(file, target)


@pytest.mark.usefixtures("narrow_umask")
def test_modes_do_not_depend_on_the_umask(target: Path) -> None:
    unpack.sdist(archive(target, name="top/folder/ok"), target)
    assert (target / "folder/ok").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "time_", ["nan", "inf", "-5", "-1e300", "1e300", "9999999999999"]
)
def test_odd_times_in_an_archive_are_no_times(target: Path, time_: str) -> None:
    members = {
        "top/PKG-INFO": "Requires-Dist: torch==2.0\n",
        "top/vllm/_version.py": "__commit_id__ = 'g012345a'\n",
    }
    newest, last = tarfile.TarInfo("top/newest"), tarfile.TarInfo("top/last")
    newest.mtime = 1_700_000_000
    file = target.with_name("odd.tar.gz")
    file.write_bytes(tar(members, newest, last, form="w:gz", mtime=time_))
    assert pin.read_sdist(file) == ("012345a", "2.0", 1_700_000_000)
    unpack.sdist(file, target)
    assert (target / "PKG-INFO").read_text() == members["top/PKG-INFO"]


def sparse(map_: str) -> bytes:
    headers = {"GNU.sparse.map": map_, "GNU.sparse.size": "10"}
    return tar({"top/file": b""}, tarfile.TarInfo("top/other"), **headers)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (sparse("x"), "broken.tar"),
        (sparse("9" * 5000), "broken.tar"),
        (tar({f"pkg/{'d/' * 1500}x": ""}), "nested folders"),
    ],
    ids=["no map", "a large number", "very many nested folders"],
)
def test_a_broken_archive_is_said(target: Path, content: bytes, said: str) -> None:
    file = target.with_name("broken.tar")
    file.write_bytes(content)
    with pytest.raises(PatchsetError, match=said):
        unpack.sdist(file, target)


def test_a_fifo_is_no_archive(target: Path) -> None:
    os.mkfifo(target / "pipe.tar.gz")
    with pytest.raises(PatchsetError, match="not a regular file"):
        unpack.sdist(target / "pipe.tar.gz", target)


SHA = "0" * 64


def ask(page: object, kind: str = JSON_PAGE) -> list[Link]:
    body = page if isinstance(page, bytes) else json.dumps(page).encode()
    with server(lambda handler: reply(handler, body, kind)) as where:
        links = Index(Settings((f"http://{where}/index",))).files("pkg")
        return [link._replace(url=link.url.replace(where, "HOST")) for link in links]


WHOLE = {"filename": NAME, "url": f"../../f/{NAME}", "size": 7}


@pytest.mark.parametrize(
    ("files", "links"),
    [
        (
            [{**WHOLE, "hashes": {"sha256": SHA}}],
            [Link(NAME, f"http://HOST/f/{NAME}", SHA, 7)],
        ),
        # Odd entries are left out.
        ([7, None, {"filename": NAME}, {"filename": NAME, "url": 7}], []),
        ([{**WHOLE, "hashes": []}], []),
        ({}, []),
    ],
)
def test_a_json_page_gives_names_sums_and_sizes(
    files: object, links: list[Link]
) -> None:
    assert ask({"files": files}) == links


@pytest.mark.parametrize(
    "page", [[], "text", {"meta": {}}, b"{", b"[" * 100_000, b"\xff"]
)
def test_what_is_no_index_page_is_no_answer(page: object) -> None:
    with pytest.raises(UnavailableError, match="is not an index page"):
        ask(page)


def test_an_html_page_is_read_by_its_anchors() -> None:
    page = (
        f'<a href="../../f/{NAME}?y=1&amp;z#sha256={SHA}">x</a><a>none</a>'
        '<a data-requires-python="&gt;=3.9" href="pkg-1.1.tar.gz#md5=1">y</a>'
        '<a href="file:///etc/pkg-1.2.tar.gz">z</a><a href="pkg%2D1.4.tar.gz">q</a>'
        '<!-- <a href="pkg-1.5.tar.gz">gone</a> --><A HREF=pkg-1.6.tar.gz>r</A>'
    )
    assert ask(page.encode(), "text/html") == [
        Link(NAME, f"http://HOST/f/{NAME}?y=1&z"),
        Link("pkg-1.1.tar.gz", "http://HOST/index/pkg/pkg-1.1.tar.gz"),
        Link("pkg-1.4.tar.gz", "http://HOST/index/pkg/pkg%2D1.4.tar.gz"),
        Link("pkg-1.6.tar.gz", "http://HOST/index/pkg/pkg-1.6.tar.gz"),
    ]
    assert ask(b"<a " * 60_000, "text/html") == []
    with pytest.raises(UnavailableError, match="is not an index page"):
        ask(b'<a href="http://[/pkg-1.3.tar.gz">bad</a>', "text/html")


def test_credentials_go_to_their_own_host_and_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login net password rc\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    page = {"files": [{"filename": NAME, "url": f"/{NAME}", "hashes": {}}]}
    authorized: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        authorized.append(handler.headers["Authorization"])
        status = 200 if handler.path == "/index/pkg/" else 403
        reply(handler, json.dumps(page).encode(), JSON_PAGE, status)

    for given, sent in (("me:hunter2@", b"me:hunter2"), ("", b"net:rc")):
        authorized.clear()
        with server(answer) as where:
            source = Index(Settings((f"http://{given}{where}/index",)))
            with source.get(source.links("pkg", NAME)[0].url) as response:
                assert response.status_code == 403
        header = "Basic " + base64.b64encode(sent).decode()
        assert authorized == [header, header]


def endless(handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    while True:
        handler.wfile.write(b"<a href=x></a>" * 10_000)


def drips(handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.1)


def leads_to(goal: str) -> Answer:
    return lambda handler: reply(handler, status=302, Location=goal)


def settings(url: str) -> Settings:
    return Settings((url,), timeout=5.0)


@pytest.mark.parametrize(
    "answer", [endless, drips, leads_to("file:///etc/passwd"), leads_to("ftp://x/y")]
)
def test_an_index_that_never_ends_or_leads_elsewhere(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_PAGE", 1 << 20)
    monkeypatch.setattr(pages, "PAGE_TIME", 1)
    with server(answer) as where, pytest.raises(UnavailableError):
        Index(settings(f"http://{where}/index")).links("pkg", "pkg-1.tar.gz")


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
        Index(settings(f"http://me:hunter2@{where}/index")).links("pkg", "pkg-1.tar.gz")
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

    script = f'echo "$@" >> {tmp_path}/arguments\nexec {find_uv_bin()} "$@"'
    uv = program(tmp_path / "uv", script)
    monkeypatch.setattr(lock, "find_uv_bin", lambda: str(uv))
    with server(refuse) as where:
        monkeypatch.setattr(
            pages, "pip_settings", lambda: settings(f"http://me:hunter2@{where}/index")
        )
        with pytest.raises(PatchsetError) as caught:
            lock._write(tmp_path / "pylock.toml", [], ["pkg"], "x86_64", upgrade=False)
    assert asked[0] == "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert "hunter2" not in str(caught.value) + (tmp_path / "arguments").read_text()


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".x.lock").symlink_to(tmp_path / "planted")
    with pytest.raises(OSError), files.lock(tmp_path / "x"):
        pass
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("module", "name", "ends"),
    [(os, "fsync", [None, NO_SPACE]), (Path, "write_text", NO_SPACE)],
)
def test_files_that_belong_together_are_replaced_when_all_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, ends: Any
) -> None:
    one, two = lay(tmp_path, {"one": "1", "two": "2"}) / "one", tmp_path / "two"
    monkeypatch.setattr(module, name, Mock(side_effect=ends))
    with pytest.raises(NoSpaceError, match="the disk is full"):
        files.write_all({one: "a", two: "b"})
    assert (one.read_text(), two.read_text()) == ("1", "2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
