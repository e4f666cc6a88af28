# SPDX-License-Identifier: Apache-2.0
"""A patch is a mail; what git would apply in part, or elsewhere, is refused."""

from __future__ import annotations

import pytest

from conftest import HEADER, Project, diff_line
from patchset.series.mail import PatchFormatError, parse

DIFF = diff_line(5, "five")
TEXT = HEADER.format(subject="Count to five") + "\n" + DIFF


def test_a_mail_is_read_and_written_as_it_is() -> None:
    patch = parse(TEXT.encode(), "x.diff", "core/five-v1.2.0.diff")
    assert (patch.name, patch.subject) == ("five", "Count to five")
    assert (patch.body, patch.status) == ("A test needs it.", "pending")
    assert patch.proofs == ("tests/patches/test_one.py",)
    assert patch.paths == ("pkg/parser.py",)
    assert not list(patch.faults())
    assert patch.text() == TEXT


def test_what_format_patch_adds_is_read_past() -> None:
    mail = (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        "From: =?UTF-8?q?J=C3=B6rg?= <j@localhost>\n"
        "Date: Wed, 25 Nov 2026 00:13:31 +0000\n"
        "Subject: [PATCH] [Bugfix] A long subject that\n goes on\n"
        "MIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=UTF-8\n"
        "Content-Transfer-Encoding: 8bit\n\n"
        "Why.\n\n---\n a | 1 +\n\n"
        + DIFF.replace("--- a", "index 12ab..34cd 100644\n--- a")
    )
    patch = parse(mail.encode(), "x", "x.diff")
    assert (patch.author, patch.body) == ("Jörg <j@localhost>", "Why.")
    assert patch.subject == "[Bugfix] A long subject that goes on"
    assert patch.diff == DIFF


LINK = DIFF.replace("--- a/", "new file mode 120000\n--- a/")
MODE = DIFF.replace("--- a/", "old mode 100644\nnew mode 100755\n--- a/")
RENAME = "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\n"
BINARY = "diff --git a/a.py b/a.py\nGIT binary patch\nliteral 0\n"
EMPTY = "diff --git a/a.py b/a.py\nnew file mode 100644\n"


@pytest.mark.parametrize(
    "diff",
    [
        pytest.param(DIFF.replace(",7 +", ",6 +"), id="counts too few old lines"),
        pytest.param(DIFF.replace(",7 @@", ",6 @@"), id="counts too few new lines"),
        pytest.param(DIFF.replace(",7 +", ",8 +"), id="counts too many lines"),
        pytest.param(DIFF.replace("pkg/parser.py", "../parser.py"), id="leads out"),
        pytest.param(DIFF.replace("pkg/", "pkg/../"), id="leads up"),
        pytest.param(DIFF.replace("pkg/", ".git/"), id="git's own folder"),
        pytest.param(DIFF.replace("b/pkg", "b/other", 1), id="two names"),
        pytest.param(DIFF.replace("+++ b/pkg", "+++ b/other"), id="another name below"),
        pytest.param(DIFF.replace("pkg/parser", '"pkg/a\\nb"'), id="newline in a name"),
        pytest.param(DIFF + DIFF, id="a file twice"),
        pytest.param(DIFF + "trailing words\n", id="words behind"),
        pytest.param(LINK, id="link"),
        pytest.param(MODE, id="mode"),
        pytest.param(RENAME, id="rename"),
        pytest.param(BINARY, id="binary"),
        pytest.param(EMPTY, id="empty file"),
    ],
)
def test_a_diff_that_is_not_plain_is_refused(diff: str) -> None:
    mail = HEADER.format(subject="x") + "\n" + diff
    with pytest.raises(PatchFormatError, match=r"^x\.diff: "):
        parse(mail.encode(), "x.diff", "x.diff")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("From: Somebody <somebody@localhost>", "From: somebody"),
        ("Subject: [PATCH] Count to five\n", ""),
        ("diff --git", "diff --not"),
        ("From: Somebody", "From: Somebody\udcff"),
        (DIFF, DIFF[:-1]),
    ],
)
def test_a_mail_that_is_none_is_refused(old: str, new: str) -> None:
    raw = TEXT.replace(old, new).encode(errors="surrogateescape")
    with pytest.raises(PatchFormatError):
        parse(raw, "x.diff", "x.diff")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("A test needs it.\n\n", "", "gives no reason"),
        ("Drop-When: the test is gone\n", "", "no trailer Drop-When"),
        ("pending", "someday", "Upstream-Status: 'someday' is not"),
        ("Proof: tests/", "Proof: ../tests/", "Proof: '../tests"),
        ("Drop-When", "Reviewed-By: me\nDrop-When", "trailer Reviewed-By is unknown"),
        ("Drop-When", "Drop-When: never\nDrop-When", "Drop-When is there twice"),
        ("A test needs it.", "From here on.", "begins with 'From '"),
    ],
)
def test_lint_and_apply_name_a_fault_of_the_message(
    project: Project, old: str, new: str, fault: str
) -> None:
    file = project.add_patch("five.diff", DIFF)
    file.write_text(file.read_text().replace(old, new))
    assert fault in project.run("lint", status=1).stdout
    assert fault in project.run("apply", status=1).stderr
