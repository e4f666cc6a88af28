# SPDX-License-Identifier: Apache-2.0
"""Downloads against a real HTTP server that fails as real ones do."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Project, release_toml
from package_index import PackageIndex, serving
from patchset import files
from patchset.errors import (
    NoSpaceError,
    NotFoundError,
    PatchsetError,
    UnavailableError,
)
from patchset.inputs import fetch, pin, unpack
from patchset.inputs.index import pip_settings
from patchset.release import Artifact, load

NAME = "pkg-1.2.0.tar.gz"


@pytest.fixture
def index(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """The project's source is on an index instead of in its downloads, and is 3 MB of noise longer."""
    source = project.downloads / NAME
    with tarfile.open(source, "r:gz") as old:
        members = [(m, old.extractfile(m).read()) for m in old.getmembers()]  # type: ignore[union-attr]
    noise = tarfile.TarInfo("pkg-1.2.0/noise")
    noise.size = 3 << 20
    members.append((noise, random.Random(1).randbytes(noise.size)))
    with tarfile.open(source, "w:gz") as new:
        for member, content in members:
            new.addfile(member, io.BytesIO(content))
    (project.folder / "release.toml").write_text(release_toml(source))
    content = source.read_bytes()
    source.unlink()
    with serving({NAME: content}) as running:
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", running.url)
        monkeypatch.setattr(fetch, "FIRST_PAUSE", 0.01)
        pip_settings.cache_clear()
        yield running
    pip_settings.cache_clear()


def pinned() -> Artifact:
    return load().sdist


def test_download_is_verified_and_done_once(
    index: PackageIndex, project: Project
) -> None:
    file = fetch.artifact(pinned())
    assert file.read_bytes() == index.files[NAME]
    fetch.artifact(pinned())
    assert len(index.downloads()) == 1
    assert not [
        path for path in project.downloads.iterdir() if path.name.endswith(".part")
    ]


def test_cut_connection_is_resumed(index: PackageIndex) -> None:
    index.cut = [1_000_000, 500_000]
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]
    assert [asked for _, asked in index.downloads()] == [
        None,
        "bytes=1000000-",
        "bytes=1500000-",
    ]


def test_server_without_ranges_starts_over(index: PackageIndex) -> None:
    index.cut, index.ranges = [1_000_000], False
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]


def test_server_errors_are_retried_and_bounded(
    index: PackageIndex, project: Project
) -> None:
    index.errors = 2
    fetch.artifact(pinned()).unlink()
    index.errors = 1000
    with pytest.raises(UnavailableError, match="could not be downloaded") as raised:
        fetch.artifact(pinned())
    assert (raised.value.hint or "").startswith(
        "check the network, then run the same command again"
    )
    assert len(index.requests) < 40
    assert not (project.downloads / NAME).exists()


def test_wrong_content_names_both_hashes_and_is_not_kept(
    index: PackageIndex, project: Project
) -> None:
    good = index.files[NAME]
    index.files[NAME] = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(
        PatchsetError, match=f"sha256 [0-9a-f]{{64}}, pinned is {pinned().sha256}"
    ):
        fetch.artifact(pinned())
    assert [
        path.name
        for path in project.downloads.iterdir()
        if not path.name.endswith(".lock")
    ] == []
    index.files[NAME] = good
    assert fetch.artifact(pinned()).read_bytes() == good


def test_longer_and_shorter_files_are_refused(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 2)
    good = index.files[NAME]
    index.files[NAME] = good + b"more"
    with pytest.raises(PatchsetError, match="more than the pinned"):
        fetch.artifact(pinned())
    index.files[NAME] = good[:-10]
    with pytest.raises(UnavailableError, match="the server sent"):
        fetch.artifact(pinned())


def test_damaged_cache_is_fetched_again(index: PackageIndex) -> None:
    file = fetch.artifact(pinned())
    file.write_bytes(file.read_bytes()[:-5] + b"zzzzz")
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]


def test_an_extra_index_is_asked(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(f"[global]\nextra-index-url = {index.url}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", index.url + "/nothing-here")
    pip_settings.cache_clear()
    settings = pip_settings()
    assert settings.index_urls == (index.url + "/nothing-here", index.url)
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]


