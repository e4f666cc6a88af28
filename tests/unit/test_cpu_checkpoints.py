# SPDX-License-Identifier: Apache-2.0
"""The small model's archive: the pinned one where it is at hand."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cpu import checkpoints


class Trained(Exception):
    """The model would be trained."""


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive in the downloads folder, and its sum pinned."""

    def train(place: Path) -> None:
        raise Trained(str(place))

    monkeypatch.setattr(checkpoints, "_make", train)
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build"))
    monkeypatch.setenv("PATCHSET_DOWNLOADS", str(tmp_path))
    place = tmp_path / f"learnt-by-heart-{checkpoints._key()}.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("answers.json", "{}")
    pin = tmp_path / "pin.toml"
    pin.write_text(f'sha256 = "{hashlib.sha256(place.read_bytes()).hexdigest()}"\n')
    monkeypatch.setattr(checkpoints, "_PIN", pin)
    return place


def test_the_pinned_archive_is_taken_from_the_downloads(packed: Path) -> None:
    assert checkpoints.archive() == packed
    assert (checkpoints.checkpoint() / "answers.json").read_text() == "{}"


def test_another_archive_is_left_alone(packed: Path) -> None:
    packed.write_bytes(packed.read_bytes() + b"x")
    with pytest.raises(Trained):
        checkpoints.archive()


def test_it_is_trained_again_on_request(packed: Path) -> None:
    with pytest.raises(Trained):
        checkpoints.archive(again=True)


def test_the_training_finds_its_module(tmp_path: Path) -> None:
    find = "import importlib.util as u; assert u.find_spec('cpu.checkpoint')"
    command = [sys.executable, "-c", find]
    done = subprocess.run(
        command, env=checkpoints.variables(), cwd=tmp_path, check=False
    )
    assert done.returncode == 0
