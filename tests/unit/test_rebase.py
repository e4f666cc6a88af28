# SPDX-License-Identifier: Apache-2.0
"""A series on made-up next releases, ported over as a user does it, with real git."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import HEADER, PARSER, Project, diff_line, make_sdist, release_toml
from patchset.rebase import port

NEW = "v1.3.0"

#: What upstream's next release looks like without any change.
SAME = {"pkg/parser.py": PARSER, "pkg/data.txt": "data\n", ".gitignore": "*.txt\n"}


def changed(**lines: str) -> str:
    """PARSER with some lines replaced, as line5="five"."""
    text = PARSER
    for name, new in lines.items():
        text = text.replace(f"line {name.removeprefix('line')}\n", new)
    return text


def next_release(project: Project, contents: dict[str, str], version: str = "1.3.0") -> Path:
    """Pin a next release with an empty series; its folder below patches/."""
    sdist = make_sdist(project.downloads, contents, version)
    folder = project.root / "patches" / f"v{version}"
    folder.mkdir()
    (folder / "release.toml").write_text(release_toml(sdist, version, default=False))
    (folder / "series").touch()
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def header(name: str) -> str:
    return HEADER.format(subject=name).replace("test_one", f"test_{name}")


@pytest.fixture
def three(project: Project) -> Project:
    """Three patches with proofs of their own: lines 5, 20 and 35."""
    for name, number in (("five", 5), ("twenty", 20), ("thirtyfive", 35)):
        project.add_patch(f"{name}.diff", diff_line(number, name), header(name))
        (project.root / f"tests/patches/test_{name}.py").write_text("def test(): pass\n")
    project.run("refresh")
    return project


def work(project: Project) -> Path:
    return project.root / "build/rebase" / NEW / "work"


def git(folder: Path, *arguments: str) -> str:
    """Git as the user has it: no identity, no configuration."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_EDITOR": "true"}
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, env=environment
    ).stdout


def statuses(output: str) -> dict[str, str]:
    """Patch name to its status, of what the command prints."""
    words = ("ported", "offset", "merged by three-way", "resolved by hand", "dropped", "conflict")
    return {
        line[20:].split()[0]: word for line in output.splitlines() for word in words if line.startswith(word)
    }


def test_same_source_is_carried_unchanged_and_applies(three: Project) -> None:
    folder = next_release(three, SAME)
    done = three.run("rebase", NEW)
    assert statuses(done.stdout) == dict.fromkeys(("five", "twenty", "thirtyfive"), "ported")
    assert (folder / "five.diff").read_bytes() == (three.folder / "five.diff").read_bytes()
    three.run("apply", NEW)
    three.run("lint")
    assert not work(three).exists(), "nothing is left of a finished rebase but its report"


def test_offset_is_refreshed_away(three: Project) -> None:
    folder = next_release(three, {**SAME, "pkg/parser.py": "new first line\n" * 4 + PARSER})
    done = three.run("rebase", NEW)
    assert set(statuses(done.stdout).values()) == {"offset"}
    assert "@@ -6,7 +6,7 @@" in (folder / "five.diff").read_text()
    assert "Last-Refresh: v1.3.0" in (folder / "five.diff").read_text()
    assert "changed upstream     pkg/parser.py +4 -0" in done.stdout
    three.run("apply", NEW)


def test_upstream_changed_the_context(three: Project) -> None:
    folder = next_release(three, {**SAME, "pkg/parser.py": changed(line22="their 22\n")})
    done = three.run("rebase", NEW)
    assert statuses(done.stdout)["twenty"] == "merged by three-way"
    assert " their 22\n" in (folder / "twenty.diff").read_text()
    report = (three.root / "build/rebase/v1.3.0/report.md").read_text()
    assert "| twenty | merged by three-way |" in report and "````diff" in report
    assert "nox -s proofs -- v1.3.0" in report
    three.run("apply", NEW)


