# SPDX-License-Identifier: Apache-2.0
"""The environment that the noxfile makes: whole, or made again."""

import importlib.util
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from patchset import paths

NOXFILE = paths.project_root() / "noxfile.py"


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noxfile", NOXFILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment") / "made"
    venv.create(folder, with_pip=True)
    return folder


@pytest.mark.parametrize(
    "gone",
    [
        "bin/python",
        "lib/python3*/site-packages/pip-*",
        "lib/python3*/site-packages/pip-*/INSTALLER",
        "lib/python3*",
    ],
)
def test_an_environment_without_a_part_is_not_whole(
    noxfile: ModuleType, made: Path, tmp_path: Path, gone: str
) -> None:
    """As Ctrl-C, or a Python that was upgraded, leaves it."""
    folder = Path(shutil.copytree(made, tmp_path / "made", symlinks=True))
    assert noxfile.is_whole(folder)
    for part in folder.glob(gone):
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    assert not noxfile.is_whole(folder)


@pytest.mark.parametrize("name", ["other-1.0.dist-info", "~ther-1.0.dist-info"])
def test_what_an_interrupted_pip_leaves_is_not_whole(
    noxfile: ModuleType, made: Path, tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "made", symlinks=True))
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / name).mkdir()
    (site / name / "METADATA").write_text("Name: other\nVersion: 1.0\n")
    if name.startswith("~"):  # what it replaces was whole
        (site / name / "INSTALLER").write_text("pip\n")
    assert not noxfile.is_whole(folder)


def test_a_folder_that_nox_cannot_write_is_said_in_one_sentence(tmp_path: Path) -> None:
    """As in a clone of another user. Root may write everywhere: here it is a file."""
    shutil.copyfile(NOXFILE, tmp_path / "noxfile.py")
    (tmp_path / ".nox").touch()
    done = subprocess.run(
        [sys.executable, "-m", "nox", "-s", "doctor"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode and "Traceback" not in said
    assert "make a new clone" in said and "uv binary" not in said


def test_the_tables_bring_what_the_lanes_import(
    noxfile: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a clone where no other session has run."""
    groups: list[str] = []
    monkeypatch.setattr(noxfile, "install", lambda _, *names: groups.extend(names))
    monkeypatch.setattr(noxfile, "run", lambda *_: None)
    noxfile.tables.func(SimpleNamespace(posargs=[]))
    assert "server" in groups