def test_settings_of_pip_count_in_its_own_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\ntimeout = 7\nno-index = false\n[download]\nindex-url = https://a.example/simple\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "180")
    pip_settings.cache_clear()
    assert pip_settings().timeout == 180
    assert pip_settings().index_urls[0] == "https://a.example/simple"
    config.write_text("[global]\ntimeout = soon\n")
    monkeypatch.delenv("PIP_DEFAULT_TIMEOUT")
    pip_settings.cache_clear()
    with pytest.raises(PatchsetError, match="pip does not show its configuration"):
        pip_settings()
    config.write_text("[global\n")
    pip_settings.cache_clear()
    with pytest.raises(PatchsetError, match="pip does not show its configuration"):
        pip_settings()


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


def test_missing_file_says_who_was_asked(index: PackageIndex) -> None:
    index.files.clear()
    with pytest.raises(UnavailableError, match="no configured package index has"):
        fetch.artifact(pinned())
    assert len(index.requests) == 1, "asking again changes nothing"


def test_wrong_rest_of_an_earlier_run_is_fetched_anew(
    index: PackageIndex, project: Project
) -> None:
    (project.downloads / f".{NAME}.part").write_bytes(b"x" * 1000)
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]
    assert [asked for _, asked in index.downloads()] == ["bytes=1000-", None]


def test_two_runs_at_once_download_once(index: PackageIndex, project: Project) -> None:
    index.pace = 0.02
    command = [sys.executable, "-m", "patchset", "fetch"]
    runs = [
        subprocess.Popen(
            command, cwd=project.root, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in "ab"
    ]
    for run in runs:
        _, words = run.communicate(timeout=60)
        assert run.returncode == 0, words.decode()
    assert len(index.downloads()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_disk_is_said_and_leaves_nothing(
    index: PackageIndex,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)],
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode()}")
    try:
        monkeypatch.setenv("PATCHSET_DOWNLOADS", str(disk / "downloads"))
        message = project.run("fetch", status=7).stderr
        assert "are needed, headroom included" in message
        monkeypatch.setenv("PATCHSET_DOWNLOADS", str(project.downloads))
        monkeypatch.setenv("PATCHSET_BUILD_DIR", str(disk / "build"))
        message = project.run("apply", status=7).stderr
        assert "the disk is full" in message and "or set PATCHSET_BUILD_DIR" in message
        assert [
            path.name
            for path in (disk / "build/trees/v1.2.0").iterdir()
            if not path.name.endswith(".lock")
        ] == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_part_that_the_server_cannot_go_on_with_is_dropped(
    index: PackageIndex, project: Project
) -> None:
    part = project.downloads / f".{NAME}.part"
    part.write_bytes(index.files[NAME][:1000])
    index.refused_ranges = 1
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]
    assert [asked for _, asked in index.downloads()] == ["bytes=1000-", None]


@pytest.mark.parametrize(
    "dead", ["http://127.0.0.1:1/simple", "http://no-such-host.invalid/simple"]
)
def test_a_dead_index_does_not_keep_another_from_being_asked(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch, dead: str
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", dead)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", index.url)
    pip_settings.cache_clear()
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]
    index.files.clear()
    fetch.artifact(pinned()).unlink()
    with pytest.raises(UnavailableError, match="no index answers") as caught:
        fetch.artifact(pinned())
    assert not isinstance(caught.value, NotFoundError)


def test_another_name_of_a_file_is_not_written_through(
    index: PackageIndex, project: Project, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    part = project.downloads / f".{NAME}.part"
    os.link(victim, part)
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]
    assert victim.read_text() == "mine"
    fetch.artifact(pinned()).unlink()
    part.symlink_to(victim)
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]
    assert victim.read_text() == "mine"
    fetch.artifact(pinned()).unlink()
    os.mkfifo(part)
    os.mkfifo(project.downloads / NAME)
    assert fetch.artifact(pinned()).read_bytes() == index.files[NAME]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PIP_PROXY", "nonsense://"),
        ("PIP_CERT", "/nowhere/cert.pem"),
        ("PIP_CLIENT_CERT", "/dev/null"),
        ("PIP_TIMEOUT", "soon"),
        ("PIP_INDEX_URL", "ftp://host/simple"),
        ("PIP_INDEX_URL", "http://[/simple"),
    ],
)
def test_a_wrong_setting_ends_in_a_message(
    index: PackageIndex,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
) -> None:
    monkeypatch.setattr(fetch, "TRIES", 1)
    monkeypatch.setenv(variable, value)
    done = project.run("fetch", status=6 if "INDEX" in variable else 1)
    assert value.partition("/")[0] in done.stderr and "next:" in done.stderr