def test_upstream_moved_the_file(three: Project) -> None:
    next_release(three, {"pkg/moved.py": PARSER, "pkg/data.txt": "data\n", ".gitignore": "*.txt\n"})
    done = three.run("rebase", NEW)
    assert set(statuses(done.stdout).values()) == {"merged by three-way"}
    assert "the file is gone" in done.stdout
    three.run("apply", NEW)
    assert "twenty" in (three.root / "build/trees/v1.3.0/patched/pkg/moved.py").read_text()


@pytest.mark.parametrize("around", [{}, {"line22": "their 22\n"}])
def test_what_upstream_took_is_dropped_and_its_proof_must_pass_on_stock(
    three: Project, around: dict[str, str]
) -> None:
    folder = next_release(three, {**SAME, "pkg/parser.py": changed(line20="twenty\n", **around)})
    done = three.run("rebase", NEW)
    assert statuses(done.stdout)["twenty"] == "dropped"
    assert (folder / "series").read_text() == "five.diff\nthirtyfive.diff\n"
    assert (folder / "stock-must-pass").read_text() == "tests/patches/test_twenty.py\n"
    assert not (folder / "twenty.diff").exists() and (three.folder / "twenty.diff").exists()
    assert "test_twenty, stock: green, expected green" in three.run("prove", NEW, status=1).stderr
    # the list goes on to the release after it
    next_release(three, {**SAME, "pkg/parser.py": changed(line20="twenty\n")}, "1.4.0")
    three.run("rebase", "v1.4.0")
    assert (three.root / "patches/v1.4.0/stock-must-pass").read_text() == "tests/patches/test_twenty.py\n"
    (three.root / "tests/patches/test_twenty.py").write_text("def test(): assert 0\n")
    assert "test_twenty, stock: red, expected green" in three.run("prove", "v1.4.0", status=1).stderr


def test_a_header_that_names_the_version_decides_before_the_merge(project: Project) -> None:
    said = header("five").replace("pending", "merged in v1.3.0")
    project.add_patch("five.diff", diff_line(5, "five"), said)
    project.add_patch("twenty.diff", diff_line(20, "twenty"), header("twenty"))
    (project.root / "tests/patches/test_five.py").touch()
    (project.root / "tests/patches/test_twenty.py").touch()
    folder = next_release(project, {**SAME, "pkg/parser.py": PARSER + "five, in another way\n"})
    done = project.run("rebase", NEW)
    assert statuses(done.stdout) == {"five": "dropped", "twenty": "ported"}
    assert (folder / "stock-must-pass").read_text() == "tests/patches/test_five.py\n"
    # going back it is needed again, and said
    next_release(project, SAME, "1.2.5")
    done = project.run("rebase", "v1.2.5", "--from", NEW)
    assert "five of v1.2.0 is not in it, and upstream has it from v1.3.0 on only" in done.stdout
    assert not (project.root / "patches/v1.2.5/stock-must-pass").exists()


def test_lint_knows_the_list_of_proofs(three: Project) -> None:
    (three.folder / "stock-must-pass").write_text("tests/patches/test_five.py\ntests/patches/test_none.py\n")
    said = three.run("lint", status=1).stdout
    assert "test_five.py is the proof of five, which the series has" in said
    assert "test_none.py does not exist" in said
    (three.folder / "stock-must-pass").write_text("../elsewhere.py\n")
    assert "is not a proof" in three.run("lint", status=1).stdout


def test_half_merge_keeps_the_rest_and_says_so(project: Project) -> None:
    both = diff_line(5, "five") + "".join(diff_line(30, "thirty").splitlines(keepends=True)[3:])
    project.add_patch("both.diff", both)
    folder = next_release(project, {**SAME, "pkg/parser.py": changed(line5="five\n")})
    done = project.run("rebase", NEW)
    assert statuses(done.stdout) == {"both": "merged by three-way"}
    assert "+1 −1 lines, was +2 −2: look at what is left of it" in done.stdout
    rest = (folder / "both.diff").read_text()
    assert "+thirty" in rest and "+five" not in rest
    project.run("apply", NEW)
    assert (project.root / "build/trees/v1.3.0/patched/pkg/parser.py").read_text() == changed(
        line5="five\n", line30="thirty\n"
    )


