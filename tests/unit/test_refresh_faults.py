# SPDX-License-Identifier: Apache-2.0
"""What refresh must not lose, write elsewhere, or hide: commits that no diff can hold, names that lead out, kills."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import HEADER, PARSER, Project, diff_line
from patchset import files
from patchset.errors import PatchsetError
from patchset.release import load, release_names
from patchset.series.apply import patched_tree
from patchset.series.refresh import refresh

MESSAGE = HEADER.format(subject="x").partition("\n")[2]


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def commit(project: Project, more: str = "") -> None:
    project.git("add", "--all", "--force")
    project.git("commit", "--quiet", "-m", f"Work\n\n{MESSAGE}{more}")


def link_in_place(tree: Path) -> None:
    (tree / "pkg/data.txt").unlink()
    (tree / "pkg/data.txt").symlink_to("parser.py")


def mode_beside_text(tree: Path) -> None:
    (tree / "pkg/parser.py").write_text(PARSER + "more\n")
    (tree / "pkg/data.txt").chmod(0o755)


def submodule(tree: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "sub"], cwd=tree, check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(
        ["git", *identity, "commit", "--quiet", "--allow-empty", "-m", "x"], cwd=tree / "sub", check=True
    )


#: What somebody may commit that a text diff cannot hold.
WORK: dict[str, Callable[[Path], object]] = {
    "binary": lambda tree: (tree / "pkg/table.bin").write_bytes(bytes(range(256))),
    "binary in place of text": lambda tree: (tree / "pkg/data.txt").write_bytes(b"\0\1"),
    "link": lambda tree: (tree / "pkg/link").symlink_to("parser.py"),
    "mode": lambda tree: (tree / "pkg/parser.py").chmod(0o755),
    "submodule": submodule,
    "large": lambda tree: (tree / "pkg/large.py").write_text("x = 1  # a line\n" * 200_000),
    "quoted": lambda tree: (tree / 'pkg/a"b.py').write_text("x\n"),
    "tab in a name": lambda tree: (tree / "pkg/a\tb.py").write_text("x\n"),
    "backslash": lambda tree: (tree / "pkg/a\\b.py").write_text("x\n"),
    "Latin-1": lambda tree: (tree / "pkg/latin.py").write_bytes("# caf\xe9\n".encode("latin-1")),
    "a link in place of a file": link_in_place,
    "binary beside text": lambda tree: (
        (tree / "pkg/parser.py").write_text(PARSER + "more\n"),
        (tree / "pkg/table.bin").write_bytes(bytes(256)),
    ),
    "mode beside text": mode_beside_text,
}  # fmt: skip


@pytest.mark.parametrize("work", WORK)
def test_what_a_diff_cannot_hold_is_refused_before_anything_is_written(project: Project, work: str) -> None:
    tree = patched_tree(load("v1.2.0"))
    WORK[work](tree)
    commit(project)
    before = below(project.root / "patches")
    with pytest.raises(PatchsetError) as caught:
        refresh(load("v1.2.0"))
    assert caught.value.hint and "plain text files" in caught.value.hint
    assert below(project.root / "patches") == before
    with pytest.raises(PatchsetError, match="holds edits"):  # the work is not taken for saved
        patched_tree(load("v1.2.0"))


@pytest.mark.parametrize("text", ["", "last", "crlf\r\n", "form\x0cfeed\n", "\u2028 in a line\n", "diff --git a/x b/x\n", "index " + "0" * 40 + ".." + "1" * 40 + "\n"])  # fmt: skip
def test_what_a_diff_can_hold_comes_back(project: Project, text: str) -> None:
    tree = patched_tree(load("v1.2.0"))
    (tree / "pkg/parser.py").write_bytes((PARSER + text).encode())
    (tree / "pkg/new.py").write_bytes(text.encode())
    commit(project)
    refresh(load("v1.2.0"))
    tree = patched_tree(load("v1.2.0"), discard=True)
    assert (tree / "pkg/parser.py").read_bytes() == (PARSER + text).encode()
    assert (tree / "pkg/new.py").read_bytes() == text.encode()


@pytest.mark.parametrize(
    "entry",
    ["../../../evil.txt", "../evil.diff", "/tmp/evil.diff", "a/b.diff", "core/../evil.diff", "core/a/b.diff",
     ".diff", "series", "release.toml", "../v1.3.0/x.diff", "x.diff\x0b", "..\\x.diff", "x.diff.txt"],
)  # fmt: skip
def test_a_trailer_names_a_diff_and_no_path(project: Project, entry: str) -> None:
    tree = patched_tree(load("v1.2.0"))
    (tree / "pkg/parser.py").write_text(PARSER + "more\n")
    commit(project, f"Patch-Entry: {entry}\n")
    before = below(project.root.parent)
    with pytest.raises(PatchsetError):
        refresh(load("v1.2.0"))
    after = below(project.root.parent)
    assert {name for name in after if "/.git/" not in name and "lock" not in name} - before.keys() == set()
    assert below(project.root / "patches") == {
        name.removeprefix("checkout/patches/"): content
        for name, content in before.items()
        if name.startswith("checkout/patches/")
    }


@pytest.mark.parametrize("exchange", [True, False])
def test_a_killed_refresh_hides_no_release(
    project: Project, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    """The process dies at each rename in turn, also where the file system cannot exchange two folders."""
    if not exchange:
        monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    for dies_at in range(1, 4):
        tree = patched_tree(load("v1.2.0"), discard=True)
        (tree / "pkg/parser.py").write_text(PARSER + f"more {dies_at}\n")
        commit(project)
        if (child := os.fork()) == 0:
            left, rename = [dies_at], Path.rename

            def dying(
                self: Path, target: Path, left: list[int] = left, rename: Callable[..., Path] = rename
            ) -> Path:
                left[0] -= 1
                if not left[0]:
                    os._exit(9)
                return rename(self, target)

            Path.rename = dying  # type: ignore[assignment, method-assign]
            refresh(load("v1.2.0"))
            os._exit(0)
        os.waitpid(child, 0)
        assert release_names() == ["v1.2.0"] and load().name == "v1.2.0"
        refresh(load("v1.2.0"))
        assert sorted(path.name for path in (project.root / "patches").iterdir()) == ["v1.2.0"]
        assert f"more {dies_at}" in (tree / "pkg/parser.py").read_text()


def test_folders_that_are_no_releases(project: Project) -> None:
    for name in ("v1.2.0.bak", "vNext", "v1.2.0 (copy)", "v", "v1.2.0~"):
        folder = project.root / "patches" / name
        folder.mkdir()
        (folder / "release.toml").write_bytes((project.folder / "release.toml").read_bytes())
    assert release_names() == ["v1.2.0"]
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    assert "five" in (patched_tree(load()) / "pkg/parser.py").read_text()


def test_the_next_run_takes_the_scratch_of_a_killed_one_alone(tmp_path: Path) -> None:
    script = f"""
import pathlib, time
from patchset import files
with files.scratch(pathlib.Path({str(tmp_path)!r})) as folder:
    print(folder, flush=True)
    time.sleep(60)
"""

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)

    with start() as dead, start() as alive:
        places = [
            Path(str(process.stdout and process.stdout.readline()).strip()) for process in (dead, alive)
        ]
        dead.kill()
        dead.wait()
        with files.scratch(tmp_path) as ours:
            assert {*tmp_path.glob(".tmp-*")} == {places[1], ours}
        alive.kill()
    files.remove_scratch(tmp_path)
    assert not [*tmp_path.glob(".tmp-*")]


def test_proofs_beside_each_other_do_not_say_that_another_run_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / ".scratch.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        threading.Timer(0.2, lambda: fcntl.flock(other, fcntl.LOCK_UN)).start()
        with files.scratch(tmp_path):
            assert capsys.readouterr() == ("", "")
