# SPDX-License-Identifier: Apache-2.0
"""The small model is taught once, and again when its answers have changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cpu import checkpoints, environment, questions
from patchset import process

FIND = "import importlib.util as u; assert u.find_spec('cpu.checkpoint')"


def test_the_model_is_taught_once_for_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def teach(command: list[str], *, env: dict[str, str], **more: Any) -> None:
        # The module of the training is found from anywhere.
        subprocess.run([sys.executable, "-c", FIND], env=env, cwd=tmp_path, check=True)
        taught.append(command[-1])

    taught: list[str] = []
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path))
    monkeypatch.setattr(process, "run", teach)
    monkeypatch.setattr(environment, "environment", lambda pin: tmp_path)
    place = checkpoints.checkpoint()
    assert checkpoints.checkpoint() == place and len(taught) == 1
    some = list(questions.taught())[1:]
    monkeypatch.setattr(questions, "taught", lambda: some)
    assert checkpoints.checkpoint() != place and len(taught) == 2
