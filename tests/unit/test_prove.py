# SPDX-License-Identifier: Apache-2.0
"""A proof counts only when it is red without its patch and green with the series."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import HEADER, Project, diff_line

READ = "import os, pathlib\ntext = pathlib.Path(os.environ['VLLM_TREE'], 'pkg/parser.py').read_text()\n"


@pytest.fixture
def proved(project: Project) -> Project:
    project.add_patch("0001-first.diff", diff_line(5, "five"))
    second = HEADER.format(subject="second").replace("test_one", "test_two")
    project.add_patch("0002-second.diff", diff_line(30, "thirty"), second)
    write(project, "test_one.py", "def test(): assert 'five' in text")
    write(project, "test_two.py", "def test(): assert 'thirty' in text")
    return project


def write(project: Project, name: str, body: str) -> None:
    (project.root / "tests/patches" / name).write_text(READ + body + "\n")


def test_red_without_and_green_with(proved: Project) -> None:
    done = proved.run("prove", "--every-prefix")
    assert done.stdout.strip() == "6 passed, 0 failed"
    assert "0002-second, without it: red, expected red" in done.stderr


def test_one_patch_only(proved: Project) -> None:
    assert proved.run("prove", "v1.2.0", "--patch", "0002-second").stdout.strip() == "2 passed, 0 failed"
    assert "no patch is called third" in proved.run("prove", "--patch", "third", status=2).stderr


def test_a_proof_that_cannot_fail_is_found(proved: Project) -> None:
    write(proved, "test_two.py", "def test(): assert text")
    done = proved.run("prove", status=1)
    assert "WRONG v1.2.0 0002-second, without it: green, expected red" in done.stderr


def test_a_proof_that_a_later_patch_breaks_is_found(proved: Project) -> None:
    write(proved, "test_one.py", "def test(): assert 'five' in text and 'line 30' in text")
    done = proved.run("prove", status=1)
    assert "WRONG v1.2.0 0001-first, whole series: red, expected green" in done.stderr


@pytest.mark.parametrize(
    "body",
    [
        "import nothing_of_that_name",
        "def helper(): pass",
        "def test(:",
        "def test(): import nothing_of_that_name",
        "def test(): raise KeyError('thirty')",
        "import pytest\n@pytest.fixture\ndef broken(): assert 0\ndef test(broken): pass",
        "def test(): os._exit(1)",
        "import vllm_like\ndef test(): vllm_like.check(text)",
        "import pytest\ndef test(): pytest.skip('not here')",
    ],
)
def test_an_error_is_not_red(proved: Project, body: str) -> None:
    site = proved.root / "vllm_like.py"
    site.write_text("def check(text): assert 'thirty' in text\n")
    write(proved, "test_two.py", f"import sys; sys.path.insert(0, {str(proved.root)!r})\n{body}")
    done = proved.run("prove", status=1)
    assert "0002-second, without it: error, expected red" in done.stderr


@pytest.mark.parametrize(
    "body",
    [
        "import pytest\ndef test():\n  if 'thirty' not in text: pytest.fail('no')",
        "import pytest\ndef test():\n  with pytest.raises(ZeroDivisionError): 1 / ('line 30' in text)",
        "import helper\ndef test(): helper.check(text)",
    ],
)
def test_an_assertion_of_the_tests_own_is_red(proved: Project, body: str) -> None:
    write(proved, "helper.py", "def check(text): assert 'thirty' in text")
    write(proved, "test_two.py", body)
    assert proved.run("prove").stdout.strip() == "4 passed, 0 failed"


def test_a_patch_may_have_several_proofs_and_several_patches_one(proved: Project) -> None:
    both = "Proof: tests/patches/test_one.py tests/patches/test_two.py"
    for diff in proved.folder.glob("*.diff"):
        diff.write_text(re.sub("Proof: .*", both, diff.read_text()))
    done = proved.run("prove", status=1)
    assert "ok    v1.2.0 0001-first (test_two), without it: red" in done.stderr
    assert "WRONG v1.2.0 0002-second (test_one), without it: green, expected red" in done.stderr
    assert done.stdout.strip() == "7 passed, 1 failed"


def test_an_interruption_ends_what_runs_and_begins_nothing(proved: Project, tmp_path: Path) -> None:
    for name in ("test_one.py", "test_two.py"):
        note = f"open({str(tmp_path / 'begun')!r}, 'a').write(f'{{os.getpid()}} ')"
        write(proved, name, f"import time\n{note}\ndef test(): time.sleep(60)")
    command = [sys.executable, "-m", "patchset", "prove", "--jobs", "1", "--every-prefix"]
    run = subprocess.Popen(
        command, cwd=proved.root, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    begun, end = tmp_path / "begun", time.monotonic() + 60
    while not begun.is_file():
        assert time.monotonic() < end and run.poll() is None
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    try:
        said = run.communicate(timeout=15)[1]
    finally:
        run.kill()
    assert run.returncode == 130 and "error: interrupted" in said and "Traceback" not in said
    assert not list((proved.root / "build").glob(".tmp-*"))
    process, *others = set(map(int, begun.read_text().split()))
    assert not others
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
