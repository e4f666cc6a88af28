# SPDX-License-Identifier: Apache-2.0
"""Patching a real installation in place, in a virtual environment that pip filled."""

from __future__ import annotations

import hashlib
import subprocess
import venv
from pathlib import Path

import pytest

from conftest import Project
from patchset.errors import NoSpaceError
from patchset.install import in_place
from test_wheel import packaged

__all__ = ["packaged"]


def fingerprint(site: Path) -> dict[str, str]:
    """The sha256 of every file below ``site/vllm*``, bytecode left out; for comparing before and after."""
    found = {}
    for folder in sorted(site.glob("vllm*")):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.suffix != ".pyc" and not file.name.endswith(".lock"):
                found[str(file.relative_to(site))] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


@pytest.fixture
def served(packaged: Project, tmp_path: Path) -> Path:
    """The interpreter of an environment with the official wheel in it."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    wheel = packaged.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    return python


def site(python: Path) -> Path:
    return next(python.parent.parent.glob("lib/python*/site-packages"))


def test_in_and_out_again_every_hash_as_before(packaged: Project, served: Path) -> None:
    before = fingerprint(site(served))
    packaged.run("patch-installed", "status", "--python", str(served), status=1)
    shown = packaged.run("patch-installed", "in", "--python", str(served)).stdout
    assert "patched  vllm/parser.py" in shown and "is live" in shown
    assert "five" in (site(served) / "vllm/parser.py").read_text()
    packaged.run("patch-installed", "status", "--python", str(served))
    check = subprocess.run([served, "-m", "pip", "check"], capture_output=True, text=True)
    assert "No broken requirements" in check.stdout or "torch" in check.stdout
    during = fingerprint(site(served))
    assert {name for name in before if during[name] != before[name]} == {
        "vllm/parser.py",
        "vllm-1.2.0.dist-info/RECORD",
    }
    packaged.run("patch-installed", "out", "--python", str(served))
    assert fingerprint(site(served)) == before


def test_uninstalling_a_patched_vllm_leaves_nothing(packaged: Project, served: Path) -> None:
    packaged.run("patch-installed", "in", "--python", str(served))
    subprocess.run([served, "-m", "pip", "uninstall", "-q", "-y", "vllm"], check=True)
    assert not list((site(served) / "vllm").rglob("*.py")) if (site(served) / "vllm").exists() else True


def test_stale_bytecode_cannot_win(packaged: Project, served: Path) -> None:
    source = site(served) / "vllm/parser.py"
    cached = source.parent / "__pycache__" / "parser.cpython-311.pyc"
    cached.parent.mkdir(exist_ok=True)
    cached.write_bytes(b"of the old text")
    other = cached.with_name("other.cpython-311.pyc")
    other.write_bytes(b"of another module")
    packaged.run("patch-installed", "in", "--python", str(served))
    assert not cached.exists() and other.exists()


def test_foreign_files_are_named_and_nothing_is_changed(packaged: Project, served: Path) -> None:
    (site(served) / "vllm/parser.py").write_text("somebody's own\n")
    before = fingerprint(site(served))
    message = packaged.run("patch-installed", "in", "--python", str(served), status=1).stderr
    assert "not those of v1.2.0: vllm/parser.py" in message
    assert fingerprint(site(served)) == before


def test_half_done_is_completed_either_way(packaged: Project, served: Path) -> None:
    before = fingerprint(site(served))
    packaged.run("patch-installed", "in", "--python", str(served))
    (site(served) / "vllm/reader.py").unlink()
    shown = packaged.run("patch-installed", "status", "--python", str(served), status=1).stdout
    assert "stock    vllm/reader.py" in shown and "neither stock nor patched" in shown
    packaged.run("patch-installed", "in", "--python", str(served))
    assert (site(served) / "vllm/reader.py").exists()
    (site(served) / "vllm/reader.py").unlink()
    packaged.run("patch-installed", "out", "--python", str(served))
    assert fingerprint(site(served)) == before


def test_a_failing_write_leaves_every_file_as_it_was(
    packaged: Project, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = in_place.find(served)
    before = fingerprint(site(served))
    calls = []

    def fail(beside: Path, *rest: object) -> None:
        calls.append(beside)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        beside.write_bytes(b"")

    monkeypatch.setattr(in_place, "_write_beside", fail)
    with pytest.raises(NoSpaceError, match="could not be written"):
        in_place.put_in(found)
    assert fingerprint(site(served)) == before


def test_not_installed_unpinned_and_already_patched(packaged: Project, served: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    empty = str(tmp_path / "empty/bin/python")
    assert (
        "has no vLLM installed" in packaged.run("patch-installed", "in", "--python", empty, status=2).stderr
    )
    info = site(served) / "vllm-1.2.0.dist-info"
    info.rename(info.with_name("vllm-9.9.9.dist-info"))
    message = packaged.run("patch-installed", "in", "--python", str(served), status=2).stderr
    assert "unknown release v9.9.9" in message
    info.with_name("vllm-9.9.9.dist-info").rename(info)
    (info / "patchset.json").write_text("{}")
    for action in ("in", "out"):
        message = packaged.run("patch-installed", action, "--python", str(served), status=2).stderr
        assert "has the patched wheel of v1.2.0" in message
    assert "stock" in packaged.run("patch-installed", "status", "--python", str(served), status=1).stdout


def test_added_file_in_a_new_folder_goes_with_its_folder(packaged: Project, served: Path) -> None:
    new = "diff --git a/vllm/own/reader.py b/vllm/own/reader.py\nnew file mode 100644\n--- /dev/null\n+++ b/vllm/own/reader.py\n@@ -0,0 +1 @@\n+READ = 1\n"
    packaged.add_patch("0003-folder.diff", new)
    before = fingerprint(site(served))
    packaged.run("patch-installed", "in", "--python", str(served))
    subprocess.run([served, "-m", "compileall", "-q", str(site(served) / "vllm/own")], check=True)
    packaged.run("patch-installed", "out", "--python", str(served))
    assert fingerprint(site(served)) == before
    assert not (site(served) / "vllm/own").exists()
