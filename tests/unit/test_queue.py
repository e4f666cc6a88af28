# SPDX-License-Identifier: Apache-2.0
"""apply and refresh, run as a user runs them, on a real tree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import HEADER, PARSER, Project, diff_line
from patchset.release import load
from patchset.series.apply import changes


def subjects(project: Project) -> list[str]:
    return project.git("log", "--format=%s", "--reverse").splitlines()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_tree_has_the_source_first_then_one_commit_a_patch(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.add_patch("0002-second.diff", diff_line(30, "thirty"))
    done = project.run("apply")
    assert done.stdout.strip() == str(project.patched)
    assert subjects(project) == ["stock v1.2.0", "0001-first", "0002-second"]
    assert (project.patched / "pkg/data.txt").read_text() == "data\n", (
        "ignored files of the source belong to it"
    )
    assert "five" in (project.patched / "pkg/parser.py").read_text()
    assert "(2/2)" in done.stderr


def test_equal_inputs_give_equal_commits(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.run("apply")
    first = project.git("rev-parse", "HEAD")
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    project.run("apply")
    other = tmp_path / "elsewhere/trees/v1.2.0/patched"
    assert subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=other, text=True) == first


def test_upto_and_without(project: Project) -> None:
    for number in (5, 20, 35):
        project.add_patch(f"{number:04d}-line.diff", diff_line(number, f"new {number}"))
    project.run("apply", "--upto", "2")
    assert subjects(project) == ["stock v1.2.0", "0005-line", "0020-line"]
    project.run("apply", "--without", "0020-line")
    assert subjects(project) == ["stock v1.2.0", "0005-line", "0035-line"]
    project.run("apply", "--upto", "0005-line")
    assert subjects(project) == ["stock v1.2.0", "0005-line"]
    assert "beyond the series" in project.run("apply", "--upto", "4", status=2).stderr
    assert "no patch is called nonsense" in project.run("apply", "--without", "nonsense", status=2).stderr


def test_conflict_names_patch_file_hunk_what_stands_there_and_the_way_on(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.add_patch("0002-same-place.diff", diff_line(6, "six"))
    message = project.run("apply", status=3).stderr
    for expected in (
        "0002-same-place",
        "pkg/parser.py: hunk 1 of 1",
        "5 | five",
        "no fuzz",
        "git apply --reject",
    ):
        assert expected in message
    assert subjects(project) == ["stock v1.2.0", "0001-first"], "the tree stands right before the patch"


def test_conflict_resolved_in_the_tree_comes_back_as_the_diff(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.add_patch("0002-same-place.diff", diff_line(6, "six"))
    project.add_patch("0003-later.diff", diff_line(30, "thirty"))
    project.run("apply", status=3)
    file = project.patched / "pkg/parser.py"
    file.write_text(file.read_text().replace("line 6\n", "six\n"))
    project.git("commit", "-a", "-q", "-F", ".git/PATCH_MESSAGE")
    assert project.run("refresh").stdout.split("\n")[0] == "changed 0002-same-place.diff"
    assert (
        project.folder / "series"
    ).read_text() == "0001-first.diff\n0002-same-place.diff\n0003-later.diff\n"
    project.run("apply")
    assert subjects(project)[1:] == ["0001-first", "0002-same-place", "0003-later"]


def test_fuzz_is_refused(project: Project) -> None:
    fuzzy = diff_line(20, "twenty").replace(" line 17\n", " line seventeen\n")
    project.add_patch("0001-fuzzy.diff", fuzzy)
    assert "no fuzz is taken" in project.run("apply", status=3).stderr


def test_already_present_says_drop_it(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.add_patch("0002-again.diff", diff_line(5, "five"))
    message = project.run("apply", status=4).stderr
    assert "already present" in message and "drop it" in message


def test_edits_are_not_lost_unless_discarded(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.run("apply")
    file = project.patched / "pkg/parser.py"
    file.write_text("mine\n")
    assert "holds edits" in project.run("apply", status=1).stderr
    assert file.read_text() == "mine\n"
    project.run("apply", "--discard")
    assert file.read_text() == PARSER.replace("line 5\n", "five\n")


def test_refresh_round_trip_changes_nothing(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    new = "diff --git a/pkg/new.py b/pkg/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/pkg/new.py\n@@ -0,0 +1 @@\n+new\n"
    project.add_patch("0002-new-file.diff", new)
    project.run("refresh")
    before = snapshot(project.folder)
    project.run("apply")
    assert "2 diffs unchanged" in project.run("refresh").stderr
    assert snapshot(project.folder) == before


def test_refresh_takes_amended_new_and_dropped_commits(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.add_patch("0002-second.diff", diff_line(30, "thirty"))
    project.run("apply")
    project.git("reset", "-q", "--hard", "HEAD~1")
    file = project.patched / "pkg/parser.py"
    file.write_text(file.read_text().replace("five", "FIVE"))
    project.git("commit", "-q", "-a", "--amend", "--no-edit")
    file.write_text(file.read_text().replace("line 40", "forty"))
    fields = HEADER.format(subject="x").split("\n", 1)[1]
    project.git("commit", "-q", "-a", "-m", f"Make it forty\n\n{fields}")
    done = project.run("refresh")
    assert done.stdout.split("\n")[:3] == [
        "changed 0001-first.diff",
        "added 0003-make-it-forty.diff",
        "removed 0002-second.diff",
    ]
    assert (project.folder / "series").read_text() == "0001-first.diff\n0003-make-it-forty.diff\n"
    assert not (project.folder / "0002-second.diff").exists()
    project.run("lint")
    assert "2 diffs unchanged" in project.run("refresh").stderr


def test_refresh_refuses_a_commit_without_header_and_writes_nothing(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.run("apply")
    before = snapshot(project.folder)
    (project.patched / "pkg/parser.py").write_text("mine\n")
    assert "not committed" in project.run("refresh", status=1).stderr
    project.git("commit", "-q", "-a", "-m", "no header")
    assert "the header has no field Reason" in project.run("refresh", status=1).stderr
    assert snapshot(project.folder) == before


def test_refresh_of_a_partial_tree_keeps_the_rest_in_place(project: Project) -> None:
    for number in (5, 20, 35):
        project.add_patch(f"{number:04d}-line.diff", diff_line(number, f"new {number}"))
    project.run("refresh")
    before = snapshot(project.folder)
    project.run("apply", "--without", "0020-line")
    project.run("refresh")
    assert snapshot(project.folder) == before


def test_common_diff_is_shared(project: Project) -> None:
    project.add_patch("core/reader.diff", diff_line(5, "five"), HEADER.format(subject="reader"))
    project.run("apply")
    (project.patched / "pkg/parser.py").write_text(PARSER.replace("line 5\n", "FIVE\n"))
    project.git("commit", "-q", "-a", "--amend", "--no-edit")
    assert "changed core/reader.diff" in project.run("refresh").stdout
    assert "+FIVE" in (project.root / "patches/core/reader.diff").read_text()


def test_changes_give_both_sides(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    gone = "diff --git a/pkg/data.txt b/pkg/data.txt\ndeleted file mode 100644\n--- a/pkg/data.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-data\n"
    project.add_patch("0002-gone.diff", gone)
    found = {change.path: change for change in changes(load())}
    assert found["pkg/data.txt"].content is None and found["pkg/data.txt"].stock == b"data\n"
    assert found["pkg/parser.py"].stock == PARSER.encode()
    assert found["pkg/parser.py"].content == PARSER.replace("line 5\n", "five\n").encode()


def test_changed_stock_tree_is_refused(project: Project) -> None:
    project.run("apply")
    (project.root / "build/trees/v1.2.0/stock/pkg/parser.py").write_text("edited\n")
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    assert "stock tree" in project.run("apply", status=1).stderr


@pytest.mark.parametrize("delay", [0.0, 0.15, 0.3, 0.45, 0.6])
def test_interrupted_anywhere_a_second_run_completes(project: Project, delay: float) -> None:
    for number in range(4, 40, 7):
        project.add_patch(f"{number:04d}-line.diff", diff_line(number, f"new {number}"))
    run = subprocess.Popen(
        [sys.executable, "-m", "patchset", "apply"],
        cwd=project.root,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(0.2 + delay)
    os.killpg(run.pid, signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode in (0, 130, -signal.SIGINT)
    project.run("apply")
    assert len(subjects(project)) == 7
    left = [p.name for p in (project.root / "build/trees/v1.2.0").iterdir() if p.name.startswith(".tmp-")]
    assert not left


def test_two_runs_at_once_both_succeed(project: Project) -> None:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    command = [sys.executable, "-m", "patchset", "apply"]
    runs = [subprocess.Popen(command, cwd=project.root, stderr=subprocess.PIPE) for _ in range(3)]
    for run in runs:
        _, words = run.communicate(timeout=120)
        assert run.returncode == 0, words.decode()
    assert subjects(project) == ["stock v1.2.0", "0001-first"]


def test_a_git_commit_is_the_second_source_kind(project: Project, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    (remote / "pkg").mkdir(parents=True)
    (remote / "pkg/parser.py").write_text(PARSER)
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@localhost", "-C", str(remote)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "between two releases"], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    pin = project.folder / "release.toml"
    head, _, _ = pin.read_text().partition("[sdist]")
    pin.write_text(f'{head}[git]\nremote = "{remote.as_uri()}"\ncommit = "{commit}"\n\n[wheels]\n')
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    project.run("apply")
    assert "five" in (project.patched / "pkg/parser.py").read_text()
    pin.write_text(pin.read_text().replace(commit, "f" * 40))
    assert "does not give commit" in project.run("apply", status=6).stderr


def test_what_a_run_left_beside_a_finished_tree_goes(project: Project) -> None:
    """Killed behind its last step, ``apply`` leaves the tree that it has replaced."""
    project.add_patch("0001-five.diff", diff_line(5, "five"))
    project.run("apply")
    trees = project.root / "build/trees/v1.2.0"
    (trees / ".tmp-x-patched" / "pkg").mkdir(parents=True)
    project.run("apply")
    assert sorted(path.name for path in trees.iterdir() if path.is_dir()) == ["patched", "stock"]
