# SPDX-License-Identifier: Apache-2.0
"""rebase and drift: a series merged into another release's source by git am -3."""

import re
from pathlib import Path

import pytest

from conftest import (
    OWN_MODULE,
    PARSER,
    REASON,
    Project,
    diff_line,
    git,
    lay,
    replaced,
    saved_meanwhile,
)
from patchset.release import load
from patchset.series import rebase
from patchset.series.read import taken_proofs

PROOF = '''\
"""A proof that looks at the tree."""
import os
from pathlib import Path


def test_it() -> None:
    text = Path(os.environ["VLLM_TREE"], "pkg/parser.py").read_text()
    assert "\\n{word}\\n" in text
'''
#: A file for another release.
SKIPPED = 'import pytest\npytest.skip("not here", allow_module_level=True)\n'


def changed(**lines: str) -> str:
    """Return PARSER with some lines replaced, as line5="five"."""
    text = PARSER
    for line, new in lines.items():
        text = text.replace(f"line {line.removeprefix('line')}\n", f"{new}\n")
    return text


@pytest.fixture
def stopped(own: Project) -> Project:
    """Make a release whose rebase waits at a conflict in the second patch."""
    own.add_patch("last", diff_line(35, "last"))
    own.run("refresh")
    made = own.pin_next(changed(line20="score"))
    made.run("rebase", "v1.3.0", status=3, err=("'twenty' conflicts", "pkg/parser.py"))
    return made


def resolve(project: Project) -> None:
    file = project.patched / "pkg/parser.py"
    conflict = "(?s)<<<<<<<.*>>>>>>>.*?\n"
    file.write_text(re.sub(conflict, "twenty score\n", file.read_text()))
    project.git("add", "--all")
    project.git("am", "--continue")


def test_what_fits_stays_shared_and_the_rest_is_merged(own: Project) -> None:
    made = own.pin_next("top\n" + changed(line18="eighteen"))
    done = own.run("rebase", "v1.3.0").stdout.splitlines()
    assert [line[12:13] + line.split()[-1] for line in done[:2]] == ["=five", "!twenty"]
    assert done[2].startswith(f"git -C {made.patched} range-diff ")
    assert done[3:] == [
        "changed twenty/v1.2.0.diff",
        "wrote v1.3.0/patched-files.sha256",
    ]
    assert "@@ -20,3 +20,3 @@" in own.diff("twenty").read_text(), "it fits both"
    own.run("apply", "v1.3.0")
    own.run("apply", "v1.2.0")
    assert own.run("lint").stdout == ""


def test_what_upstream_has_is_dropped_and_its_proof_must_pass_on_stock(
    own: Project,
) -> None:
    own.pin_next(changed(line20="twenty"))
    proof = "tests/patches/test_two.py"
    (own.root / proof).touch()
    reason = own.diff("twenty").with_name("reason.md")
    replaced(reason, "tests/patches/test_one.py", proof)
    assert "twenty is dropped" in own.run("rebase", "v1.3.0").stdout
    assert own.series.read_text().splitlines()[-1].split()[1:] == ["v1.2.0", "v1.2.0"]
    assert reason.with_name("v1.3.0.merged").exists()
    assert taken_proofs(load("v1.3.0")) == [proof]
    assert taken_proofs(load("v1.2.0")) == []
    assert own.run("lint").stdout == ""


def test_a_mark_of_an_earlier_port_is_kept(own: Project) -> None:
    own.pin_next(changed(line20="twenty"))
    mark = own.diff("twenty").with_name("v1.3.0.merged")
    mark.write_text("In upstream's #12.\n")
    own.run("rebase", "v1.3.0")
    assert mark.read_text() == "In upstream's #12.\n"


@pytest.mark.parametrize("by", ["refresh", "rebase"])
def test_a_conflict_is_resolved_and_the_rest_follows(stopped: Project, by: str) -> None:
    assert "holds work" in stopped.run("apply", "v1.3.0", status=1).stderr
    assert "git am is not finished" in stopped.run(by, "v1.3.0", status=1).stderr
    resolve(stopped)
    assert "holds work" in stopped.run("apply", "v1.3.0", status=1).stderr
    done = stopped.run(by, "v1.3.0").stdout
    assert "! 2:" in " ".join(done.split()) and "added twenty/v1.3.0.diff" in done
    stopped.run("apply", "v1.3.0")
    text = (stopped.patched / "pkg/parser.py").read_text()
    assert "twenty score\n" in text and "\nlast\n" in text
    assert "was ported already" in stopped.run("rebase", "v1.3.0", status=2).stderr