def test_half_merge_that_upstream_did_otherwise_conflicts(project: Project) -> None:
    both = diff_line(5, "five") + "".join(diff_line(30, "thirty").splitlines(keepends=True)[3:])
    project.add_patch("both.diff", both)
    before = snapshot(project.root / "patches")
    next_release(project, {**SAME, "pkg/parser.py": changed(line5="FIVE\n")})
    after = snapshot(project.root / "patches")
    project.run("rebase", NEW, status=3)
    assert snapshot(project.root / "patches") == after
    assert len(after) == len(before) + 2
    text = (work(project) / "pkg/parser.py").read_text()
    assert "FIVE" in text and "five" in text and "thirty" in text and "<<<<<<<" in text


@pytest.fixture
def stopped(three: Project) -> Project:
    """A rebase that stopped at the conflict in the second patch."""
    next_release(three, {**SAME, "pkg/parser.py": changed(line20="theirs\n")})
    before = snapshot(three.root / "patches")
    said = three.run("rebase", NEW, status=3).stderr
    for expected in (
        "twenty conflicts",
        "pkg/parser.py",
        "git cherry-pick --continue",
        "rebase -- v1.3.0 --continue",
    ):
        assert expected in said
    assert snapshot(three.root / "patches") == before
    assert "| twenty | conflict | `pkg/parser.py` |" in (work(three).parent / "report.md").read_text()
    return three


def resolve(project: Project) -> None:
    file = work(project) / "pkg/parser.py"
    file.write_text(changed(line5="five\n", line20="twenty and theirs\n"))
    git(work(project), "add", "pkg/parser.py")


@pytest.mark.parametrize("by", ["git", "the tool", "commit"])
def test_conflict_resolved(stopped: Project, by: str) -> None:
    assert "stopped at the conflict" in stopped.run("rebase", NEW, status=1).stderr
    assert "twenty conflicts" in stopped.run("rebase", NEW, "--continue", status=3).stderr
    resolve(stopped)
    if by == "git":
        git(work(stopped), "cherry-pick", "--continue")
    if by == "commit":
        git(work(stopped), "commit", "--no-edit")
    done = stopped.run("rebase", NEW, "--continue")
    assert statuses(done.stdout)["twenty"] == "resolved by hand"
    assert statuses(done.stdout)["thirtyfive"] == "ported"
    text = (stopped.root / "patches/v1.3.0/twenty.diff").read_text()
    assert "-theirs\n+twenty and theirs\n" in text and "Proof: tests/patches/test_twenty.py" in text
    stopped.run("apply", NEW)
    stopped.run("lint")


def test_markers_that_were_added_are_refused(stopped: Project) -> None:
    git(work(stopped), "add", "pkg/parser.py")
    assert "twenty conflicts" in stopped.run("rebase", NEW, "--continue", status=3).stderr


@pytest.mark.parametrize("by", ["git", "resolved to nothing"])
def test_conflict_skipped(stopped: Project, by: str) -> None:
    if by == "git":
        git(work(stopped), "cherry-pick", "--skip")
    else:
        git(work(stopped), "checkout", "HEAD", "--", "pkg/parser.py")
    done = stopped.run("rebase", NEW, "--continue")
    assert statuses(done.stdout)["twenty"] == "dropped"
    assert "left out by hand" in done.stdout
    assert (stopped.root / "patches/v1.3.0/series").read_text() == "five.diff\nthirtyfive.diff\n"


def test_restart_throws_the_conflict_away(stopped: Project) -> None:
    resolve(stopped)
    stopped.run("rebase", NEW, "--restart", status=3)
    assert "<<<<<<<" in (work(stopped) / "pkg/parser.py").read_text()


def test_a_series_that_changed_since_is_noticed(stopped: Project) -> None:
    (stopped.folder / "series").write_text("five.diff\nthirtyfive.diff\n")
    (stopped.folder / "twenty.diff").unlink()
    stopped.run("refresh")
    assert "changed since" in stopped.run("rebase", NEW, "--continue", status=1).stderr
    stopped.run("rebase", NEW, "--restart")


