# SPDX-License-Identifier: Apache-2.0
"""rebase and drift: a series merged into another release's source by git am -3."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import HEADER, PARSER, Project, diff_line, dying, make_sdist, release_toml

PROOF = '''\
"""A proof that looks at the tree."""
import os
from pathlib import Path


def test_it() -> None:
    text = Path(os.environ["VLLM_TREE"], "pkg/parser.py").read_text()
    assert "\\n{word}\\n" in text
'''


def changed(**lines: str) -> str:
    """PARSER with some lines replaced, as line5="five"."""
    text = PARSER
    for line, new in lines.items():
        text = text.replace(f"line {line.removeprefix('line')}\n", f"{new}\n")
    return text


def pin_next(project: Project, text: str, series: str = "") -> Path:
    """Pin a release v1.3.0 with another source; its folder."""
    sdist = make_sdist(project.downloads, {"pkg/parser.py": text}, "1.3.0")
    folder = project.root / "patches/v1.3.0"
    folder.mkdir()
    (folder / "release.toml").write_text(release_toml(sdist, "1.3.0", default=False))
    (folder / "series").write_text(series)
    return folder


def tree(project: Project) -> Path:
    return project.root / "build/rebase/v1.3.0/tree"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *identity, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def stopped(own: Project) -> Project:
    """A rebase that waits at a conflict in the second patch."""
    own.add_patch("last.diff", diff_line(35, "last"))
    own.run("refresh")
    pin_next(own, changed(line20="score"))
    said = own.run("rebase", "v1.3.0", status=3).stderr
    assert "'twenty' conflicts" in said and "pkg/parser.py" in said
    return own


def resolve(project: Project) -> None:
    file = tree(project) / "pkg/parser.py"
    text = file.read_text()
    start, end = text.index("<<<<<<<"), text.index(">>>>>>>")
    rest = text[end:].partition("\n")[2]
    file.write_text(text[:start] + "twenty score\n" + rest)
    git(tree(project), "add", "--all")


def test_what_fits_stays_shared_and_the_rest_is_merged(own: Project) -> None:
    folder = pin_next(own, "top\n" + changed(line18="eighteen"))
    done = own.run("rebase", "v1.3.0").stdout.splitlines()
    assert done[:2] == ["carried  core/five.diff", "merged   twenty.diff"]
    series = (folder / "series").read_text().splitlines()
    assert series == ["files/vllm/own.py", "core/five.diff", "twenty.diff"]
    assert " eighteen\n" in (folder / "twenty.diff").read_text()
    own.run("apply", "v1.3.0")
    assert own.run("lint").stdout == ""
    report = (own.root / "build/rebase/v1.3.0/report.md").read_text()
    assert "- merged   twenty.diff" in report and "````diff" in report
    assert not tree(own).exists()


def test_what_upstream_has_is_dropped_and_its_proof_must_pass_on_stock(
    own: Project,
) -> None:
    folder = pin_next(own, changed(line20="twenty"))
    header = (own.folder / "twenty.diff").read_text()
    proof = "tests/patches/test_two.py"
    (own.root / proof).touch()
    text = header.replace("tests/patches/test_one.py", proof)
    (own.folder / "twenty.diff").write_text(text)
    assert "dropped  twenty" in own.run("rebase", "v1.3.0").stdout
    assert (folder / "stock-must-pass").read_text() == f"{proof}\n"
    assert own.run("lint").stdout == ""


def test_a_status_that_names_the_release_drops_without_a_merge(own: Project) -> None:
    file = own.folder / "twenty.diff"
    file.write_text(file.read_text().replace("pending", "merged in v1.3.0"))
    pin_next(own, changed(line20="done otherwise"))
    assert "dropped  twenty" in own.run("rebase", "v1.3.0").stdout


@pytest.mark.parametrize("by", ["tool", "git"])
def test_a_conflict_is_resolved_and_the_rest_follows(stopped: Project, by: str) -> None:
    assert "under way" in stopped.run("rebase", "v1.3.0", status=2).stderr
    said = stopped.run("rebase", "v1.3.0", "--continue", status=3).stderr
    assert "pkg/parser.py is not resolved" in said
    git(tree(stopped), "add", "--all")
    said = stopped.run("rebase", "v1.3.0", "--continue", status=3).stderr
    assert "conflict markers" in said
    git(tree(stopped), "checkout", "--quiet", "--merge", "--", "pkg/parser.py")
    resolve(stopped)
    if by == "git":
        git(tree(stopped), "am", "--continue")
    done = stopped.run("rebase", "v1.3.0", "--continue").stdout
    assert "merged   twenty.diff" in done and "last.diff" in done
    stopped.run("apply", "v1.3.0")
    text = (stopped.root / "build/trees/v1.3.0/patched/pkg/parser.py").read_text()
    assert "twenty score\n" in text and "\nlast\n" in text


def test_a_conflict_is_skipped_and_said(stopped: Project) -> None:
    git(tree(stopped), "am", "--skip")
    done = stopped.run("rebase", "v1.3.0", "--continue").stdout
    assert "dropped  twenty" in done and "another reason" in done


def test_what_was_edited_below_patches_meanwhile_is_never_overwritten(
    stopped: Project,
) -> None:
    folder = stopped.root / "patches/v1.3.0"
    pin = folder / "release.toml"
    pin.write_text(pin.read_text() + "# a note\n")
    (folder / "mine.diff").write_text("an hour of work\n")
    (folder / "twenty.diff").write_text("an hour of work\n")
    resolve(stopped)
    said = stopped.run("rebase", "v1.3.0", "--continue", status=1).stderr
    assert "twenty.diff was edited while the rebase waited" in said
    assert (folder / "twenty.diff").read_text() == "an hour of work\n"
    assert (folder / "series").read_text() == ""
    (folder / "twenty.diff").unlink()
    stopped.run("rebase", "v1.3.0", "--continue")
    assert pin.read_text().endswith("# a note\n")
    assert (folder / "mine.diff").read_text() == "an hour of work\n"
    assert "twenty score" in (folder / "twenty.diff").read_text()


def test_restart_and_wrong_words(stopped: Project) -> None:
    both = ("--continue", "--restart")
    assert "opposite" in stopped.run("rebase", "v1.3.0", *both, status=2).stderr
    stopped.run("rebase", "v1.3.0", "--restart", status=3)
    git(tree(stopped), "am", "--skip")
    stopped.run("rebase", "v1.3.0", "--continue")
    said = stopped.run("rebase", "v1.3.0", status=2).stderr
    assert "has a series already" in said
    said = stopped.run("rebase", "v1.3.0", "--continue", status=2).stderr
    assert "no rebase to v1.3.0 is under way" in said


@pytest.fixture
def proved(project: Project) -> Project:
    """Two patches with proofs of their own."""
    for number, word in ((5, "five"), (20, "twenty")):
        proof = f"tests/patches/test_{word}.py"
        (project.root / proof).write_text(PROOF.format(word=word))
        header = HEADER.format(subject=word).replace("tests/patches/test_one.py", proof)
        project.add_patch(f"{word}.diff", diff_line(number, word), header)
    project.run("refresh")
    return project


def test_drift_says_that_it_fits(proved: Project) -> None:
    pin_next(proved, "top\n" + PARSER)
    done = proved.run("drift", "v1.3.0").stdout.splitlines()
    assert done == [
        "fits               five",
        "fits               twenty",
        "series of v1.2.0 on v1.3.0: it fits",
    ]


def test_drift_names_conflicts_and_what_is_present(proved: Project) -> None:
    pin_next(proved, changed(line5="five", line20="score"))
    done = proved.run("drift", "v1.3.0", "--no-proofs", status=1).stdout
    assert "five is already present" in done
    assert "twenty conflicts in pkg/parser.py" in done
    assert not (proved.root / "patches/v1.3.0/stock-must-pass").exists()


def test_drift_runs_proofs_with_the_series_and_without(proved: Project) -> None:
    """A proof that the stock source passes, and one that the series does not."""
    pin_next(proved, "five\n" + PARSER)
    proof = proved.root / "tests/patches/test_five.py"
    text = proof.read_text().replace('"\\nfive\\n"', '"five\\n"')
    proof.write_text(text)
    later = proved.root / "tests/patches/test_twenty.py"
    later.write_text(later.read_text().replace("twenty", "never"))
    done = proved.run("drift", "v1.3.0", status=1).stdout
    assert "five may be dropped: its proofs pass on the stock source" in done
    assert "test_twenty.py is red with the series" in done


def test_drift_finds_a_series_that_cannot_be_imported(proved: Project) -> None:
    module = proved.root / "patches/files/vllm/own.py"
    module.parent.mkdir(parents=True)
    module.write_text("from pkg.names import RENAMED\n")
    series = (proved.folder / "series").read_text()
    (proved.folder / "series").write_text(f"files/vllm/own.py\n{series}")
    proved.run("refresh")
    pin_next(proved, PARSER)
    done = proved.run("drift", "v1.3.0", status=1).stdout
    assert "vllm.own cannot be imported: ModuleNotFoundError" in done
    assert "pkg.parser" not in done, "stock cannot be imported either: no Python"


def test_drift_takes_a_folder_and_a_git_reference(
    proved: Project, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (source / "vllm").mkdir(parents=True)
    (source / "vllm/__init__.py").touch()
    (source / "pkg").mkdir()
    (source / "pkg/parser.py").write_text(PARSER)
    done = proved.run("drift", str(source), "--no-proofs").stdout
    assert "it fits" in done
    git(source, "init", "--quiet", "--initial-branch=main")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "-m", "x")
    remote = ("--remote", source.as_uri(), "--no-proofs")
    assert "it fits" in proved.run("drift", "main", *remote).stdout
    assert "does not give" in proved.run("drift", "gone", *remote, status=6).stderr
    for address in ("ext::sh -c date", "fd::0"):
        bad = ("--remote", address, "--no-proofs")
        assert "not allowed" in proved.run("drift", "main", *bad, status=6).stderr


def test_proofs_are_red_without_and_green_with(proved: Project) -> None:
    done = proved.run("prove")
    assert done.stdout == "4 passed, 0 failed\n"
    assert "five (test_five), without it: red" in done.stderr
    assert "(3/3)" in done.stderr
    assert proved.run("prove", "--patch", "five").stdout == "2 passed, 0 failed\n"


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("def test_it(): pass\n", "green, expected red"),
        ("import gone\n", "error, expected red"),
        ("def test_it(): raise ValueError\n", "error, expected red"),
        ("def test_it():\n    assert False\n", "red, expected green"),
    ],
)
def test_a_proof_that_proves_nothing_is_found(
    proved: Project, body: str, seen: str
) -> None:
    (proved.root / "tests/patches/test_five.py").write_text(body)
    assert seen in proved.run("prove", status=1).stderr


@pytest.mark.parametrize("point", [1, 2, 3])
def test_rebase_that_dies_while_it_writes_ends_right(
    stopped: Project, monkeypatch: pytest.MonkeyPatch, point: int
) -> None:
    resolve(stopped)
    with monkeypatch.context() as patched:
        dying(patched, point)
        stopped.run("rebase", "v1.3.0", "--continue", status=130)
    stopped.run("rebase", "v1.3.0", "--continue")
    assert stopped.run("lint").stdout == ""
    stopped.run("apply", "v1.3.0")
    series = (stopped.root / "patches/v1.3.0/series").read_text().splitlines()
    assert series[1:] == ["core/five.diff", "twenty.diff", "last.diff"]
