# SPDX-License-Identifier: Apache-2.0
"""Downloads against a real HTTP server that fails as real ones do."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import tar
from package_index import PackageIndex, configured
from patchset import console, files
from patchset.errors import (
    NoSpaceError,
    NotFoundError,
    PatchsetError,
    UnavailableError,
)
from patchset.inputs import fetch, pin, unpack
from patchset.inputs.index import pip_settings
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
    """An index that has the pinned file."""
    monkeypatch.setattr(fetch, "FIRST_PAUSE", 0.01)
    with configured({NAME: CONTENT}, monkeypatch) as running:
        yield running


def ranges(index: PackageIndex) -> list[str | None]:
    return [asked for _, asked in index.downloads()]


def test_download_is_verified_and_done_once(
    index: PackageIndex, downloads: Path
) -> None:
    file = fetch.artifact(PINNED)
    assert file.read_bytes() == CONTENT
    fetch.artifact(PINNED)
    assert len(index.downloads()) == 1
    file.write_bytes(CONTENT[:-5] + b"zzzzz")
    assert fetch.artifact(PINNED).read_bytes() == CONTENT


def test_cut_connection_is_resumed(index: PackageIndex) -> None:
    index.cut = [1_000_000, 500_000]
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert ranges(index) == [None, "bytes=1000000-", "bytes=1500000-"]


def test_server_without_ranges_starts_over(index: PackageIndex) -> None:
    index.cut, index.ranges = [1_000_000], False
    assert fetch.artifact(PINNED).read_bytes() == CONTENT


def test_server_errors_are_retried_and_bounded(
    index: PackageIndex, downloads: Path
) -> None:
    index.errors = 2
    fetch.artifact(PINNED).unlink()
    index.errors = 1000
    with pytest.raises(UnavailableError, match="could not be downloaded") as raised:
        fetch.artifact(PINNED)
    assert str(downloads) in (raised.value.hint or "")
    assert len(index.requests) < 40
    assert not (downloads / NAME).exists()


def test_wrong_content_names_both_hashes_and_is_not_kept(
    index: PackageIndex, downloads: Path
) -> None:
    index.files[NAME] = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    said = f"sha256 [0-9a-f]{{64}}, pinned is {PINNED.sha256}"
    with pytest.raises(PatchsetError, match=said):
        fetch.artifact(PINNED)
    assert {file.suffix for file in downloads.iterdir()} == {".lock"}
    index.files[NAME] = CONTENT
    assert fetch.artifact(PINNED).read_bytes() == CONTENT


def test_longer_and_shorter_files_are_refused(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 2)
    index.files[NAME] = CONTENT + b"more"
    with pytest.raises(PatchsetError, match="more than the pinned"):
        fetch.artifact(PINNED)
    index.files[NAME] = CONTENT[:-10]
    with pytest.raises(UnavailableError, match="the server sent"):
        fetch.artifact(PINNED)


def test_a_server_that_refuses_to_go_on_is_asked_from_the_start(
    index: PackageIndex,
) -> None:
    index.cut, index.refused_ranges = [1000], 1
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert ranges(index) == [None, "bytes=1000-", None]


def test_nothing_is_left_of_an_interrupted_download(
    index: PackageIndex, downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    index.cut = [1000]
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(console, "note", interrupted)
        fetch.artifact(PINNED)
    assert [file.suffix for file in downloads.iterdir()] == [".lock"]
    (downloads / f".tmp-killed-{NAME}").mkdir()
    assert fetch.artifact(PINNED).read_bytes() == CONTENT
    assert not list(downloads.glob(".tmp-*"))


def test_a_pipe_in_the_place_of_a_download_is_replaced(
    index: PackageIndex, downloads: Path
) -> None:
    os.mkfifo(downloads / NAME)
    assert fetch.artifact(PINNED).read_bytes() == CONTENT


def test_two_runs_at_once_download_once(index: PackageIndex) -> None:
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


def test_settings_of_pip_count_in_its_own_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\ntimeout = 7\nno-index = false\n"
        "[download]\nindex-url = https://a.example/index\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    pip_settings.cache_clear()
    assert pip_settings().timeout == 180
    assert pip_settings().index_urls[0] == "https://a.example/index"
    monkeypatch.delenv("PIP_DEFAULT_TIMEOUT")
    for broken in ("[global]\ntimeout = soon\n", "[global\n"):
        config.write_text(broken)
        pip_settings.cache_clear()
        with pytest.raises(PatchsetError, match="pip does not show its configuration"):
            pip_settings()
    pip_settings.cache_clear()


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


def test_a_disk_that_is_full_while_a_folder_is_copied_is_said_like_any_other(
    tmp_path: Path,
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "series").write_text("")

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (
        pytest.raises(NoSpaceError, match="the disk is full"),
        files.atomic_folder(tmp_path / "new") as temp,
    ):
        shutil.copytree(source, temp / "all", copy_function=no_space)
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder that an archive is unpacked into."""
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def archive(target: Path, *more: tarfile.TarInfo, **files: bytes) -> Path:
    """An archive beside ``target`` with a right file, files and more entries."""
    place = target.with_name("bad.tar.gz")
    place.write_bytes(tar({"top/ok": b"fine", **files}, *more, form="w:gz"))
    return place


def entry(name: str, kind: bytes, goal: str = "") -> tarfile.TarInfo:
    """A link or a device."""
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
    ],
    ids=str,
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
    file = archive(target, **{"top/large": random.Random(2).randbytes(100_000)})
    monkeypatch.setattr(unpack, "MAX_BYTES", 50_000)
    with pytest.raises(PatchsetError, match="larger than"):
        unpack.sdist(file, target)
    monkeypatch.undo()
    file.write_bytes(file.read_bytes()[:50_000])
    with pytest.raises(PatchsetError, match="cannot be unpacked"):
        unpack.sdist(file, target / "again")


@pytest.mark.usefixtures("narrow_umask")
def test_modes_do_not_depend_on_the_umask(target: Path) -> None:
    unpack.sdist(archive(target, **{"top/folder/ok": b""}), target)
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


@pytest.mark.parametrize("map_", ["x", "9" * 5000])
def test_a_broken_sparse_map_is_said_with_the_archives_name(
    target: Path, map_: str
) -> None:
    headers = {"GNU.sparse.map": map_, "GNU.sparse.size": "10"}
    file = target.with_name("sparse.tar")
    file.write_bytes(tar({"top/file": b""}, tarfile.TarInfo("top/other"), **headers))
    with pytest.raises(PatchsetError, match=file.name):
        unpack.sdist(file, target)


def test_a_fifo_is_no_archive(target: Path) -> None:
    os.mkfifo(target / "pipe.tar.gz")
    with pytest.raises(PatchsetError, match="no regular file"):
        unpack.sdist(target / "pipe.tar.gz", target)
