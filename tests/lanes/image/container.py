# SPDX-License-Identifier: Apache-2.0
"""An image as the server's environment: its programs run in a container."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cpu import build_dir
from patchset import process
from patchset.errors import MissingToolError, PatchsetError

#: In the order in which they are looked for; podman and buildah share their images.
ENGINES = ("podman", "buildah", "docker")
_TESTS = Path(__file__).parents[2]
#: Seconds for one program; the longest ones import vLLM, or compile.
_PATIENCE = 600
#: What the lane tells a server through its environment.
_PASSED = (
    "PYTHONPATH",
    "E2E_TAP",
    "E2E_CONV_MEND",
    "E2E_TORCHVISION_SHIM",
    "VLLM_TARGET_DEVICE",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_NO_USAGE_STATS",
    "PYTHONFAULTHANDLER",
    "HF_HUB_OFFLINE",
    "OMP_WAIT_POLICY",
)


@dataclass(frozen=True)
class Container:
    """Runs programs of an image; ``name`` is buildah's working container."""

    engine: str
    image: str
    name: str

    def words(
        self,
        program: str,
        *,
        root: bool = False,
        gpu: bool = False,
        passed: bool = False,
    ) -> list[str]:
        """Return the beginning of a command line that runs a program in the image.

        ``passed`` hands on the lane's variables, as far as they are set, in the words of
        a shell.
        """
        options = ["--volume", f"{_TESTS}:{_TESTS}:ro"]
        options += ["--volume", f"{build_dir()}:{build_dir()}:rw"]
        options += ["--user", "0:0"] if root else []
        if passed:
            options += [f'${{{name}+--env "{name}=${name}"}}' for name in _PASSED]
        if self.engine == "buildah":
            isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
            head = ["buildah", "run", "--isolation", isolation, "--network", "host"]
            return [*head, *options, self.name, "--", program]
        head = [self.engine, "run", "--rm", "--init", "--network", "host"]
        if gpu:
            docker = self.engine == "docker"
            head += ["--gpus", "all"] if docker else ["--device", "nvidia.com/gpu=all"]
        return [*head, "--ipc", "host", *options, "--entrypoint", program, self.image]

    def run(
        self, program: str, *arguments: str, gpu: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and keep what it says."""
        command = [*self.words(program, gpu=gpu), *arguments]
        try:
            return subprocess.run(
                command, capture_output=True, text=True, timeout=_PATIENCE
            )
        except subprocess.TimeoutExpired as error:
            raise PatchsetError(
                f"{program} in {self.image} did not end within {_PATIENCE} s",
                "is the machine busy? Run it again with nothing else running",
            ) from error

    def labels(self) -> dict[str, str]:
        """Return the image's labels."""
        argv = [self.engine, "inspect", "--type", "image", self.image]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise PatchsetError(f"{self.engine} inspect: {done.stderr.strip()[-500:]}")
        found = json.loads(done.stdout)
        config = (
            found[0]["Config"] if isinstance(found, list) else found["OCIv1"]["config"]
        )
        return dict((config or {}).get("Labels") or {})


@contextlib.contextmanager
def started(engine: str | None, image: str) -> Iterator[Container]:
    """Start a container of an image, pulled unless the engine has it."""
    chosen = engine or next(filter(shutil.which, ENGINES), None)
    if chosen is None or shutil.which(chosen) is None:
        raise MissingToolError(
            f"{chosen or 'a container engine'} is not installed",
            "install one: sudo apt-get install podman",
        )
    asked = [chosen, "inspect", "--type", "image", image]
    if subprocess.run(asked, capture_output=True).returncode:
        process.run([chosen, "pull", image], prefix=chosen)
    name = f"vllm-mtp-check-{uuid.uuid4().hex[:8]}"
    build_dir().mkdir(parents=True, exist_ok=True)
    if chosen == "buildah":
        process.run(["buildah", "from", "--name", name, image], prefix=chosen)
    try:
        yield Container(chosen, image, name)
    finally:
        if chosen == "buildah":
            subprocess.run(["buildah", "rm", name], capture_output=True)


def vllm(container: Container, folder: Path) -> Path:
    """Write a script that stands for the image's command ``vllm``."""
    line = " ".join(
        word if word.startswith("${") else shlex.quote(word)
        for word in container.words("vllm", passed=True)
    )
    script = folder / "vllm"
    script.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script
