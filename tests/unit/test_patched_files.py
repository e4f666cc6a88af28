# SPDX-License-Identifier: Apache-2.0
"""Offsets, what pins their result, and our own modules as files that diffs are made of."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from conftest import HEADER, PARSER, Project, diff_line
from patchset.errors import ConflictError, PatchsetError
from patchset.release import load
from patchset.series import patched_files

BLOCK = "def one():\n    a = 1\n    b = 2\n    return a\n"

MODULE = '"""A module of our own."""\n\nVALUE = 1\n'


def new_file(path: str, text: str) -> str:
    lines = text.splitlines(True)
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n" + "".join("+" + line for line in lines)
    )


def pinned(project: Project) -> str:
    return (project.folder / "patched-files.sha256").read_text()


def shifted() -> str:
    """A diff of line 20 whose place is two lines off."""
    return diff_line(20, "twenty").replace("@@ -17,7 +17,7 @@", "@@ -15,7 +15,7 @@")


def twice(project: Project, at: int) -> None:
    """A file of three equal blocks, and a diff at line ``at`` that fits each of them."""
    project.add_patch("0001-new.diff", new_file("pkg/twice.py", BLOCK * 3))
    hunk = " def one():\n-    a = 1\n+    a = 2\n     b = 2\n     return a\n"
    head = "diff --git a/pkg/twice.py b/pkg/twice.py\n--- a/pkg/twice.py\n+++ b/pkg/twice.py\n"
    project.add_patch("0002-one.diff", f"{head}@@ -{at},4 +{at},4 @@\n{hunk}")


def test_an_offset_is_taken_and_its_result_pinned(project: Project) -> None:
    project.add_patch("0001-shifted.diff", shifted())
    before = (project.folder / "0001-shifted.diff").read_bytes()
    project.run("refresh")
    content = PARSER.replace("line 20\n", "twenty\n").encode()
    assert pinned(project) == f"{hashlib.sha256(content).hexdigest()}  pkg/parser.py\n"
    project.run("apply")
    assert (project.patched / "pkg/parser.py").read_bytes() == content
    sums = project.folder / "patched-files.sha256"
    subprocess.run(["sha256sum", "--check", "--quiet", str(sums)], cwd=project.patched, check=True)
    project.run("refresh")
    assert (project.folder / "0001-shifted.diff").read_bytes() == before, "its place is not a change"


def test_a_result_that_is_not_pinned_is_refused(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.run("refresh")
    (project.folder / "series").write_text("")
    project.add_patch("0001-first.diff", diff_line(5, "FIVE"))
    project.add_patch("0002-new.diff", new_file("pkg/new.py", "new\n"))
    message = project.run("apply", status=1).stderr
    assert "pkg/parser.py: not as pinned" in message and "pkg/new.py: not pinned" in message
    assert "nox -s refresh" in message
    project.run("refresh")
    project.run("apply")


def test_a_pin_of_a_file_that_no_patch_touches_is_refused(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.run("refresh")
    with (project.folder / "patched-files.sha256").open("a") as file:
        file.write(f"{'0' * 64}  pkg/zebra.py\n")
    assert "pkg/zebra.py: pinned, but no patch touches it" in project.run("apply", status=1).stderr


def test_a_hunk_that_fits_in_two_places_is_refused_unless_the_result_is_pinned(project: Project) -> None:
    twice(project, 4)
    message = project.run("apply", status=3).stderr
    assert "pkg/twice.py: hunk 1, offset +1; its lines stand at 1, 5, 9" in message
    assert "a diff of its own" in message
    with pytest.raises(ConflictError, match="choose a place"):
        patched_files.compute(load())
    second = (BLOCK + BLOCK.replace("a = 1", "a = 2") + BLOCK).encode()
    patched_files.write(load(), {"pkg/twice.py": hashlib.sha256(second).hexdigest()})
    project.run("apply")
    assert (project.patched / "pkg/twice.py").read_bytes() == second
    project.run("apply", "--upto", "1")
    project.run("apply", "--upto", "2")


def test_a_hunk_that_says_its_place_needs_no_choice(project: Project) -> None:
    twice(project, 9)
    project.run("refresh")
    project.run("apply")
    assert (project.patched / "pkg/twice.py").read_text() == BLOCK * 2 + BLOCK.replace("a = 1", "a = 2")


@pytest.mark.parametrize(
    "text",
    ["not a sum  pkg/x.py\n", f"{'a' * 64} pkg/x.py\n", f"{'a' * 64}  b\n{'a' * 64}  a\n", f"{'a' * 64}  b\n" * 2],
)  # fmt: skip
def test_a_malformed_pin_is_refused(project: Project, text: str) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    (project.folder / "patched-files.sha256").write_text(text)
    with pytest.raises(PatchsetError, match=r"patched-files\.sha256:[12]"):
        patched_files.read(load())
    assert "patched-files.sha256:" in project.run("lint", status=1).stdout


def test_lint_asks_for_the_pin(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    assert "patched-files.sha256 does not exist" in project.run("lint", status=1).stdout
    project.run("refresh", "--all")
    project.run("lint")


def test_a_shared_diff_says_its_releases(project: Project) -> None:
    project.add_patch("core/first.diff", diff_line(5, "five"), HEADER.format(subject="first"))
    project.run("refresh", "--all")
    shared = project.root / "patches/core/first.diff"
    assert "\nReleases: v1.2.0\n" in shared.read_text()
    shared.write_text(shared.read_text().replace("Releases: v1.2.0", "Releases: v1.1.0"))
    assert "Releases is not the releases that use it" in project.run("lint", status=1).stdout


@pytest.fixture
def sourced(project: Project) -> Project:
    """A diff that carries a file of patches/files and changes a file of upstream's."""
    source = project.root / "patches/files/pkg/own.py"
    source.parent.mkdir(parents=True)
    source.write_text(MODULE)
    header = HEADER.format(subject="own") + "Source: patches/files/pkg/own.py\n"
    project.add_patch("core/own.diff", diff_line(5, "five"), header)
    project.run("refresh", "--all")
    return project


