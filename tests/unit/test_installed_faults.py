# SPDX-License-Identifier: Apache-2.0
"""Patching in place where something is odd: pip afterwards, a damaged RECORD, umask, owners, what a kill left."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Project
from patchset.errors import PatchsetError
from patchset.install import in_place
from test_installed import served, site
from test_wheel import packaged

__all__ = ["packaged", "served"]

DEEP = (
    "diff --git a/vllm/new/deep/reader.py b/vllm/new/deep/reader.py\nnew file mode 100644\n--- /dev/null\n"
    "+++ b/vllm/new/deep/reader.py\n@@ -0,0 +1 @@\n+READ = 1\n"
)


@pytest.fixture
def deep(packaged: Project) -> Project:
    """A series that also adds a file in folders of its own."""
    packaged.add_patch("0003-deep.diff", DEEP)
    return packaged


def info(python: Path) -> Path:
    return site(python) / "vllm-1.2.0.dist-info"


def every_file(python: Path) -> dict[str, bytes]:
    folders = [site(python) / "vllm", info(python)]
    return {
        str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("after", ["in", "in and out"])
def test_pip_uninstalls_all_of_it(deep: Project, served: Path, after: str) -> None:
    in_place.put_in(in_place.find(served))
    if after == "in and out":
        in_place.take_out(in_place.find(served))
    subprocess.run([served, "-m", "pip", "uninstall", "-q", "-y", "vllm"], check=True)
    assert not list(site(served).glob("vllm*"))


@pytest.mark.parametrize(
    "damage", ["gone", "empty", "half a line", "no text", "another file less", "a folder"]
)
def test_a_damaged_record_is_refused_before_anything_is_written(
    deep: Project, served: Path, damage: str
) -> None:
    record = info(served) / "RECORD"
    content = record.read_bytes()
    record.unlink()
    if damage == "a folder":
        record.mkdir()
    elif damage != "gone":
        lines = {"empty": b"", "half a line": b"vllm/parser.py,sha", "no text": b"\xff\xfe"}
        other = b"".join(line for line in content.splitlines(True) if not line.startswith(b"vllm/parser.py"))
        record.write_bytes(lines.get(damage, other))
    before = every_file(served)
    with pytest.raises(PatchsetError) as caught:
        in_place.put_in(in_place.find(served))
    assert caught.value.hint and "--force-reinstall" in caught.value.hint and every_file(served) == before


def test_a_strict_umask_locks_nobody_out(deep: Project, served: Path) -> None:
    before = os.umask(0o077)
    try:
        in_place.put_in(in_place.find(served))
    finally:
        os.umask(before)
    for path in (site(served) / "vllm").rglob("*"):
        assert path.stat().st_mode & 0o005 == (
            0o005 if path.is_dir() else path.stat().st_mode & 0o001 | 0o004
        ), path
    assert all(path.stat().st_mode & 0o004 for path in info(served).iterdir())


def test_files_stay_their_owners(deep: Project, served: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for path in (site(served), *site(served).rglob("*")):
        os.chown(path, 1234, 1235)
    in_place.put_in(in_place.find(served))
    for folder in (site(served) / "vllm", info(served)):
        assert {(path.stat().st_uid, path.stat().st_gid) for path in folder.rglob("*") if "__pycache__" not in str(path)} == {(1234, 1235)}  # fmt: skip


@pytest.mark.parametrize("action", [in_place.put_in, in_place.take_out])
def test_what_a_kill_left_goes_with_the_next_run(
    deep: Project, served: Path, action: Callable[[in_place.Installed], None]
) -> None:
    """The process dies at each of the system calls that write, in turn."""
    stock = every_file(served)
    for dies_at in range(1, 13):
        found = in_place.look(site(served))
        if action is in_place.take_out:
            in_place.put_in(found)
        kill(lambda found=found: action(found), dies_at)  # type: ignore[misc]
        in_place.put_in(in_place.look(site(served)))
        assert in_place.look(site(served)).live and not list(site(served).rglob(".tmp-*"))
        in_place.take_out(in_place.look(site(served)))
        assert every_file(served) == stock
        assert not (site(served) / "vllm/new").exists()


def kill(act: Callable[[], None], dies_at: int) -> None:
    """Do it in a child that dies at a write."""
    if (child := os.fork()) == 0:
        left, fsync, replace = [dies_at], os.fsync, Path.replace

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                left[0] -= 1
                if not left[0]:
                    os._exit(9)
                return function(*arguments)

            return call

        os.fsync = counted(fsync)
        Path.replace = counted(replace)  # type: ignore[method-assign]
        act()
        os._exit(0)
    os.waitpid(child, 0)
