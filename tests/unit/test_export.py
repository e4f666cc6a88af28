# SPDX-License-Identifier: Apache-2.0
"""The combined patch, by the two recipes of docs/patching.md as they stand there."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import APT, Project
from patchset import paths

pytestmark = pytest.mark.skipif(shutil.which("patch") is None, reason=f"{APT}patch")
ROOT = paths.project_root()
NAME = "vllm-1.2.0-mtp.1"


def recipes(made: Path) -> dict[str, str]:
    """Return the page's commands, on a made-up release and folder, and the
    Dockerfile's.
    """
    text = (ROOT / "docs/patching.md").read_text()
    text = text.partition("## One patch for an installed vLLM")[2]
    text = re.sub(r"vllm-\d[\d.]+-mtp\.1", NAME, text)
    shell, *_ = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    by_hand = re.findall(r"(?m)^\$ (.*\n(?:    .*\n)*)", shell)
    assert len(by_hand) == 4
    place, folder, put_in, take_out = by_hand
    assert place.startswith("made=$PWD/build/export/") and folder.startswith("cd ")
    place = f"made={made}\n"
    docker = made.with_name("Dockerfile").read_text()
    run = docker.rpartition("\nRUN cd ")[2].replace("\\\n", "").partition(" && ")[2]
    assert "/usr/local/lib/python3.12/dist-packages" in docker
    return {
        "shell": place + put_in,
        "docker": run.replace("/opt/mtp", str(made.parent)),
        "undo": place + take_out,
    }


@pytest.mark.parametrize("which", ["shell", "docker"])
def test_the_combined_patch_goes_in_once_and_out_again(
    packaged: Project, official: Path, which: str
) -> None:
    """The series has a new file, and one that no wheel has."""
    packaged.run("refresh")
    patch, *_ = packaged.run("export").stdout.splitlines()
    assert Path(patch).name == f"{NAME}.patch"
    recipe = recipes(Path(patch).with_suffix(""))

    def run(name: str) -> subprocess.CompletedProcess[str]:
        argv = ["sh", "-c", recipe[name]]
        return subprocess.run(argv, cwd=official, capture_output=True, text=True)

    def files() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in official.rglob("*.py")}

    before = files()
    first = run(which)
    assert first.returncode == 0 and "already" not in first.stdout, first.stderr
    assert (official / "vllm/reader.py").read_text() == "READ = 1\n"
    assert not (official / "tests").exists()
    after = files()
    again = run(which)
    assert (again.returncode, again.stdout) == (0, "already applied\n")
    assert files() == after
    assert run("undo").returncode == 0 and files() == before
    # Another release is refused by the sums, and so is half of the patch.
    for text in (b"more\n", after[official / "vllm/parser.py"]):
        (official / "vllm/parser.py").write_bytes(text)
        changed = files()
        refused = run(which)
        assert refused.returncode and "already" not in refused.stdout
        assert files() == changed
