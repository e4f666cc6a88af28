# SPDX-License-Identifier: Apache-2.0
"""A container of the image under test, in whichever engine has it.

``nox -s image-check -- --image TAG --engine ENGINE --release RELEASE --target TARGET`` names the image.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchset import process
from patchset.errors import PatchsetError, UsageError
from patchset.image import build, engine
from patchset.image.engine import Engine
from patchset.release import Release, Target, load

HERE = Path(__file__).parent
#: For one program in a container; compiling takes half a minute on an idle machine.
SECONDS = 580


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--image", help="the image's tag; default: the one that build-image gives")
    parser.addoption("--engine", choices=engine.ENGINES, help="the engine that has it")
    parser.addoption("--release", help="the release that it was built from; default: the default release")
    parser.addoption("--target", choices=["cuda", "cpu"], default="cuda")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what cannot be looked at once, in place of an error for each test."""
    target = config.getoption("--target")
    try:
        chosen = load(config.getoption("--release"))
        which = engine.find(config.getoption("--engine"))
        tag = which.full_tag(config.getoption("--image") or build.default_tag(chosen, target))
        if not which.exists(tag):
            make = f"nox -s build-image -- {chosen.name} --target {target}"
            raise UsageError(f"{which.name} has no image {tag}", f"{make} makes one; --image names another")
    except PatchsetError as error:
        raise pytest.UsageError(f"{error.message}\nnext:  {error.hint}") from error


@dataclass
class Inside:
    """Runs programs in a container with tests/lanes/image mounted at /mnt/image, tests/patches at /mnt/patches."""

    engine: Engine
    image: str
    container: str | None = None

    def start(self) -> None:
        if self.engine.name == "buildah":
            self.container = f"vllm-mtp-check-{uuid.uuid4().hex[:8]}"
            try:
                process.run(["buildah", "from", "--name", self.container, self.image], prefix="buildah")
            except PatchsetError as error:  # no test can be run
                pytest.exit(f"{error.message}\nnext:  {error.hint}", error.exit_code)

    def stop(self) -> None:
        if self.container:
            subprocess.run(["buildah", "rm", self.container], check=True, capture_output=True)

    def run(self, *words: str, seconds: float = SECONDS) -> str:
        """What a program in the image prints; a failure shows its output."""
        mounts = [
            "--volume",
            f"{HERE}:/mnt/image:ro",
            "--volume",
            f"{HERE.parents[1] / 'patches'}:/mnt/patches:ro",
        ]
        if self.container:
            isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
            start = [
                "buildah",
                "run",
                "--isolation",
                isolation,
                "--network",
                "host",
                *mounts,
                self.container,
                "--",
            ]
            command = [*start, *words]
        else:
            start = [self.engine.name, "run", "--rm", "--network", "host", *mounts]
            command = [*start, "--entrypoint", words[0], self.image, *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        assert done.returncode == 0, (
            f"{' '.join(words)}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout


@pytest.fixture(scope="session")
def release(pytestconfig: pytest.Config) -> Release:
    return load(pytestconfig.getoption("--release"))


@pytest.fixture(scope="session")
def target(pytestconfig: pytest.Config) -> Target:
    chosen: Target = pytestconfig.getoption("--target")
    return chosen


@pytest.fixture(scope="session")
def inside(pytestconfig: pytest.Config, release: Release, target: Target) -> Iterator[Inside]:
    which = engine.find(pytestconfig.getoption("--engine"))
    image = which.full_tag(pytestconfig.getoption("--image") or build.default_tag(release, target))
    container = Inside(which, image)
    container.start()
    try:
        yield container
    finally:
        container.stop()
