# SPDX-License-Identifier: Apache-2.0
"""A proof counts only when it is red without its patch and green with the series."""

from __future__ import annotations

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


@pytest.mark.parametrize("body", ["import nothing_of_that_name", "def helper(): pass", "def test(:"])
def test_a_broken_proof_is_not_red(proved: Project, body: str) -> None:
    write(proved, "test_two.py", body)
    done = proved.run("prove", status=1)
    assert "0002-second, without it: broken, expected red" in done.stderr
