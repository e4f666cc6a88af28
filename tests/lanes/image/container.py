# SPDX-License-Identifier: Apache-2.0
"""An image as the server's environment: its programs run in buildah's container."""

import contextlib
import json
import os
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

from patchset import process
from patchset.errors import PatchsetError
from server import build_dir

_TESTS = Path(__file__).parents[2]
#: Seconds for one program; the longest ones import vLLM, or compile.
_PATIENCE = 600
#: What the lane tells a server through its environment.
_PASSED = (
    "PYTHONPATH",
    "SERVER_LANE_TAP",
    "SERVER_LANE_CONV_MEND",
    "SERVER_LANE_TORCHVISION_SHIM",
    "VLLM_TARGET_DEVICE",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_NO_USAGE_STATS",
    "PYTHONFAULTHANDLER",
    "HF_HUB_OFFLINE",
    "OMP_WAIT_POLICY",
)


@contextlib.contextmanager
def started(image: str) -> Iterator[str]:
    """Make a working container of an image, pulled unless it is there; its name."""
    name = f"vllm-mtp-check-{uuid.uuid4().hex[:8]}"
    # As publish does: a registry on this machine need not have a certificate.
    local = image.startswith(("localhost:", "127.0.0.1:", "[::1]:"))
    tls = f"--tls-verify={'false' if local else 'true'}"
    process.run(["buildah", "from", tls, "--name", name, image], prefix="buildah")
    try:
        yield name
    finally:
        subprocess.run(["buildah", "rm", name], capture_output=True)


def labels(name: str) -> dict[str, str]:
    done = subprocess.run(["buildah", "inspect", name], capture_output=True, text=True)
    if done.returncode:
        raise PatchsetError(f"buildah inspect: {done.stderr.strip()[-500:]}")
    return dict(json.loads(done.stdout)["OCIv1"]["config"].get("Labels") or {})


def run(name: str, wrong: str, *command: str) -> str:
    """Run a program in a container; what it says.

    Raises:
        PatchsetError: it did not end in time, or failed, which ``wrong`` explains.
    """
    try:
        done = subprocess.run(
            _words(name, *command), capture_output=True, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise PatchsetError(
            f"{command[0]} in {name} did not end within {_PATIENCE} s",
            "is the machine busy? Run it again with nothing else running",
        ) from error
    if done.returncode:
        raise PatchsetError(wrong, (done.stdout + done.stderr)[-1500:] or None)
    return done.stdout


def vllm(name: str, folder: Path) -> Path:
    """Write a script that stands for the image's command ``vllm``.

    It hands on the lane's variables, as far as they are set.
    """
    passed = [f'${{{word}+--env "{word}=${word}"}}' for word in _PASSED]
    line = " ".join(
        word if word in passed else shlex.quote(word)
        for word in _words(name, "vllm", options=passed)
    )
    script = folder / "vllm"
    script.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def _volumes() -> list[tuple[Path, str, str]]:
    """Return folders, with the path that a container has each at, and the right to it.

    At the clone's own path, such as one in ``/root``, its user may not look.
    """
    return [(_TESTS, "/mnt/tests", "ro"), (build_dir(), "/mnt/build", "rw")]


def inside(path: Path) -> str:
    """Return the path at which a container has a file of the tests or the lane."""
    there = (
        Path(mount, path.relative_to(folder))
        for folder, mount, _ in _volumes()
        if path.is_relative_to(folder)
    )
    return str(next(there))


def _words(name: str, *command: str, options: list[str] | None = None) -> list[str]:
    isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
    argv = ["buildah", "run", "--isolation", isolation, "--network", "host"]
    for folder, mount, right in _volumes():
        argv += ["--volume", f"{folder}:{mount}:{right}"]
    return [*argv, *(options or []), name, "--", *command]