def test_a_diff_is_made_of_the_files_that_its_header_names(sourced: Project) -> None:
    diff = (sourced.root / "patches/core/own.diff").read_text()
    assert new_file("pkg/own.py", MODULE) in diff and "+five" in diff
    source = sourced.root / "patches/files/pkg/own.py"
    source.write_text(MODULE.replace("1", "2"))
    assert "does not carry its files of patches/files" in sourced.run("lint", status=1).stdout
    done = sourced.run("refresh", "--all")
    assert done.stdout.splitlines() == ["wrote core/own.diff", "wrote v1.2.0/patched-files.sha256"]
    sourced.run("apply")
    assert (sourced.patched / "pkg/own.py").read_text() == source.read_text()
    assert not sourced.run("refresh").stdout


def test_a_new_diff_begins_as_a_header(project: Project) -> None:
    source = project.root / "patches/files/pkg/own.py"
    source.parent.mkdir(parents=True)
    source.write_text(MODULE)
    assert "own.py is carried by no diff" in project.run("lint", status=1).stdout
    project.add_patch("own.diff", "", HEADER.format(subject="own") + "Source: patches/files/pkg/own.py\n")
    project.run("refresh", "--all")
    project.run("apply")
    assert (project.patched / "pkg/own.py").read_text() == MODULE


def test_an_edit_of_the_source_survives_a_refresh_of_a_tree_from_before(sourced: Project) -> None:
    sourced.add_patch("later.diff", diff_line(30, "thirty"))
    sourced.run("refresh")
    sourced.run("apply")
    source = sourced.root / "patches/files/pkg/own.py"
    source.write_text(MODULE.replace("1", "2"))
    parser = sourced.patched / "pkg/parser.py"
    parser.write_text(parser.read_text().replace("thirty", "THIRTY"))
    sourced.git("commit", "-q", "-a", "--amend", "--no-edit")
    assert "changed later.diff" in sourced.run("refresh").stdout
    assert "VALUE = 2" in source.read_text()
    assert "+VALUE = 2" in (sourced.root / "patches/core/own.diff").read_text()


def test_an_edit_in_the_tree_comes_back_to_the_source(sourced: Project) -> None:
    sourced.run("apply")
    (sourced.patched / "pkg/own.py").write_text(MODULE.replace("1", "3"))
    sourced.git("commit", "-q", "-a", "--amend", "--no-edit")
    sourced.run("refresh")
    assert "VALUE = 3" in (sourced.root / "patches/files/pkg/own.py").read_text()
    sourced.run("lint")


def test_an_edit_in_both_is_refused(sourced: Project) -> None:
    sourced.run("apply")
    (sourced.patched / "pkg/own.py").write_text(MODULE.replace("1", "3"))
    sourced.git("commit", "-q", "-a", "--amend", "--no-edit")
    shared = sourced.root / "patches/core/own.diff"
    shared.write_text(shared.read_text().replace("+five", "+FIVE"))
    assert "changed in the tree and" in sourced.run("refresh", status=1).stderr
    source = sourced.root / "patches/files/pkg/own.py"
    shared.write_text(shared.read_text().replace("+FIVE", "+five"))
    source.write_text(MODULE.replace("1", "2"))
    assert "own.py" in sourced.run("refresh", status=1).stderr
    assert "VALUE = 2" in source.read_text(), "nothing is lost"


@pytest.mark.parametrize("content", ["", "no end"])
def test_a_source_without_lines_or_end_is_refused(sourced: Project, content: str) -> None:
    (sourced.root / "patches/files/pkg/own.py").write_text(content)
    assert "its last line has no end" in sourced.run("lint", status=1).stdout
