# SPDX-License-Identifier: Apache-2.0
"""The scripts that stand for an image's programs: what reaches the engine, word by word."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cpu import build_dir
from image import container
from image.container import Container
from patchset.errors import PatchsetError


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An engine that answers the question for versions, and else says its arguments, one a line."""
    program = tmp_path / "programs" / "podman"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\ncase "$*" in *importlib*) echo "{}";; *) printf "%s\\n" "$@";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "build folder"))
    return "podman"


def test_a_program_of_the_image_gets_the_lanes_variables_and_its_own_words(
    engine: str, tmp_path: Path
) -> None:
    script = container.vllm(Container(engine, "an:image", "unused"), tmp_path)
    env = {**os.environ, "E2E_TAP": "/a b/$HOME", "PYTHONPATH": "/x"}
    env.pop("OMP_WAIT_POLICY", None)
    done = subprocess.run(
        [script, "serve", "a model", "$y"],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    words = done.stdout.splitlines()
    assert words[-5:] == ["vllm", "an:image", "serve", "a model", "$y"]
    assert (
        words[words.index("--env") + 1] == "PYTHONPATH=/x"
        and "E2E_TAP=/a b/$HOME" in words
    )
    assert not any(word.startswith("OMP_WAIT_POLICY") for word in words)
    assert f"{build_dir()}:{build_dir()}:rw" in words
    assert "--user" not in words


def test_a_program_that_does_not_end_is_told(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_program = Path(os.environ["PATH"].split(":")[0]) / "podman"
    engine_program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(container, "_PATIENCE", 0.2)
    with pytest.raises(PatchsetError, match="did not end within"):
        Container(engine, "an:image", "unused").run("python3")
