# SPDX-License-Identifier: Apache-2.0
"""Patches, and apply, refresh and lint on a small made-up release."""

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import (
    OWN_MODULE,
    PARSER,
    REASON,
    Project,
    diff_line,
    lay,
    replaced,
    saved_meanwhile,
)
from patchset import files
from patchset.errors import PatchsetError
from patchset.release import load
from patchset.series import apply, refresh, state
from patchset.series.mail import PatchFormatError, committed, stored

DIFF = diff_line(5, "five")
TEXT = REASON.format(subject="Count to five")


def test_a_patch_is_read_and_written_as_it_is() -> None:
    patch = stored("five", TEXT.encode(), DIFF.encode(), "five")
    assert (patch.name, patch.subject) == ("five", "Count to five")
    assert patch.body == "A test needs it."
    assert patch.trailers[0] == ("Upstream-Status", "pending")
    assert patch.proofs == ("tests/patches/test_one.py",)
    assert patch.paths == ("pkg/parser.py",)
    assert not list(patch.faults())
    assert (patch.reason, patch.diff) == (TEXT, DIFF)
    assert patch.mail("Date: today") == (
        "From: vllm-mtp-patches <vllm-mtp-patches@localhost>\n"
        "Date: today\n"
        "Subject: [PATCH] Count to five\n\n" + TEXT.partition("\n\n")[2] + "\n" + DIFF
    )


def test_what_git_adds_to_a_diff_is_read_past() -> None:
    diff = DIFF.replace("--- a", "index 12ab..34cd 100644\n--- a")
    patch = committed("[Bugfix] Jörg".encode(), b"Why.\n", diff.encode(), "x")
    assert (patch.subject, patch.body, patch.diff) == ("[Bugfix] Jörg", "Why.", DIFF)


#: Texts of a patch, and what is put in their place.
NO_PATCHES = {
    "counts too few old lines": (",7 +", ",6 +"),
    "counts too few new lines": (",7 @@", ",6 @@"),
    "counts too many lines": (",7 +", ",8 +"),
    "leads out": ("pkg/parser.py", "../parser.py"),
    "leads up": ("pkg/", "pkg/../"),
    "git's own folder": ("pkg/", ".git/"),
    "two names": (DIFF, DIFF.replace("b/pkg", "b/other", 1)),
    "another name below": ("+++ b/pkg", "+++ b/other"),
    "newline in a name": ("pkg/parser", '"pkg/a\\nb"'),
    "a file twice": (DIFF, DIFF + DIFF),
    "words behind": (DIFF, DIFF + "trailing words\n"),
    "link": ("--- a/", "new file mode 120000\n--- a/"),
    "mode": ("--- a/", "old mode 100644\nnew mode 100755\n--- a/"),
    "rename": (
        DIFF,
        "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\n",
    ),
    "binary": (DIFF, "diff --git a/a.py b/a.py\nGIT binary patch\nliteral 0\n"),
    "empty file": (DIFF, "diff --git a/a.py b/a.py\nnew file mode 100644\n"),
    "no subject": ("# Count to five\n", ""),
    "no diff": ("diff --git", "diff --not"),
    "no text": ("# Count", "# Count\udcff"),
    "no last newline": (DIFF, DIFF[:-1]),
}


