# SPDX-License-Identifier: Apache-2.0
"""An image as the server's environment: its programs run in a container, through scripts that look like them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cpu import build_dir
from cpu.environment import Environment
from patchset.errors import PatchsetError
from patchset.image.engine import Engine

_TESTS = Path(__file__).parents[1]
#: Seconds for one program; the longest one imports vLLM, which takes seconds on an idle machine.
_PATIENCE = 600
#: What the lane tells a server through its environment.
_PASSED = (
    "PYTHONPATH", "E2E_TAP", "E2E_CONV_MEND", "E2E_TORCHVISION_SHIM", "VLLM_TARGET_DEVICE", "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_NO_USAGE_STATS", "PYTHONFAULTHANDLER", "HF_HUB_OFFLINE", "OMP_WAIT_POLICY",
)  # fmt: skip
_VERSIONS = (
    "import importlib.metadata as m, json, platform, sys\n"
    "found = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
    "print(json.dumps({n: found[n] for n in sys.argv[1:] if n in found} | {'python': platform.python_version()}))"
)


@dataclass(frozen=True)
class Container:
    """Runs programs of ``image``; ``name`` is buildah's working container, which other engines need not."""

    engine: Engine
    image: str
    name: str

    def words(
        self, program: str, *, root: bool = False, gpu: bool = False, passed: bool = False
    ) -> list[str]:
        """The beginning of a command line that runs ``program`` in the image; the program's arguments follow.

        ``passed`` hands on the lane's variables, as far as they are set, written for a shell.
        """
        mounts = [(_TESTS, "ro"), (build_dir(), "rw")]
        options = [word for place, how in mounts for word in ("--volume", f"{place}:{place}:{how}")]
        if root:
            options += ["--user", "0:0"]
        if passed:
            options += [f'${{{name}+--env "{name}=${name}"}}' for name in _PASSED]
        if self.engine.name == "buildah":
            isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
            head = ["buildah", "run", "--isolation", isolation, "--network", "host", *options]
            return [*head, self.name, "--", program]
        head = [self.engine.name, "run", "--rm", "--init", "--network", "host", "--ipc", "host", *options]
        if gpu:
            head += ["--gpus", "all"] if self.engine.name == "docker" else ["--device", "nvidia.com/gpu=all"]
        return [*head, "--entrypoint", program, self.image]

    def run(self, program: str, *arguments: str, gpu: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a program and keep what it says.

        Raises:
            PatchsetError: it did not end in time.
        """
        command = [*self.words(program, gpu=gpu), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise PatchsetError(
                f"{program} in {self.image} did not end within {_PATIENCE} s",
                "is the machine busy? With nothing else running it takes seconds; run it again",
            ) from error


@dataclass(frozen=True)
class InImage(Environment):
    """An environment whose ``bin/python`` and ``bin/vllm`` run in a container."""

    @property
    def shim_torchvision(self) -> bool:
        """An image brings along what its torchvision needs."""
        return False


@contextlib.contextmanager
def started(engine: Engine, image: str) -> Iterator[Container]:
    """A container of an image that the engine has, gone afterwards.

    Raises:
        PatchsetError: the engine has no such image.
    """
    image = image if engine.exists(image) else engine.full_tag(image)
    engine.pull(image)
    name = f"vllm-mtp-smoke-{uuid.uuid4().hex[:8]}"
    build_dir().mkdir(parents=True, exist_ok=True)
    if engine.name == "buildah":
        done = subprocess.run(
            ["buildah", "from", "--name", name, image], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PatchsetError(f"buildah has no image {image}: {done.stderr.strip()[-300:]}")
    try:
        yield Container(engine, image, name)
    finally:
        if engine.name == "buildah":
            subprocess.run(["buildah", "rm", name], capture_output=True, check=False)


def environment(container: Container, folder: Path) -> InImage:
    """Write the scripts that stand for the image's programs, and ask it for its versions."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for program, root in (("python", True), ("vllm", False)):
        words = container.words(program, root=root, passed=True)
        line = " ".join(word if word.startswith("${") else shlex.quote(word) for word in words)
        script = folder / "bin" / program
        script.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    asked = container.run("python", "-c", _VERSIONS, "vllm", "torch", "torchvision", "transformers")
    if asked.returncode:
        raise PatchsetError(f"python of {container.image} does not run: {asked.stderr.strip()[-500:]}")
    return InImage(folder, json.loads(asked.stdout.splitlines()[-1]))
