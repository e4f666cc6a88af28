# SPDX-License-Identifier: Apache-2.0
"""The combined patch, by patch and sha256sum alone."""

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import APT, Project

CHECK = ("sha256sum", "--check", "--strict")


@pytest.mark.skipif(shutil.which("patch") is None, reason=f"{APT}patch")
def test_the_combined_patch_goes_in_and_out_again(
    packaged: Project, official: Path
) -> None:
    """As docs/patching.md says, with patch and sha256sum alone.

    The series has a new file, and one that no wheel has.
    """

    def run(*command: str) -> int:
        return subprocess.run(command, cwd=official, capture_output=True).returncode

    packaged.run("refresh")
    patch, before, after = packaged.run("export").stdout.splitlines()
    assert Path(patch).name == "vllm-1.2.0-mtp.1.patch"
    files = {file: file.read_bytes() for file in official.rglob("*.py")}
    put_in = ("patch", "-p1", "--fuzz=0", "--forward", "--batch", "--input", patch)
    assert run(*CHECK, before) == 0 != run(*CHECK, after)
    assert run(*put_in) == 0
    assert run(*CHECK, after) == 0 != run(*CHECK, before)
    assert (official / "vllm/reader.py").read_text() == "READ = 1\n"
    assert not (official / "tests").exists()
    take_out = ("patch", "-p1", "-R", "--fuzz=0", "--batch", "--input", patch)
    assert run(*take_out) == 0
    assert {file: file.read_bytes() for file in official.rglob("*.py")} == files
    # Another release is refused by the sums.
    (official / "vllm/parser.py").write_text("more\n")
    assert run(*CHECK, before) != 0
