# SPDX-License-Identifier: Apache-2.0
"""The combined patch, used as docs/patching.md says: with patch and sha256sum alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import PARSER, Project, diff_line, make_sdist, release_toml

pytestmark = pytest.mark.skipif(
    shutil.which("patch") is None,
    reason="patch is not installed: apt-get install patch",
)


def installed(project: Project, tmp_path: Path) -> tuple[Path, list[Path]]:
    """A site-packages folder of the release, and what export wrote for it."""
    source = {"vllm/parser.py": PARSER, "vllm/other.py": "x\n", "setup.py": PARSER}
    sdist = make_sdist(project.downloads, source)
    (project.folder / "release.toml").write_text(release_toml(sdist))
    module = project.root / "patches/files/vllm/own.py"
    module.parent.mkdir(parents=True)
    module.write_text("VALUE = 1\n")
    (project.folder / "series").write_text("files/vllm/own.py\n")
    project.add_patch("five.diff", diff_line(5, "five", "vllm/parser.py"))
    project.add_patch("build.diff", diff_line(9, "nine", "setup.py"))
    project.run("refresh")
    made = [Path(line) for line in project.run("export").stdout.splitlines()]
    site = tmp_path / "site-packages"
    (site / "vllm").mkdir(parents=True)
    (site / "vllm/parser.py").write_text(PARSER)
    (site / "vllm/other.py").write_text("x\n")
    return site, made


def run(site: Path, *command: str | Path) -> int:
    done = subprocess.run(command, cwd=site, check=False, capture_output=True)
    return done.returncode


def test_in_and_out_again(project: Project, tmp_path: Path) -> None:
    site, (patch, before, after) = installed(project, tmp_path)
    assert patch.name == "vllm-1.2.0-mtp.1.patch"
    files = {file: file.read_bytes() for file in site.rglob("*.py")}
    put_in = ("patch", "-p1", "--fuzz=0", "--forward", "--batch", "--input", patch)
    assert run(site, "sha256sum", "--check", "--strict", before) == 0
    assert run(site, "sha256sum", "--check", "--strict", after) != 0
    assert run(site, *put_in) == 0
    assert run(site, "sha256sum", "--check", "--strict", after) == 0
    assert run(site, "sha256sum", "--check", "--strict", before) != 0
    assert (site / "vllm/own.py").read_text() == "VALUE = 1\n"
    assert not (site / "setup.py").exists()
    assert run(site, "patch", "-p1", "-R", "--fuzz=0", "--batch", "--input", patch) == 0
    assert {file: file.read_bytes() for file in site.rglob("*.py")} == files


def test_another_release_is_refused_by_the_sums(
    project: Project, tmp_path: Path
) -> None:
    site, (_, before, _) = installed(project, tmp_path)
    (site / "vllm/parser.py").write_text(PARSER + "more\n")
    assert run(site, "sha256sum", "--check", "--strict", before) != 0