def test_dry_run_changes_nothing(three: Project) -> None:
    next_release(three, {**SAME, "pkg/parser.py": changed(line20="theirs\n")})
    three.run("apply")
    three.run("apply", NEW)
    before = snapshot(three.root)
    done = three.run("rebase", NEW, "--dry-run", status=3)
    assert statuses(done.stdout) == {"five": "ported", "twenty": "conflict", "thirtyfive": "ported"}
    after = snapshot(three.root)
    ignored = {name for name in after if name.endswith((".lock", "/.git/index"))}
    assert {k: v for k, v in after.items() if k not in ignored} == {
        k: v for k, v in before.items() if k not in ignored
    }


def test_dry_run_knows_conflicts_that_were_resolved(stopped: Project) -> None:
    resolve(stopped)
    stopped.run("rebase", NEW, "--continue")
    said = stopped.run("rebase", NEW, "--dry-run", status=3).stdout
    assert "resolved before as the series that stands there has it" in said
    assert "the same series as the existing one" in said


def test_common_diffs_are_copied_only_when_they_change(project: Project) -> None:
    for name, number in (("five", 5), ("twenty", 20)):
        project.add_patch(f"core/{name}.diff", diff_line(number, name), HEADER.format(subject=name))
    project.run("refresh")
    shared = snapshot(project.root / "patches/core")
    folder = next_release(project, {**SAME, "pkg/parser.py": changed(line22="their 22\n")})
    project.run("rebase", NEW)
    shared["five.diff"] = shared["five.diff"].replace(b"Releases: v1.2.0", b"Releases: v1.2.0, v1.3.0")
    assert (folder / "series").read_text() == "core/five.diff\ntwenty.diff\n"
    assert snapshot(project.root / "patches/core") == shared
    # and back: what comes out equal to the shared diff is the shared diff again
    next_release(project, SAME, "1.2.1")
    project.run("rebase", "v1.2.1", "--from", NEW)
    assert (project.root / "patches/v1.2.1/series").read_text() == "core/five.diff\ncore/twenty.diff\n"


def test_a_shared_diff_stays_shared_at_an_offset(project: Project) -> None:
    project.add_patch("core/five.diff", diff_line(5, "five"), HEADER.format(subject="five"))
    project.run("refresh")
    diff = (project.root / "patches/core/five.diff").read_text()
    folder = next_release(project, {**SAME, "pkg/parser.py": "new first line\n" * 4 + PARSER})
    done = project.run("rebase", NEW)
    assert statuses(done.stdout) == {"five": "offset"}
    assert (folder / "series").read_text() == "core/five.diff\n"
    shared = (project.root / "patches/core/five.diff").read_text()
    assert shared == diff.replace("Releases: v1.2.0\n", "Releases: v1.2.0, v1.3.0\n")
    assert (folder / "patched-files.sha256").read_text().endswith("  pkg/parser.py\n")
    project.run("apply", NEW)
    project.run("lint")


def test_a_changed_common_diff_is_brought_to_the_releases_that_use_it(project: Project) -> None:
    project.add_patch("core/five.diff", diff_line(5, "five"), HEADER.format(subject="five"))
    project.add_patch("seven.diff", diff_line(7, "seven").replace(" line 5\n", " five\n"))
    (project.folder / "stock-must-pass").write_text("tests/patches/test_old.py\n")
    (project.root / "tests/patches/test_old.py").touch()
    common = project.root / "patches/core/five.diff"
    original = common.read_text()
    edited = original.replace("+five\n", "+FIVE\n+and more\n").replace("+2,7 @@", "+2,8 @@")
    common.write_text(edited)
    project.run("apply", status=3)
    assert "no commit of it" in project.run("rebase", "v1.2.0", "--from", "v1.2.0", status=1).stderr
    common.write_text(original)
    project.run("apply")
    common.write_text(edited)
    done = project.run("rebase", "v1.2.0", "--from", "v1.2.0", "--restart")
    assert statuses(done.stdout) == {"five": "ported", "seven": "merged by three-way"}
    assert common.read_text().replace("Releases: v1.2.0\n", "") == edited
    assert " and more\n" in (project.folder / "seven.diff").read_text()
    assert (project.folder / "stock-must-pass").exists()
    project.run("apply")