def archive(tmp_path: Path, *members: tuple[str, str, bytes | str]) -> Path:
    file = tmp_path / "bad.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            if kind == "file":
                assert isinstance(content, bytes)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:
                member.type = {
                    "link": tarfile.SYMTYPE,
                    "hard": tarfile.LNKTYPE,
                    "device": tarfile.CHRTYPE,
                }[kind]
                member.linkname = str(content)
                tar.addfile(member)
    return file


@pytest.mark.parametrize(
    "member",
    [
        ("../evil", "file", b"x"),
        ("/evil", "file", b"x"),
        ("top/../../evil", "file", b"x"),
        ("top/link", "link", "ok"),
        ("top/hard", "hard", "top/ok"),
        ("top/device", "device", ""),
        ("beside/file", "file", b"x"),
    ],
)
def test_archives_cannot_leave_their_folder(
    tmp_path: Path, member: tuple[str, str, bytes | str]
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(PatchsetError):
        unpack.sdist(archive(tmp_path, ("top/ok", "file", b"fine"), member), target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar.gz", "target"]


def test_truncated_and_oversized_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive(tmp_path, ("top/ok", "file", random.Random(2).randbytes(100_000)))
    target = tmp_path / "target"
    target.mkdir()
    monkeypatch.setattr(unpack, "MAX_BYTES", 50_000)
    with pytest.raises(PatchsetError, match="larger than"):
        unpack.sdist(file, target)
    monkeypatch.undo()
    file.write_bytes(file.read_bytes()[:50_000])
    with pytest.raises(PatchsetError, match="cannot be unpacked"):
        unpack.sdist(file, target)


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    file = archive(tmp_path, ("top/folder/ok", "file", b"fine"))
    target = tmp_path / "target"
    target.mkdir()
    before = os.umask(0o077)
    try:
        unpack.sdist(file, target)
    finally:
        os.umask(before)
    assert (target / "folder/ok").stat().st_mode & 0o777 == 0o644
    assert (target / "folder").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("time_", ["nan", "inf", "-1e300", "99999999999"])
def test_odd_times_in_an_archive_are_no_times(tmp_path: Path, time_: str) -> None:
    file = tmp_path / "odd.tar.gz"
    members = {
        "top/PKG-INFO": ("Requires-Dist: torch==2.0\n\n", time_),
        "top/vllm/_version.py": ("__commit_id__ = 'g012345a'\n", time_),
        "top/last": ("", "1700000000"),
    }
    with tarfile.open(file, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, (text, mtime) in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(text), {"mtime": mtime}
            tar.addfile(member, io.BytesIO(text.encode()))
    assert pin.read_sdist(file) == ("012345a", "2.0", 1_700_000_000)


@pytest.mark.parametrize("map_", ["x", "0,1,2", "0,-5", "9" * 5000])
def test_a_broken_sparse_map_is_said_with_the_archives_name(
    tmp_path: Path, map_: str
) -> None:
    file = tmp_path / "sparse.tar"
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("top/file")
        member.pax_headers = {"GNU.sparse.map": map_, "GNU.sparse.size": "10"}
        tar.addfile(member)
        tar.addfile(tarfile.TarInfo("top/other"))
    target = tmp_path / "target"
    target.mkdir()
    try:
        unpack.sdist(file, target)
    except PatchsetError as error:
        assert file.name in error.message


def test_a_fifo_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.tar.gz")
    with pytest.raises(PatchsetError, match="no regular file"):
        unpack.sdist(tmp_path / "pipe.tar.gz", tmp_path)
