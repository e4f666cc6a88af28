# SPDX-License-Identifier: Apache-2.0
"""The combined patch, used as docs/patching.md says: with patch and sha256sum alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Project

pytestmark = pytest.mark.skipif(
    shutil.which("patch") is None,
    reason="patch is not installed: apt-get install patch",
)
CHECK = ("sha256sum", "--check", "--strict")


def run(site: Path, *command: str) -> int:
    done = subprocess.run(command, cwd=site, check=False, capture_output=True)
    return done.returncode


def test_in_and_out_again(packaged: Project, official: Path) -> None:
    """The series has a new file, and one that no wheel has."""
    packaged.run("refresh")
    patch, before, after = packaged.run("export").stdout.splitlines()
    assert Path(patch).name == "vllm-1.2.0-mtp.1.patch"
    files = {file: file.read_bytes() for file in official.rglob("*.py")}
    put_in = ("patch", "-p1", "--fuzz=0", "--forward", "--batch", "--input", patch)
    assert run(official, *CHECK, before) == 0 != run(official, *CHECK, after)
    assert run(official, *put_in) == 0
    assert run(official, *CHECK, after) == 0 != run(official, *CHECK, before)
    assert (official / "vllm/reader.py").read_text() == "READ = 1\n"
    assert not (official / "tests").exists()
    take_out = ("patch", "-p1", "-R", "--fuzz=0", "--batch", "--input", patch)
    assert run(official, *take_out) == 0
    assert {file: file.read_bytes() for file in official.rglob("*.py")} == files
    # Another release is refused by the sums.
    (official / "vllm/parser.py").write_text("more\n")
    assert run(official, *CHECK, before) != 0
