# SPDX-License-Identifier: Apache-2.0
"""drift, new-patch and bisect on made-up releases."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import PARSER, Project, diff_line
from test_rebase import SAME, changed, header, next_release, snapshot

READ = "import os, pathlib\ntext = pathlib.Path(os.environ['VLLM_TREE'], 'pkg/parser.py').read_text()\n"


@pytest.fixture
def two(project: Project) -> Project:
    """Two patches with proofs that look at the tree."""
    for name, number in (("five", 5), ("thirty", 30)):
        project.add_patch(f"{name}.diff", diff_line(number, name), header(name))
        proof = project.root / f"tests/patches/test_{name}.py"
        proof.write_text(f"{READ}def test(): assert {name!r} in text\n")
    return project


def test_it_fits_by_itself_and_by_a_merge(two: Project) -> None:
    before = snapshot(two.root / "patches")
    assert "it fits" in two.run("drift", "v1.2.0").stdout
    next_release(two, {**SAME, "pkg/parser.py": changed(line7="their 7\n")})
    with_next = snapshot(two.root / "patches")
    done = two.run("drift", "v1.3.0")
    assert "merged by three-way  five (proof on stock: red)" in done.stdout
    assert "series of v1.2.0 on v1.3.0: it fits" in done.stdout
    assert snapshot(two.root / "patches") == with_next and before.items() <= with_next.items()


def test_a_series_that_does_not_make_what_is_pinned_is_refused(two: Project) -> None:
    two.run("refresh")
    assert "it fits" in two.run("drift", "v1.2.0").stdout
    pins = two.folder / "patched-files.sha256"
    pins.write_text("0" * 64 + pins.read_text()[64:])
    assert "pkg/parser.py: not as pinned" in two.run("drift", "v1.2.0", status=1).stderr


def test_a_release_that_is_nowhere_is_said_before_any_work(two: Project) -> None:
    said = two.run("drift", "v9.9.9", status=6).stderr
    assert "9.9.9" in said and "apply" not in said


def test_what_there_is_to_do(two: Project) -> None:
    next_release(two, {**SAME, "pkg/parser.py": changed(line5="five\n", line30="theirs\n")})
    said = two.run("drift", "v1.3.0", status=1).stdout
    assert "five is already present" in said
    assert "thirty conflicts in pkg/parser.py" in said
    assert "2 things to do" in said


def test_a_proof_that_passes_on_stock_says_so(two: Project) -> None:
    next_release(two, {**SAME, "pkg/parser.py": PARSER + "thirty, done another way\n"})
    said = two.run("drift", "v1.3.0", status=1).stdout
    assert "thirty may be dropped: its proof tests/patches/test_thirty.py passes without it" in said
    assert "it fits" in two.run("drift", "v1.3.0", "--no-proofs").stdout


def test_a_proof_that_stock_must_pass_and_does_not(two: Project) -> None:
    (two.root / "tests/patches/test_old.py").write_text(f"{READ}def test(): assert 'line 8' in text\n")
    (two.folder / "stock-must-pass").write_text("tests/patches/test_old.py\n")
    assert "it fits" in two.run("drift", "v1.2.0").stdout
    next_release(two, {**SAME, "pkg/parser.py": changed(line7="their 7\n")})
    assert "it fits" in two.run("drift", "v1.3.0").stdout
    next_release(two, {**SAME, "pkg/parser.py": changed(line8="lost\n")}, "1.4.0")
    said = two.run("drift", "v1.4.0", status=1).stdout
    assert "test_old.py does not pass on the stock tree, as it did on v1.2.0's" in said


@pytest.mark.parametrize("how", ["folder", "ref"])
def test_a_source_that_is_no_release(two: Project, tmp_path: Path, how: str) -> None:
    checkout = tmp_path / "upstream"
    for name, text in (("pkg/parser.py", changed(line5="five\n")), ("vllm/__init__.py", "")):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"]
        subprocess.run(["git", *identity, *arguments], cwd=checkout, check=True, capture_output=True)

    git("init", "-q", "--initial-branch=trunk")
    git("add", "-A")
    git("commit", "-q", "-m", "upstream")
    before = snapshot(checkout)
    target = [str(checkout)] if how == "folder" else ["trunk", "--remote", checkout.as_uri()]
    assert "five is already present" in two.run("drift", *target, "--no-proofs", status=1).stdout
    assert snapshot(checkout) == before


def test_a_source_that_is_not_there(two: Project, tmp_path: Path) -> None:
    assert (
        "does not give nonsense" in two.run("drift", "nonsense", "--remote", str(tmp_path), status=6).stderr
    )
    assert "not a source tree of vLLM" in two.run("drift", str(tmp_path), status=2).stderr
    assert "not a release, a folder" in two.run("drift", "--", "-x", status=2).stderr


def test_new_patch_is_refused_until_it_is_written(two: Project) -> None:
    two.run("new-patch", "forty")
    proof = two.root / "tests/patches/test_forty.py"
    assert "pytest.fail" in proof.read_text()
    file = two.patched / "pkg/parser.py"
    file.write_text(file.read_text().replace("line 40", "forty"))
    two.git("commit", "-q", "-a", "-F", ".git/PATCH_MESSAGE")
    said = two.run("refresh", status=1).stderr
    assert "Reason: <why it must exist" in said and "is to be filled in" in said
    message = two.git("log", "-1", "--format=%B")
    filled = message.replace("<one line: what forty does>", "Make it forty")
    filled = filled.replace("<why it must exist: what breaks without it, for whom>", "a test needs it")
    two.git("commit", "-q", "--amend", "-m", filled.replace("<a condition that can be checked>", "never"))
    assert "added forty.diff" in two.run("refresh").stdout
    assert (two.folder / "series").read_text() == "five.diff\nthirty.diff\nforty.diff\n"
    said = two.run("prove", "--patch", "forty", status=1).stderr
    assert "forty, whole series: red, expected green" in said
    proof.write_text(f"{READ}def test(): assert 'forty' in text\n")
    assert two.run("prove", "--patch", "forty").stdout.strip() == "2 passed, 0 failed"
    two.run("lint")


def test_new_patch_keeps_a_proof_that_is_there_and_refuses_bad_names(two: Project) -> None:
    (two.root / "tests/patches/test_forty.py").write_text("# mine\n")
    two.run("new-patch", "forty", "--release", "v1.2.0")
    assert (two.root / "tests/patches/test_forty.py").read_text() == "# mine\n"
    for name in ("five", "../five", "Forty"):
        two.run("new-patch", name, status=2)


SUITE = """
import json, pathlib, sys
case = sys.argv[sys.argv.index("--case") + 1]
if case == "none": sys.exit(2)
right = (pathlib.Path(sys.argv[1]) / "pkg/parser.py").read_text().count(case)
result = {"targets": [{"right": min(right, 1), "all": 1}]}
pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(result))
sys.exit(0 if right else 1)
"""
