# SPDX-License-Identifier: Apache-2.0
"""The script that stands for an image's ``vllm``: what reaches buildah, word by word."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cpu import build_dir
from image import container
from patchset.errors import PatchsetError


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in buildah's place that says its arguments, one a line."""
    program = tmp_path / "programs" / "buildah"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build folder"))
    return program


@pytest.mark.usefixtures("buildah")
def test_a_program_of_the_image_gets_the_lanes_variables_and_its_own_words(
    tmp_path: Path,
) -> None:
    script = container.vllm("a container", tmp_path)
    env = {**os.environ, "E2E_TAP": "/a b/$HOME", "PYTHONPATH": "/x"}
    env.pop("OMP_WAIT_POLICY", None)
    argv = [str(script), "serve", "a model", "$y"]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True)
    words = done.stdout.splitlines()
    assert words[-6:] == ["a container", "--", "vllm", "serve", "a model", "$y"]
    assert words[words.index("--env") + 1] == "PYTHONPATH=/x"
    assert "E2E_TAP=/a b/$HOME" in words
    assert not any(word.startswith("OMP_WAIT_POLICY") for word in words)
    assert f"{build_dir()}:{build_dir()}:rw" in words


def test_a_program_that_does_not_end_is_told(
    buildah: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buildah.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(container, "_PATIENCE", 0.2)
    with pytest.raises(PatchsetError, match="did not end within"):
        container.run("a container", "python3")
