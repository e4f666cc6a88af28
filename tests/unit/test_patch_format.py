# SPDX-License-Identifier: Apache-2.0
"""lint, and what is refused of pins, series and diffs before anything is touched."""

from __future__ import annotations

import pytest

from conftest import HEADER, Project, diff_line


def test_a_whole_project_has_no_fault(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.run("refresh")
    assert "as it should be" in project.run("lint").stderr


@pytest.mark.parametrize(
    "name", ["Subject", "Reason", "Origin", "Upstream-Status", "Drop-When", "Proof", "Last-Refresh"]
)
def test_missing_header_field_is_named_by_lint_and_apply(project: Project, name: str) -> None:
    lines = [line for line in HEADER.format(subject="s").splitlines(True) if not line.startswith(name + ":")]
    project.add_patch("0001-first.diff", diff_line(5, "five"), "".join(lines))
    assert f"no field {name}" in project.run("lint", status=1).stdout
    assert f"no field {name}" in project.run("apply", status=1).stderr


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("Origin: own", "Origin: found it", "Origin: 'found it' is not"),
        ("Upstream-Status: pending", "Upstream-Status: soon", "Upstream-Status: 'soon' is not"),
        ("Last-Refresh: v1.2.0", "Last-Refresh: yesterday", "Last-Refresh: 'yesterday' is not"),
        ("Proof: tests/patches/test_one.py", "Proof: trust me", "Proof: 'trust me' is not"),
        ("Proof: tests/patches/test_one.py", "Proof: tests/patches/test_two.py", "does not exist"),
        ("Origin: own", "Origin: own\nOrigin: own", "Origin twice"),
        ("Origin: own", "Origin: own\nColour: red", "unknown field Colour"),
        ("Origin: own", "Origin: own\njust words", "is not a header line"),
        ("Origin: own", "Origin: own\nNative: yes", "touches nothing native"),
    ],
)  # fmt: skip
def test_malformed_header(project: Project, old: str, new: str, expected: str) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"), HEADER.format(subject="s").replace(old, new))
    assert expected in project.run("lint", status=1).stdout


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "pkg/../../x", "/etc/passwd", ".git/hooks/post-checkout"]
)
def test_path_outside_the_tree_is_refused(project: Project, path: str) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five").replace("pkg/parser.py", path))
    assert "leads outside the tree" in project.run("lint", status=1).stdout
    assert "leads outside the tree" in project.run("apply", status=1).stderr


def test_a_path_that_only_the_git_line_names_is_refused(project: Project) -> None:
    link = "diff --git a/pkg/x b/pkg/x\nnew file mode 120000\n--- /dev/null\n+++ b/pkg/x\n@@ -0,0 +1 @@\n+/etc/passwd\n"
    project.add_patch("0001-link.diff", link)
    assert "no links" in project.run("apply", status=1).stderr
    (project.folder / "0001-link.diff").write_text(
        HEADER.format(subject="s")
        + "\n"
        + "diff --git a/pkg/parser.py b/pkg/../../x\nrename from pkg/parser.py\n"
        "rename to ../x\n" + diff_line(5, "five")
    )
    assert "renames" in project.run("apply", status=1).stderr


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ("0001-lost.diff\n", "does not exist"),
        ("# a comment\n", "is not the name of a diff"),
        ("\n", "is not the name of a diff"),
        ("../v9.9.9/x.diff\n", "is not the name of a diff"),
        ("0001-first.diff\n0001-first.diff\n", "is listed twice"),
        ("\xff\xfe", "cannot be read"),
    ],
)
def test_unreadable_series(project: Project, series: str, expected: str) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    (project.folder / "series").write_bytes(series.encode("latin-1"))
    assert expected in project.run("lint", status=1).stdout
    assert expected in project.run("apply", status=1).stderr
    assert not project.patched.exists()


def test_lost_series_and_orphan_diff(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"), series=False)
    assert "0001-first.diff is in no series" in project.run("lint", status=1).stdout
    (project.folder / "series").unlink()
    assert "cannot be read" in project.run("apply", status=1).stderr


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        ("diff --git a/pkg/parser.py b/pkg/parser.py\n", "changes nothing"),
        (diff_line(5, "five").replace("@@ -2,7 +2,7 @@", "@@ -2,9 +2,9 @@"), "cannot be read"),
        ("no diff at all\n", "has no diff"),
        (diff_line(5, "five").replace("a/pkg", "old/pkg"), "does not begin with a/ or b/"),
    ],
)
def test_unreadable_diff(project: Project, diff: str, expected: str) -> None:
    project.add_patch("0001-first.diff", diff)
    assert expected in project.run("apply", status=1).stderr


def test_unrefreshed_form_and_native_paths_are_faults(project: Project) -> None:
    diff = diff_line(5, "five").replace("--- a/", "index 0123abc..4567def 100644\n--- a/")
    project.add_patch("0001-first.diff", diff)
    assert "index lines" in project.run("lint", status=1).stdout
    project.add_patch("0001-first.diff", diff_line(5, "five", "csrc/kernel.cu"), series=False)
    assert "Native: yes" in project.run("lint", status=1).stdout


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("sha256", "sha265", "sdist.sha265: Extra inputs"),
        ("revision = 1", "revision = 0", "revision: Input should be greater"),
        ("[sdist]", "[sdist", "cannot be read"),
        ('version = "1.2.0"', 'version = "1.2.1"', "is in the folder"),
    ],
)
def test_malformed_pin(project: Project, old: str, new: str, expected: str) -> None:
    pin = project.folder / "release.toml"
    pin.write_text(pin.read_text().replace(old, new))
    assert expected in project.run("lint", status=1).stdout.replace("\n", " ")
    assert expected in project.run("apply", "v1.2.0", status=1).stderr.replace("\n", " ")


def test_unknown_release_names_the_known(project: Project) -> None:
    message = project.run("apply", "v9.9.9", status=2).stderr
    assert "unknown release v9.9.9" in message and "v1.2.0" in message