@pytest.mark.parametrize("name", NO_PATCHES)
def test_what_is_no_plain_patch_is_refused(name: str) -> None:
    old, new = NO_PATCHES[name]
    reason, diff = (
        text.replace(old, new).encode(errors="surrogateescape") for text in (TEXT, DIFF)
    )
    with pytest.raises(PatchFormatError, match=r"^x\.diff: "):
        stored("x", reason, diff, "x.diff")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("A test needs it.\n\n", "", "gives no reason"),
        ("Drop-When: the test is gone\n", "", "no trailer Drop-When"),
        ("pending", "someday", "Upstream-Status: 'someday' is not"),
        ("Proof: tests/", "Proof: ../tests/", "Proof: '../tests"),
        ("Drop-When", "Reviewed-By: me\nDrop-When", "trailer Reviewed-By is unknown"),
        ("Drop-When", "Drop-When: never\nDrop-When", "Drop-When is there twice"),
        ("A test needs it.", "From here on.", "take 'From here on.' for"),
        ("A test needs it.", "Why.\nIndex: x", "take 'Index: x' for"),
        ("A test needs it.", "Why.\ndiff -u x", "take 'diff -u x' for"),
        ("A test needs it.", "Why.\n--- a/x", "take '--- a/x' for"),
        ("A test needs it.", "subject: Why", "take 'subject: Why' for"),
        ("# five", "five", "v1.2.0.diff: "),
    ],
)
def test_lint_and_apply_name_a_fault_of_the_message(
    project: Project, old: str, new: str, fault: str
) -> None:
    project.add_patch("five", DIFF, REASON.format(subject="five").replace(old, new))
    assert fault in project.run("lint", status=1).stdout
    assert fault in project.run("apply", status=1).stderr


def subjects(project: Project) -> list[str]:
    return project.git("log", "--format=%s").splitlines()


def edit(project: Project, old: str, new: str, path: str = "pkg/parser.py") -> None:
    replaced(project.patched / path, old, new)


def commit(project: Project, old: str, new: str, *arguments: str) -> None:
    """Edit the parser of the patched tree, and commit that."""
    edit(project, old, new)
    project.git("commit", "--quiet", "-a", *arguments)


def thirty(project: Project, subject: str = "Thirty") -> None:
    trailers = REASON.split("\n\n")[2]
    message = f"{subject}\n\nIt is a number.\n\n{trailers}"
    commit(project, "line 30\n", "thirty\n", "-m", message)


@pytest.fixture
def applied(own: Project) -> Project:
    own.run("apply")
    return own


AMEND = ("--amend", "--no-edit")
BAD = diff_line(30, "thirty").replace("line 29", "row 29")


def test_the_tree_has_the_source_then_own_modules_then_a_commit_a_patch(
    applied: Project,
) -> None:
    assert subjects(applied) == ["twenty", "five", "Add own modules", "stock v1.2.0"]
    assert (applied.patched / "vllm/own.py").read_text() == "VALUE = 1\n"
    assert "\nfive\n" in (applied.patched / "pkg/parser.py").read_text()
    found = {change.path: change.stock for change in apply.changes(load("v1.2.0"))}
    assert found.pop("pkg/parser.py") == PARSER.encode()
    assert found == {"pkg/use.py": None, "vllm/own.py": None}
    head = applied.git("rev-parse", "HEAD")
    applied.run("apply", "--discard")
    assert applied.git("rev-parse", "HEAD") == head, "equal inputs give equal commits"
    assert applied.run("lint").stdout == ""


def test_a_conflict_is_an_ordinary_stop_of_git_am(own: Project) -> None:
    file = own.add_patch("bad", BAD)
    own.add_patch("last", diff_line(38, "last"))
    own.run(
        "apply",
        status=3,
        err=(
            "bad (3. in the series of v1.2.0) conflicts",
            "pkg/parser.py",
            "git am --continue",
        ),
    )
    assert "git am is not finished" in own.run("refresh", status=1).stderr
    # Without edits, the stop holds no work: a corrected diff applies.
    edit(own, "line 30\n", "thirty\n")
    assert "pkg/parser.py" in own.run("apply", status=1).stderr
    own.git("add", "--all")
    own.git("am", "--continue")
    assert subjects(own)[:3] == ["last", "bad", "twenty"]
    assert "changed bad/v1.2.0.diff" in own.run("refresh").stdout
    assert "row 29" not in file.read_text()
    own.run("apply")
    assert own.run("refresh").stdout == ""


def test_an_aborted_am_removes_no_patch(own: Project) -> None:
    own.add_patch("bad", BAD)
    own.run("apply", status=3)
    own.git("am", "--abort")
    own.run("refresh", status=1)
    assert own.diff("twenty").is_file()
    own.run("apply", "--discard", status=3)
    own.git("am", "--skip")
    assert "left out of the series: bad" in own.run("refresh").stdout
    assert "patches/bad is in no line" in own.run("lint", status=1).stdout
    assert own.diff("bad").is_file(), "it was never applied"