def test_an_existing_series_is_compared_and_not_replaced_unasked(three: Project) -> None:
    folder = next_release(three, {**SAME, "pkg/parser.py": "new first line\n" + PARSER})
    three.run("rebase", NEW)
    before = snapshot(folder)
    assert "has a series already" in three.run("rebase", NEW, status=2).stderr
    assert "the same series as the existing one" in three.run("rebase", NEW, "--dry-run").stdout
    (folder / "series").write_text("five.diff\nthirtyfive.diff\n")
    assert "twenty is not in it" in three.run("rebase", NEW, "--dry-run").stdout
    three.run("rebase", NEW, "--replace")
    assert snapshot(folder) == before


def test_a_series_that_is_replaced_by_none_leaves_no_pinned_files(project: Project) -> None:
    project.add_patch("five.diff", diff_line(5, "five"), header("five"))
    (project.root / "tests/patches/test_five.py").touch()
    folder = next_release(project, SAME)
    project.run("rebase", NEW)
    assert (folder / "patched-files.sha256").exists()
    diff = project.folder / "five.diff"
    diff.write_text(diff.read_text().replace("pending", "merged in v1.3.0"))
    assert statuses(project.run("rebase", NEW, "--replace").stdout) == {"five": "dropped"}
    assert not (folder / "patched-files.sha256").exists()
    project.run("apply", NEW)


@pytest.mark.parametrize("delay", [0.3, 0.6, 0.9, 1.2, 1.5, 1.8])
def test_killed_anywhere_it_can_be_run_again(three: Project, delay: float) -> None:
    folder = next_release(three, {**SAME, "pkg/parser.py": changed(line22="their 22\n")})
    for name in ("v1.2.0", NEW):
        three.run("apply", name)
    before = snapshot(three.root / "patches")
    run = subprocess.Popen(
        [sys.executable, "-m", "patchset", "rebase", NEW],
        cwd=three.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(delay)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate(timeout=60)
    between = {k: v for k, v in snapshot(three.root / "patches").items() if ".tmp-" not in k}
    assert between == before or (folder / "twenty.diff").exists(), "all or nothing"
    if between == before:
        three.run("rebase", NEW)
    three.run("apply", NEW)
    three.run("lint")
    assert (folder / "series").read_text() == "five.diff\ntwenty.diff\nthirtyfive.diff\n"
    assert not list((three.root / "patches").glob(".tmp-*"))


def test_locks_that_a_killed_git_left_do_not_stop_the_next_run(
    three: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_release(three, SAME)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(port, "port_patch", interrupted)
        three.run("rebase", NEW, status=130)
    repository = three.root / "build" / "rebase" / NEW / "work" / ".git"
    (branch,) = (repository / "refs" / "heads").glob("*")
    for left in ("HEAD.lock", "index.lock", f"refs/heads/{branch.name}.lock"):
        (repository / left).touch()
    three.run("rebase", NEW)


def test_a_folder_that_was_just_being_replaced_is_not_lost(three: Project) -> None:
    folder = next_release(three, SAME)
    (folder / "requirements.cuda.lock").write_text("kept\n")
    aside = three.root / "patches" / ".tmp-x-old-v1.3.0"
    aside.mkdir()
    folder.rename(aside / NEW)
    (three.root / "patches" / ".tmp-y-v1.3.0").mkdir()
    three.run("rebase", NEW)
    assert (folder / "requirements.cuda.lock").read_text() == "kept\n"
    assert (folder / "twenty.diff").exists() and not list((three.root / "patches").glob(".tmp-*"))


def test_continue_without_a_rebase(three: Project) -> None:
    next_release(three, SAME)
    assert "is under way" in three.run("rebase", NEW, "--continue", status=2).stderr
    assert "unknown release" in three.run("rebase", NEW, "--from", "v9.9.9", status=2).stderr
