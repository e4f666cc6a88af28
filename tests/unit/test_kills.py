# SPDX-License-Identifier: Apache-2.0
"""Commands that die at a random moment: the next run ends in the bytes of an undisturbed one, and nothing is left behind.

``nox -s kills``; KILLS sets how often each command is killed, SEED when.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conftest import PARSER, Project
from test_installed import served, site
from test_rebase import SAME, next_release
from test_refresh_faults import MESSAGE
from test_wheel import NAME, packaged

__all__ = ["packaged", "served"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("KILLS", "20"))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@dataclass
class Killed:
    """A command, what it is to have made, and what brings the state before it back."""

    command: list[str]
    made: Callable[[], object]
    before: Callable[[], object]
    folder: Path
    watched: list[Path] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def run(self) -> float:
        start = time.monotonic()
        done = self.start()
        said = done.communicate(timeout=300)[1]
        # What died when all was written says so; what it made is compared.
        assert done.returncode == 0 or b"has a series already" in said, said.decode()
        return time.monotonic() - start

    def left(self) -> list[str]:
        """Unfinished work, temporary folders, and processes of the test's folder."""
        found = [str(path) for folder in self.watched for path in folder.rglob(".tmp-*")]
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().decode(errors="replace")
                inside = (place / "cwd").readlink().is_relative_to(self.folder)
            except OSError:
                continue
            if int(place.name) != os.getpid() and (
                inside or (str(self.folder) in words and "docker-registry" not in words)
            ):
                found.append(words)
        return found


def until(condition: Callable[[], bool], seconds: float = 40) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def hold(killed: Killed) -> None:
    """Kill it at random moments of its time, run it again, and compare."""
    dice = random.Random(int(os.environ.get("SEED", "1")))
    killed.before()
    temporary = set(Path("/tmp").iterdir()) | set(Path("/var/tmp").iterdir())
    seconds = killed.run()
    wanted = killed.made()
    died = 0
    for number in range(KILLS):
        killed.before()
        process = killed.start()
        time.sleep(dice.uniform(0.05, 1.0) * seconds)
        process.send_signal(SIGNALS[number % 3])
        said = process.communicate(timeout=120)[1].decode()
        died += process.returncode != 0
        # Before this package is there, Python itself answers an interruption.
        ours = [line for line in said.splitlines() if line.startswith('  File "') and "/patchset/" in line]
        assert not ours and process.returncode in (0, 1, 130, -2, -9, -15), said
        assert process.returncode != 1 or "KeyboardInterrupt" in said, said
        killed.run()
        assert killed.made() == wanted, (number, SIGNALS[number % 3])
        assert until(lambda: not killed.left(), 20), killed.left()
    new = (set(Path("/tmp").iterdir()) | set(Path("/var/tmp").iterdir())) - temporary
    assert not [
        path for path in new if path.name.startswith((".tmp-", "patchset", "buildah", "storage", "container"))
    ]
    print(
        f"{killed.command[-2:]}: {died} of {KILLS} died, seed {os.environ.get('SEED', '1')}, {seconds:.1f} s undisturbed"
    )


def patchset(*words: str) -> list[str]:
    return [sys.executable, "-m", "patchset", *words]


def files_of(folder: Path) -> dict[str, bytes | str]:
    """Files and links by path; of a repository what it holds, not how it is stored."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file() and ".git/" not in f"{name}/" and not path.name.endswith((".lock", ".pyc")):
            found[name] = path.read_bytes()
        elif path.name == ".git":
            ask = ["git", "-c", "safe.directory=*", "rev-parse", "HEAD", "refs/patchset/stock"]
            found[name] = subprocess.run(ask, cwd=path.parent, capture_output=True, text=True).stdout
    return found


def test_apply(packaged: Project) -> None:
    trees = packaged.root / "build/trees"
    hold(Killed(patchset("apply"), lambda: files_of(trees), lambda: shutil.rmtree(trees, ignore_errors=True), packaged.root, [packaged.root]))  # fmt: skip


def test_apply_over_another_tree(packaged: Project) -> None:
    """A tree stands there and is replaced."""
    trees = packaged.root / "build/trees"
    before = lambda: packaged.run("apply", "--upto", "1", "--discard")  # noqa: E731
    hold(Killed(patchset("apply"), lambda: files_of(trees), before, packaged.root, [packaged.root]))


def test_refresh(packaged: Project, tmp_path: Path) -> None:
    packaged.run("apply")
    patches, kept = packaged.root / "patches", tmp_path / "kept"
    (packaged.patched / "vllm/parser.py").write_text(PARSER + "more\n")
    for number in range(3):
        (packaged.patched / f"vllm/new{number}.py").write_text("x = 1\n")
        packaged.git("add", "--all")
        packaged.git("commit", "--quiet", "-m", f"Work {number}\n\n{MESSAGE}")
    shutil.copytree(packaged.root, kept, symlinks=True)

    def before() -> None:
        for name in ("patches", "build"):
            shutil.rmtree(packaged.root / name)
            shutil.copytree(kept / name, packaged.root / name, symlinks=True)

    hold(Killed(patchset("refresh"), lambda: files_of(patches), before, packaged.root, [packaged.root]))


def test_rebase(packaged: Project, tmp_path: Path) -> None:
    source = {name: content for name, content in SAME.items() if name != "pkg/parser.py"}
    source |= {"vllm/parser.py": "new first line\n" * 4 + PARSER, "tests/test_parser.py": PARSER}
    folder = next_release(packaged, source)
    kept = tmp_path / "kept"
    shutil.copytree(folder, kept)

    def before() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        shutil.rmtree(packaged.root / "build/rebase", ignore_errors=True)

    hold(Killed(patchset("rebase", "v1.3.0"), lambda: files_of(packaged.root / "patches"), before, packaged.root, [packaged.root]))  # fmt: skip


def test_build_wheel(packaged: Project) -> None:
    place = packaged.root / f"build/wheels/v1.2.0/cuda/{NAME}"
    before = lambda: shutil.rmtree(packaged.root / "build", ignore_errors=True)  # noqa: E731
    hold(Killed(patchset("build-wheel"), place.read_bytes, before, packaged.root, [packaged.root]))


@pytest.mark.parametrize("action", ["in", "out"])
def test_patch_installed(packaged: Project, served: Path, tmp_path: Path, action: str) -> None:
    if action == "out":
        packaged.run("patch-installed", "in", "--python", str(served))
    kept = tmp_path / "kept"
    shutil.copytree(site(served), kept, symlinks=True)

    def before() -> None:
        for folder in ("vllm", "vllm-1.2.0.dist-info"):
            shutil.rmtree(site(served) / folder)
            shutil.copytree(kept / folder, site(served) / folder)

    made = lambda: {name: data for name, data in files_of(site(served)).items() if name.startswith("vllm")}  # noqa: E731
    command = patchset("patch-installed", action, "--python", str(served))
    hold(Killed(command, made, before, packaged.root, [site(served), packaged.root]))