def test_fuzz_is_refused_and_an_offset_is_not(own: Project) -> None:
    moved = diff_line(30, "thirty").replace("@@ -27,7 +27,7 @@", "@@ -12,7 +12,7 @@")
    own.add_patch("moved", moved)
    own.run("refresh")
    own.run("apply")
    assert "\nthirty\n" in (own.patched / "pkg/parser.py").read_text()
    own.add_patch("fuzz", diff_line(35, "x").replace(" line 38", " row 38"))
    own.run("apply", status=3)


def test_a_patch_that_the_source_has_is_said(own: Project) -> None:
    own.add_patch("present", diff_line(10, "line 10").replace("-line 10\n", "-old\n"))
    said = own.run("apply", status=3).stderr
    assert "present (3. in the series) " not in said
    assert "is already present" in said and "present/v1.2.0.merged" in said


def test_what_is_not_as_pinned_is_refused_and_leaves_the_old_tree(
    applied: Project,
) -> None:
    replaced(applied.sums, applied.sums.read_text()[:8], "0" * 8)
    assert "not as pinned" in applied.run("apply", status=1).stderr
    assert subjects(applied)[0] == "twenty"


WORK = "echo an hour of work > pkg/parser.py"
#: What somebody did in a patched tree, as shell.
ACTS = {
    "commit": f"{WORK}; git commit --quiet -am work",
    "amend": f"{WORK}; git commit --quiet -a --amend -m 'stock v1.2.0'",
    "branch": (
        f"{WORK}; git checkout --quiet -b x; git commit -qam x; git switch -q main"
    ),
    "tag": f"{WORK}; git commit -qam x; git tag kept; git reset --quiet --hard HEAD^",
    "stash": f"{WORK}; git stash --quiet",
    "untracked": "touch notes",
    "ignored": "touch notes.txt",  # .gitignore has *.txt
    "worktree": "git worktree add --quiet --detach ../second",
    "note": "git notes add -m work",
    "skip-worktree": f"git update-index --skip-worktree pkg/parser.py; {WORK}",
    "assume-unchanged": f"git update-index --assume-unchanged pkg/parser.py; {WORK}",
    "remote reference": "git update-ref refs/remotes/me/work $(git write-tree)",
    "no stamp": "rm .git/patchset.json",
    "odd stamp": """echo '{"head": [1], "stock": null}' > .git/patchset.json""",
    "detached": "git checkout --quiet --detach",
    "in a cache": "echo work > pkg/__pycache__/notes.txt",
    "own am": "git format-patch -1 && git am 0*; rm 0*",
}