def test_a_conflict_is_skipped_and_said(stopped: Project) -> None:
    stopped.git("am", "--skip")
    stopped.run("refresh", "v1.3.0", out=("twenty is dropped", "another reason"))


def test_a_file_that_is_gone_is_a_conflict_though_another_has_its_lines(
    own: Project,
) -> None:
    own.pin_next(PARSER, paths=("pkg/other.py",))
    own.run(
        "drift",
        "v1.3.0",
        "--no-proofs",
        status=1,
        out=("twenty conflicts in pkg/parser.py",),
    )
    own.run("rebase", "v1.3.0", status=3, err=("'five' conflicts", "pkg/parser.py"))


def test_another_source_is_not_taken_while_a_rebase_waits(stopped: Project) -> None:
    resolve(stopped)
    kept = [stopped.pin, stopped.downloads / "pkg-1.3.0.tar.gz"]
    contents = [file.read_bytes() for file in kept]
    stopped.pin_next("another\n" + PARSER)
    stopped.run(
        "refresh", "v1.3.0", status=1, err=("names another source", "--discard")
    )
    for file, content in zip(kept, contents, strict=True):
        file.write_bytes(content)
    stopped.run("refresh", "v1.3.0")


def test_conflict_markers_become_no_patch(stopped: Project) -> None:
    stopped.git("add", "--all")
    stopped.git("am", "--continue")
    stopped.run(
        "refresh",
        "v1.3.0",
        status=1,
        err=("(twenty): the diff adds a conflict marker",),
    )


def test_what_was_edited_below_patches_meanwhile_is_never_overwritten(
    stopped: Project,
) -> None:
    stopped.pin.write_text(stopped.pin.read_text() + "# a note\n")
    work = "an hour of work\n"
    stopped.diff("twenty").write_text(work)
    resolve(stopped)
    stopped.run("refresh", "v1.3.0", status=1)
    assert stopped.diff("twenty").read_text() == work
    stopped.diff("twenty").unlink()
    stopped.run("refresh", "v1.3.0")
    assert stopped.pin.read_text().endswith("# a note\n")
    assert "twenty score" in stopped.diff("twenty").read_text()


def test_a_rebase_is_begun_again_and_not_from_two_releases(stopped: Project) -> None:
    stopped.git("am", "--abort")
    assert "no patch any more" in stopped.run("refresh", "v1.3.0", status=1).stderr
    other = ("rebase", "v1.3.0", "--from", "v1.3.0")
    assert "is under way" in stopped.run(*other, status=2).stderr
    assert (
        "was not ported" in stopped.run("apply", "v1.3.0", "--discard", status=3).stderr
    )
    assert "no other release" in stopped.run(*other, status=2).stderr
    stopped.run("rebase", "v1.3.0", status=3)


@pytest.fixture
def proved(project: Project) -> Project:
    """Return two patches with proofs of their own."""
    for number, word in ((5, "five"), (20, "twenty")):
        proof = f"tests/patches/test_{word}.py"
        (project.root / proof).write_text(PROOF.format(word=word))
        reason = REASON.format(subject=word).replace("tests/patches/test_one.py", proof)
        project.add_patch(word, diff_line(number, word), reason)
    project.run("refresh")
    return project


def test_drift_says_that_it_fits(proved: Project) -> None:
    proved.pin_next("top\n" + PARSER)
    assert proved.run("drift", "v1.3.0").stdout.splitlines() == [
        "fits               five",
        "fits               twenty",
        "series of v1.2.0 on v1.3.0: it fits",
    ]


def test_drift_names_conflicts_and_what_is_present(proved: Project) -> None:
    proved.pin_next(changed(line5="five", line20="score"))
    proved.run(
        "drift",
        "v1.3.0",
        "--no-proofs",
        status=1,
        out=("five is already present", "twenty conflicts in pkg/parser.py"),
    )
    assert not list(proved.root.glob("patches/*/*.merged"))


