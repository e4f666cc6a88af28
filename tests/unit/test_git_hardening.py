# SPDX-License-Identifier: Apache-2.0
"""Nothing of the user's git configuration changes what is made or runs a program.

Neither does a repository inside an archive.
"""

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from conftest import (
    EPOCH,
    PARSER,
    Project,
    diff_line,
    git,
    lay,
    make_sdist,
    program,
    release_toml,
)
from patchset import git as tool_git
from patchset.errors import PatchsetError
from patchset.release import load
from patchset.series.apply import changes, patched_tree
from patchset.series.refresh import refresh
from patchset.series.stock_tree import stock_tree


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whose git configuration is this test's own."""
    folder = tmp_path / "home"
    (folder / ".config/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.mark.parametrize(
    "attributes", ["* diff=python\n", "* -diff\n", "* binary\n", "* eol=crlf\n"]
)
@pytest.mark.parametrize("place", [".config/git/attributes", "attributes"])
def test_attributes_of_the_user_change_no_diff(
    project: Project, home: Path, attributes: str, place: str
) -> None:
    project.add_patch("0001-first", diff_line(20, "twenty"))
    before = project.diff("0001-first").read_bytes()
    (home / place).write_text(attributes)
    (home / ".gitconfig").write_text(f"[core]\n\tattributesFile = {home}/attributes\n")
    patched_tree(load("v1.2.0"))
    assert refresh(load("v1.2.0")).lines == ["wrote v1.2.0/patched-files.sha256"]
    assert project.diff("0001-first").read_bytes() == before


def test_what_the_user_ignores_everywhere_is_still_an_edit(
    project: Project, home: Path
) -> None:
    (home / ".config/git/ignore").write_text("*.new\n")
    tree = patched_tree(load("v1.2.0"))
    (tree / "work.new").write_text("an hour of work\n")
    project.add_patch("0001-first", diff_line(5, "five"))
    with pytest.raises(PatchsetError, match="holds work"):
        patched_tree(load("v1.2.0"))
    assert (tree / "work.new").is_file()


def with_repository(project: Project, at: str, ran: Path) -> None:
    """Give the release's archive a repository whose configuration names a program."""
    folder = lay(project.root / "embedded", {"file.txt": "x\n"})
    git(folder, "init", "--quiet")
    hook = program(project.root / "program.sh", f"touch {ran}")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "x")
    with (folder / ".git/config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {hook}\n\thooksPath = {hook.parent}\n")
    file = project.downloads / "pkg-1.2.0.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        member = tarfile.TarInfo("pkg-1.2.0/pkg/parser.py")
        member.size, member.mtime = len(PARSER), EPOCH
        archive.addfile(member, io.BytesIO(PARSER.encode()))
        archive.add(folder, f"pkg-1.2.0/{at}".rstrip("/"))
    project.pin.write_text(release_toml(file))
    shutil.rmtree(folder)


@pytest.mark.parametrize("at", ["", "third_party/lib", "a/.GIT/b", "a/.git"])
def test_a_repository_inside_an_archive_is_left_out(
    project: Project, tmp_path: Path, at: str
) -> None:
    ran = tmp_path / "ran"
    with_repository(project, at, ran)
    tree = stock_tree(load("v1.2.0"))
    patched_tree(load("v1.2.0"))
    assert stock_tree(load("v1.2.0")) == tree
    assert not ran.exists()
    found = [path for path in tree.rglob("*") if path.name.lower() == ".git"]
    assert found == [tree / ".git"] and (tree / "pkg/parser.py").is_file()


@pytest.mark.parametrize(
    "attributes",
    ["* text=auto eol=crlf", "* ident", "* -diff", "* filter=x", "* binary"],
)
def test_attributes_of_the_source_change_no_byte(
    project: Project, attributes: str
) -> None:
    text = PARSER.replace("line 9\n", "line 9\r\n").replace("line 8\n", "$Id$\n")
    contents = {"pkg/parser.py": text, ".gitattributes": f"{attributes}\n"}
    project.pin.write_text(release_toml(make_sdist(project.downloads, contents)))
    project.add_patch("0001-first", diff_line(20, "twenty"))
    tree = patched_tree(load("v1.2.0"))
    assert (stock_tree(load("v1.2.0")) / "pkg/parser.py").read_bytes() == text.encode()
    (change,) = changes(load("v1.2.0"))
    assert change.stock == text.encode()
    patched = text.replace("line 20\n", "twenty\n").encode()
    assert (tree / "pkg/parser.py").read_bytes() == change.content == patched
    patch = project.diff("0001-first")
    before = patch.read_bytes()
    git(tree, "commit", "--quiet", "--amend", "--no-edit", "--date=now")
    refresh(load("v1.2.0"))
    assert patch.read_bytes() == before


def test_trees_of_another_owner_are_read(project: Project) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    project.add_patch("0001-first", diff_line(5, "five"))
    tree = patched_tree(load("v1.2.0"))
    for path in (tree.parent, *tree.parent.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert [change.path for change in changes(load("v1.2.0"))] == ["pkg/parser.py"]


def test_hooks_of_a_tree_do_not_run(project: Project, tmp_path: Path) -> None:
    project.add_patch("0001-first", diff_line(5, "five"))
    tree = patched_tree(load("v1.2.0"))
    ran = tmp_path / "ran"
    for name in (
        "post-checkout",
        "post-commit",
        "pre-commit",
        "reference-transaction",
        "post-index-change",
    ):
        program(tree / ".git/hooks" / name, f"touch {ran}")
    refresh(load("v1.2.0"))
    changes(load("v1.2.0"))
    assert not ran.exists()


@pytest.mark.parametrize(
    ("words", "free", "full"),
    [
        (
            "fatal: unable to write loose object file: No space left on device",
            1 << 30,
            True,
        ),
        (
            "error: unable to write file a.py\nfatal: unable to checkout working tree",
            4096,
            True,
        ),
        (
            "error: unable to write file a.py\nfatal: unable to checkout working tree",
            1 << 30,
            False,
        ),
    ],
)
def test_a_full_disk_inside_git_is_said_with_a_way_out(
    project: Project, monkeypatch: pytest.MonkeyPatch, words: str, free: int, full: bool
) -> None:
    failed = (128, b"", words.encode())
    monkeypatch.setattr(tool_git, "_start", lambda *arguments: failed)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(1 << 30, 0, free)
    )
    tree = project.root / "build/trees/v1.2.0"
    with pytest.raises(PatchsetError) as raised:
        tool_git.run(tree / ".tmp-x-stock", "clone")
    assert ("the disk is full" in raised.value.message) == full
    assert not full or (
        str(tree) in raised.value.message
        and "PATCHSET_BUILD_DIR" in (raised.value.hint or "")
    )