@pytest.mark.parametrize("act", ACTS)
def test_apply_deletes_no_work_that_its_stamp_does_not_explain(
    own: Project, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    for name in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"):
        monkeypatch.setenv(f"GIT_{name}", "a@b")
    tree = apply.patched_tree(load("v1.2.0"))
    lay(tree, {"pkg/__pycache__/parser.cpython-311.pyc": ""})
    assert apply.patched_tree(load("v1.2.0")) == tree, "caches are no work"
    subprocess.run(ACTS[act], shell=True, cwd=tree, check=True)
    before = sorted(tree.rglob("*"))
    own.add_patch("new", diff_line(30, "thirty"))
    with pytest.raises(PatchsetError, match="holds work that no diff has"):
        apply.patched_tree(load("v1.2.0"))
    assert sorted(tree.rglob("*")) == before
    own.sums.unlink()
    apply.patched_tree(load("v1.2.0"), discard=True)
    assert "\nthirty\n" in (tree / "pkg/parser.py").read_text()


@pytest.mark.parametrize("act", ["commit", "amend", "branch", "stash", "no stamp"])
def test_a_stock_tree_is_not_made_again_over_work(applied: Project, act: str) -> None:
    tree = applied.patched.with_name("stock")
    subprocess.run(ACTS[act], shell=True, cwd=tree, check=True)
    replaced(applied.pin, "revision = 1", "revision = 2")
    applied.run("apply", status=1, err=(f"the stock tree {tree} was changed",))
    shutil.rmtree(tree)
    applied.run("apply")


def test_a_file_saved_while_the_tree_is_made_again_is_kept(
    applied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = applied.patched / "notes"
    applied.add_patch("new", diff_line(30, "thirty"))
    applied.sums.unlink()
    saved_meanwhile(monkeypatch, apply, "add_files", notes)
    assert "holds work that no diff has: notes" in applied.run("apply", status=1).stderr
    assert notes.read_text() == "an hour of work\n"
    applied.run("apply", "--discard")


def test_a_file_saved_while_the_stock_tree_is_made_is_kept(
    own: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = own.patched.with_name("stock") / "notes"
    shutil.rmtree(notes.parent)
    saved_meanwhile(monkeypatch, state, "write", notes)
    assert "it has no stamp" in own.run("apply", status=1).stderr
    assert notes.read_text() == "an hour of work\n"


def test_diffs_are_written_from_the_branch_main_alone(applied: Project) -> None:
    applied.git("switch", "--quiet", "--create", "mine")
    commit(applied, "twenty\n", "TWENTY\n", *AMEND)
    assert "is on mine; only main" in applied.run("refresh", status=1).stderr
    applied.git("switch", "--quiet", "main")
    applied.git("reset", "--quiet", "--hard", "mine")
    applied.git("tag", "main")
    assert "changed twenty/v1.2.0.diff" in applied.run("refresh").stdout


def test_refresh_waits_for_the_end_of_a_rebase(applied: Project) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        applied.git("rebase", "--quiet", "--exec", "false", "HEAD^")
    assert "git rebase is not finished" in applied.run("refresh", status=1).stderr


def test_a_diff_that_could_not_be_read_again_is_not_written(
    applied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "MAX_FILE", 1000)
    commit(applied, "twenty\n", "twenty" * 200 + "\n", *AMEND)
    applied.run(
        "refresh", status=1, err=("twenty/v1.2.0.diff: more than 1000 bytes", "split")
    )


def listed(project: Project) -> list[str]:
    return [line.split()[0] for line in project.series.read_text().splitlines()]


def test_refresh_takes_amended_new_dropped_and_reordered_commits(
    applied: Project,
) -> None:
    applied.git("reset", "--quiet", "--hard", "HEAD~1")
    commit(applied, "five\n", "FIVE\n", *AMEND)
    thirty(applied, "Count to Thirty!")
    assert applied.run("refresh").stdout.splitlines() == [
        "changed five/v1.2.0.diff",
        "added count-to-thirty/reason.md",
        "added count-to-thirty/v1.2.0.diff",
        "removed twenty/reason.md",
        "removed twenty/v1.2.0.diff",
        "wrote v1.2.0/patched-files.sha256",
    ]
    assert listed(applied) == [OWN_MODULE, "five", "count-to-thirty"]
    assert "+FIVE" in applied.diff("five").read_text()
    assert not applied.diff("twenty").parent.exists()
    assert applied.run("refresh").stdout == ""
    applied.run("apply")
    assert applied.run("lint").stdout == ""


@pytest.mark.parametrize(
    "forged",
    [
        {"applied": ["../../../outside.diff"]},
        {"applied": ["/outside.diff"], "inputs": {"/outside.diff": "0" * 40}},
        {"inputs": {"five/reason.md": "--output=x"}},
        {"inputs": {"../reason.md": "0" * 40}},
        {"head": "--output=x"},
        {"port": {"from": "v1.2.0", "range": "--output=x"}},
        {"port": {"from": "../v1.2.0", "range": f"{'0' * 40}..{'0' * 40}"}},
        {"port": 3},
        {"head": None},
    ],
)
def test_a_forged_stamp_is_that_of_no_tree(
    applied: Project, forged: dict[str, Any]
) -> None:
    commit(applied, "line 30\n", "thirty\n", "-m", "x")
    outside = applied.root / "patches/outside.diff"
    outside.write_text("work\n")
    stamp = applied.patched / ".git" / "patchset.json"
    stamp.write_text(json.dumps(json.loads(stamp.read_text()) | forged))
    assert "another version of this tool" in applied.run("refresh", status=1).stderr
    assert "holds work" in applied.run("apply", status=1).stderr
    assert outside.read_text() == "work\n"
    stamp.write_text('{"head":' * 100_000)
    assert "another version of this tool" in applied.run("refresh", status=1).stderr


def test_refresh_refuses_what_cannot_be_a_patch_and_writes_nothing(
    applied: Project,
) -> None:
    edit(applied, "line 31\n", "more\n")
    assert "not committed" in applied.run("refresh", status=1).stderr
    commit(applied, "line 30\n", "thirty\n", "-m", "No reason")
    applied.run(
        "refresh",
        status=1,
        err=(
            "no trailer Proof",
            "gives no reason",
            "git rebase -i refs/patchset/stock",
        ),
    )
    applied.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "x", "--", ".")
    applied.git("reset", "--quiet", "--hard", "HEAD~1")
    applied.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
    assert "changes nothing" in applied.run("refresh", status=1).stderr
    assert listed(applied) == [OWN_MODULE, "five", "twenty"]


def test_an_edit_on_both_sides_is_refused(applied: Project) -> None:
    commit(applied, "twenty\n", "TWENTY\n", *AMEND)
    replaced(applied.diff("twenty"), "+twenty", "+score")
    applied.run("refresh", status=1, err=("twenty/v1.2.0.diff was edited since",))
    assert "+score" in applied.diff("twenty").read_text()


def test_a_module_is_edited_as_a_file_or_in_its_commit(applied: Project) -> None:
    module = applied.root / "patches" / OWN_MODULE
    module.write_text("VALUE = 2\n")
    assert applied.run("refresh").stdout == "wrote v1.2.0/patched-files.sha256\n"
    applied.run("apply")
    assert (applied.patched / "vllm/own.py").read_text() == "VALUE = 2\n"
    head = applied.git("rev-parse", "HEAD")
    module.write_text("VALUE = 2.5\n")
    assert "refresh -- v1.2.0 --all" in applied.run("apply").stderr, (
        "before it is pinned"
    )
    assert (applied.patched / "vllm/own.py").read_text() == "VALUE = 2.5\n"
    assert applied.git("status", "--porcelain") == ""
    module.write_text("VALUE = 2\n")
    applied.run("apply")
    assert applied.git("rev-parse", "HEAD") == head
    edit(applied, "2", "3", "vllm/own.py")
    applied.git("commit", "--quiet", "-a", "--fixup", "HEAD~2")
    applied.git("rebase", "-i", "--autosquash", "--quiet", "HEAD~4")
    assert f"changed {OWN_MODULE}" in applied.run("refresh").stdout
    assert module.read_text() == "VALUE = 3\n"


def test_a_shared_diff_stays_shared_at_another_place(own: Project) -> None:
    other = own.pin_next("top\n" + PARSER)
    before = own.diff("five").read_text()
    own.run("refresh", "v1.3.0")
    own.run("apply", "v1.3.0")
    thirty(other)
    assert own.run("refresh", "v1.3.0").stdout.splitlines() == [
        "added thirty/reason.md",
        "added thirty/v1.3.0.diff",
        "wrote v1.3.0/patched-files.sha256",
    ]
    assert own.series.read_text().splitlines()[-1].split() == ["thirty", "v1.3.0"]
    assert own.diff("five").read_text() == before
    assert own.run("lint").stdout == ""


def amend_five(project: Project, release: str, old: str, new: str) -> None:
    """Change what the patch five does, in a release's tree."""
    project.run("apply", release)
    commit(project, old, new, "--fixup", "HEAD~1")
    project.git("rebase", "-i", "--autosquash", "--quiet", "HEAD~3")


def test_an_edit_of_a_shared_diff_reaches_all_its_releases(own: Project) -> None:
    other = own.pin_next("top\n" + PARSER.replace("line 2\n", "row 2\n"))
    replaced(own.diff("five"), "@@ -2,7 +2,7 @@ line 1\n line 2\n", "@@ -3,6 +3,6 @@\n")
    own.run("refresh", "--all")
    own.run("refresh", "v1.3.0")
    before = other.sums.read_text()
    amend_five(own, "v1.2.0", "five\n", "FIVE\n")
    done = own.run(
        "refresh",
        out=("changed five/v1.2.0.diff\n", "wrote v1.3.0/patched-files.sha256"),
    )
    assert "added" not in done.stdout
    assert other.sums.read_text() != before
    text = own.diff("five").read_text()
    assert "+FIVE" in text and "@@ -4,3 +4,3 @@" in text, "the least that fits both"


def test_an_edit_that_fits_no_other_release_gets_a_diff_of_its_own(
    own: Project,
) -> None:
    """In the older release with the newer one's text kept, and the other way round."""
    other = own.pin_next(PARSER.replace("line 12\n", "row 12\n"))
    own.run("refresh", "v1.3.0")
    before = own.diff("five").read_text()
    amend_five(other, "v1.3.0", "row 12\n", "twelve\n")
    own.run("refresh", "v1.3.0")
    assert own.diff("five").read_text() == before
    assert "+twelve" in own.diff("five", "v1.3.0").read_text()
    own.diff("five", "v1.3.0").unlink()
    own.run("refresh", "--all")
    pinned = other.sums.read_text()
    amend_five(own, "v1.2.0", "line 12\n", "twelve\n")
    own.run("refresh", "v1.2.0")
    assert "+twelve" in own.diff("five").read_text()
    assert own.diff("five", "v1.3.0").read_text() == before
    assert other.sums.read_text() == pinned
    assert own.run("lint").stdout == ""


def test_one_word_of_a_reason_is_one_line(applied: Project) -> None:
    diff, reason = applied.diff("twenty"), applied.diff("twenty").with_name("reason.md")
    replaced(diff, "@@ -17,7 +17,7 @@ line 16\n line 17\n", "@@ -18,6 +18,6 @@\n")
    applied.run("apply")
    before = diff.read_text(), reason.read_text()
    message = applied.git("log", "-1", "--format=%B").replace("needs it", "needs, it")
    applied.git("commit", "--quiet", "--amend", "-m", message)
    assert applied.run("refresh").stdout == "changed twenty/reason.md\n"
    assert diff.read_text() == before[0]
    assert reason.read_text() == before[1].replace("needs it", "needs, it")


def test_a_patch_that_a_release_leaves_out_ends_or_begins_beside_it(
    own: Project,
) -> None:
    other = own.pin_next(PARSER)
    own.run("refresh", "v1.3.0")
    own.run("apply", "v1.3.0")
    other.git("reset", "--quiet", "--hard", "HEAD~1")
    own.run("refresh", "v1.3.0")
    assert "twenty" in own.series.read_text()
    assert own.series.read_text().splitlines()[-1].split()[1:] == ["v1.2.0", "v1.2.0"]
    own.run("apply", "v1.2.0")
    own.git("rebase", "--quiet", "--onto", "HEAD~2", "HEAD~1")
    own.run("refresh", "v1.2.0")
    assert own.diff("five", "v1.3.0").exists() and not own.diff("five").exists()
    said = own.run("lint", status=1).stdout
    assert said.startswith(f"v1.2.0: no patch needs {OWN_MODULE}; end its line")
    own.run("apply", "v1.3.0")


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ("a/b v1.2.0\n", "is not a line"),
        ("../x v1.2.0\n", "is not a line"),
        ("releases v1.2.0\n", "is not a line"),
        ("modules/vllm/../x.py v1.2.0\n", "is not a line"),
        ("modules/setup.py v1.2.0\n", "is not a line"),
        ("x\n", "is not a line"),
        ("x v1.2.0 v1.3.0 v1.4.0\n", "is not a line"),
        ("x v1.2.0\n\n", "is not a line"),
        ("x v1.2.0\nx v1.1.0 v1.1.0\n", "listed twice"),
        (f"x v1.2.0\n{OWN_MODULE} v1.2.0\n", "a patch comes before"),
        ("x v1.2.0\n" * 100_000, "more than 100000 bytes"),
        ("gone v1.2.0\n", "has no diff for v1.2.0"),
    ],
)
def test_a_series_that_is_none_is_refused(own: Project, series: str, said: str) -> None:
    own.series.write_text(series)
    assert said in own.run("apply", status=1).stderr
    assert said in own.run("lint", status=1).stdout