def test_drift_runs_proofs_with_the_series_and_without(proved: Project) -> None:
    """A proof that the stock source passes, and one that the series does not."""
    proved.pin_next("five\n" + PARSER)
    proofs = proved.root / "tests/patches"
    replaced(proofs / "test_five.py", '"\\nfive\\n"', '"five\\n"')
    replaced(proofs / "test_twenty.py", "twenty", "never")
    proved.run(
        "drift",
        "v1.3.0",
        status=1,
        out=(
            "five may be dropped: its proofs pass on the stock source",
            "test_twenty.py is red with the series",
        ),
    )


def test_drift_takes_a_git_reference(proved: Project, tmp_path: Path) -> None:
    source = lay(tmp_path / "source", {"pkg/parser.py": PARSER})
    git(source, "init", "--quiet", "--initial-branch=main")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "-m", "x")
    for remote in (source.as_uri(), str(source)):
        where = ("--remote", remote, "--no-proofs")
        assert "it fits" in proved.run("drift", "main", *where).stdout
        assert "cannot fetch" in proved.run("drift", "gone", *where, status=1).stderr
    for address in ("ext::sh -c date", "fd::0"):
        bad = ("drift", "main", "--remote", address, "--no-proofs")
        assert "not allowed" in proved.run(*bad, status=1).stderr
    assert "cannot fetch x y" in proved.run("drift", "x y", *where, status=1).stderr


def test_proofs_are_red_without_and_green_with(proved: Project) -> None:
    done = proved.run("prove", err=("five (test_five), without it: red", "(3/3)"))
    assert done.stdout == "4 passed, 0 failed\n"
    assert proved.run("prove", "--patch", "twenty").stdout == "2 passed, 0 failed\n"
    # As docs/patching.md says for a new patch.
    replaced(proved.patched / "pkg/parser.py", "twenty\n", "twenty\ntwenty-one\n")
    message = REASON.format(subject="more").removeprefix("# ")
    proved.git("commit", "--quiet", "-a", "-m", message)
    (proved.root / "tests/patches/test_one.py").write_text(
        PROOF.format(word="twenty-one")
    )
    assert "added more/v1.2.0.diff" in proved.run("refresh").stdout
    assert proved.run("prove", "--patch", "more").stdout == "2 passed, 0 failed\n"


def test_modules_are_tested_with_the_whole_series(proved: Project) -> None:
    modules = proved.root / "tests/patches/modules"
    modules.mkdir()
    (modules / "test_gone.py").write_text(SKIPPED)
    (modules / "test_it.py").write_text(PROOF.format(word="five"))
    assert proved.run("prove").stdout == "6 passed, 0 failed\n"
    assert proved.run("prove", "--patch", "five").stdout == "2 passed, 0 failed\n"
    (modules / "test_it.py").write_text(PROOF.format(word="never"))
    proved.run(
        "prove",
        status=1,
        err=("our modules (test_it), whole series: red, expected green",),
    )


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("def test_it(): pass\n", "green, expected red"),
        ("import gone\n", "error, expected red"),
        (SKIPPED, "error, expected red"),
        ("def test_it(): raise ValueError\n", "error, expected red"),
        ("def test_it():\n    assert False\n", "red, expected green"),
    ],
)
def test_a_proof_that_proves_nothing_is_found(
    proved: Project, body: str, seen: str
) -> None:
    (proved.root / "tests/patches/test_five.py").write_text(body)
    assert seen in proved.run("prove", status=1).stderr


def test_rebase_begins_over_no_work(
    own: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = own.pin_next(PARSER)
    own.run("apply", "v1.3.0")
    saved_meanwhile(monkeypatch, rebase, "add_files", made.patched / "notes")
    assert "holds work" in own.run("rebase", "v1.3.0", status=1).stderr
    assert (made.patched / "notes").read_text() == "an hour of work\n"


def test_drift_finds_a_series_that_cannot_be_imported(proved: Project) -> None:
    lay(proved.root / "patches", {OWN_MODULE: "from pkg.names import RENAMED\n"})
    replaced(proved.series, "five ", f"{OWN_MODULE} v1.2.0\nfive ")
    proved.run("refresh")
    proof = proved.root / "tests/patches/test_five.py"
    replaced(proof, "import os\n", "import os\nimport vllm.own\n")
    proved.pin_next(PARSER)
    proved.run(
        "drift", "v1.3.0", status=1, out=("test_five.py is error with the series",)
    )