@pytest.mark.parametrize(
    "place",
    [
        "series",
        "twenty/reason.md",
        "twenty/v1.2.0.diff",
        "releases/v1.2.0/patched-files.sha256",
        "releases/v1.2.0/release.toml",
    ],
)
def test_a_pipe_or_a_link_is_no_file(own: Project, place: str, tmp_path: Path) -> None:
    file = own.root / "patches" / place
    outside = tmp_path / "outside"
    outside.write_text(file.read_text())
    file.unlink()
    os.mkfifo(file)
    assert "cannot be read" in own.run("apply", status=1).stderr
    file.unlink()
    file.symlink_to(outside)
    assert "cannot be read" in own.run("apply", status=1).stderr


def test_a_release_folder_that_is_a_link_is_refused(
    own: Project, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere"
    own.folder.rename(moved)
    own.folder.symlink_to(moved)
    assert "is a link" in own.run("refresh", status=1).stderr
    assert own.folder.is_symlink()


def test_lint_names_each_fault_of_an_edit_by_hand(own: Project) -> None:
    new = (
        "patches/modules/vllm/lost.py",
        "patches/lost/v1.2.0.diff",
        "patches/five/note.txt",
        "patches/five/v1.1.0.diff",
        "patches/twenty/v1.2.0.merged",
        "tests/patches/test_lost.py",
    )
    lay(own.root, {**dict.fromkeys(new, ""), f"patches/{OWN_MODULE}": "VALUE = 2\n"})
    replaced(own.diff("twenty"), "--- a/", "index 1234567..89abcde 100644\n--- a/")
    own.add_patch("odd", diff_line(1, "x", "vllm/own.py"))
    own.run(
        "lint",
        status=1,
        out=(
            "patches/modules/vllm/lost.py is in no line",
            "patches/lost is in no line",
            "patches/five/note.txt is no part of a patch",
            "patches/five: its first diff is for v1.1.0, its line says v1.2.0",
            "patches/five/v1.1.0.diff is for no release that takes it",
            "patches/twenty/v1.2.0.merged: v1.2.0 takes the patch",
            "twenty/v1.2.0.diff: has more than",
            "odd/v1.2.0.diff: changes vllm/own.py, which is ours",
            f"{OWN_MODULE} is not as patched-files.sha256 pins it",
            "tests/patches/test_lost.py proves no patch",
        ),
    )
    own.series.write_text(f"{OWN_MODULE} v1.2.0\ntwenty v1.2.0\n")
    assert f"no patch needs {OWN_MODULE}" in own.run("lint", status=1).stdout


@pytest.mark.parametrize("point", [1, 2])
def test_refresh_that_dies_while_it_writes_ends_right(
    applied: Project, monkeypatch: pytest.MonkeyPatch, point: int
) -> None:
    """Interrupted at each of the files that it writes."""
    commit(applied, "twenty\n", "TWENTY\n", *AMEND)
    thirty(applied)
    write, calls = files.write_text, itertools.count(1)

    def die(path: Path, text: str) -> None:
        if next(calls) == point:
            raise KeyboardInterrupt
        write(path, text)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_text", die)
        applied.run("refresh", status=130)
    applied.run("refresh")
    assert applied.run("lint").stdout == ""
    assert applied.run("refresh").stdout == ""
    applied.run("apply")
    assert subjects(applied)[:3] == ["Thirty", "twenty", "five"]
    assert "+TWENTY" in applied.diff("twenty").read_text()
