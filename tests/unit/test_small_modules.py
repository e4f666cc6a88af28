# SPDX-License-Identifier: Apache-2.0
"""The default release's small modules, compiled for real: the same bytes in two folders, and a patch that is seen.

``nox -s tests -- -m slow`` runs this: minutes, g++, and on its first run 3 GB of downloads for the CUDA toolkit.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from patchset import paths, release
from patchset.commands.options import this_machine
from patchset.source import toolchain

RELEASE = release.load()
MODULES = ("cumem_allocator", "spinloop", "fs_io_C")
DEMONSTRATION = Path(__file__).with_name("demonstration.diff")
SEEN = b"callback must be callable, and this module was patched"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@dataclass
class Place:
    """A checkout with a build folder of its own, which shares downloads and the installed toolchain."""

    root: Path

    def run(self, *arguments: str, status: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PATCHSET_ROOT": str(self.root),
            "PATCHSET_BUILD_DIR": str(self.root / "build"),
            "PATCHSET_DOWNLOADS": str(paths.downloads_dir()),
            "CCACHE_DIR": str(self.root / "ccache"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "patchset", *arguments],
            cwd=self.root, env=environment | variables, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == status, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def build(self, *modules: str, **variables: str) -> Path:
        done = self.run(
            "build-wheel",
            RELEASE.name,
            "--mode",
            "source",
            "--arch",
            "9.0",
            "--modules",
            ",".join(modules),
            status=0,
            **variables,
        )
        return Path(done.stdout.split()[1])

    def demonstrate(self) -> None:
        folder = self.root / "patches" / RELEASE.name
        shutil.copy(DEMONSTRATION, folder)
        with (folder / "series").open("a") as lines:
            lines.write(f"{DEMONSTRATION.name}\n")
        self.run("refresh", RELEASE.name)


@pytest.fixture(scope="module")
def places() -> tuple[Place, Place]:
    """Two checkouts whose paths have different lengths."""
    installed = toolchain.locked(RELEASE, this_machine()).python.parent.parent
    top = paths.build_dir() / "source-check"
    shutil.rmtree(top, ignore_errors=True)
    found = []
    for name in ("one", "another-folder"):
        root = top / name
        shutil.copytree(paths.patches_dir() / RELEASE.name, root / "patches" / RELEASE.name)
        for folder in ("common", "src"):
            shutil.copytree(paths.patches_dir() / folder, root / "patches" / folder)
        shutil.copytree(
            installed, root / "build" / "source" / installed.name, symlinks=True, copy_function=os.link
        )
        found.append(Place(root))
    return found[0], found[1]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_two_folders_give_the_same_bytes(places: tuple[Place, Place]) -> None:
    one, other = places
    wheel = one.build(*MODULES)
    # Without the cache: everything is compiled once more.
    again = other.build(*MODULES, CCACHE_DISABLE="1")
    assert sha256(wheel) == sha256(again)
    said = one.run("verify", str(wheel), "--allow-compiled").stdout
    for name in MODULES:
        assert f"vllm/{name}.abi3.so: compiled by" in said
    assert "vllm/_moe_C_stable_libtorch.abi3.so: the official wheel's" in said
    with zipfile.ZipFile(wheel) as archive:
        (notes,) = [name for name in archive.namelist() if name.endswith("/patchset.json")]
        compiled = json.loads(archive.read(notes))["compiled"]
    assert set(compiled["modules"]) == set(MODULES) and len(compiled["files"]) == len(MODULES)


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_another_folder_finds_what_this_one_compiled(places: tuple[Place, Place]) -> None:
    one, other = places
    for objects in (other.root / "build" / "source").glob("*/objects"):
        shutil.rmtree(objects)
    environment = os.environ | {"CCACHE_DIR": str(one.root / "ccache")}
    subprocess.run(["ccache", "--zero-stats"], env=environment, check=True, capture_output=True)
    other.build(*MODULES, CCACHE_DIR=environment["CCACHE_DIR"])
    done = subprocess.run(
        ["ccache", "--print-stats"], env=environment, check=True, capture_output=True, text=True
    )
    counts = dict(line.split("\t") for line in done.stdout.splitlines())
    hits = int(counts["direct_cache_hit"]) + int(counts["preprocessed_cache_hit"])
    assert (hits, int(counts["cache_miss"])) == (len(MODULES), 0)


def test_a_patch_of_compiled_code_is_seen_in_the_module(places: tuple[Place, Place]) -> None:
    place = places[0]
    place.demonstrate()
    refused = place.run("build-wheel", RELEASE.name, status=1).stderr
    assert "demonstration says 'Native: yes' (it changes csrc/spinloop.cpp): only mode source" in refused
    refused = place.run(
        "build-wheel", RELEASE.name, "--mode", "source", "--modules", "fs_io_C", status=2
    ).stderr
    assert "the series changes csrc/spinloop.cpp, which spinloop" in refused
    wheel = place.build("spinloop")
    with zipfile.ZipFile(wheel) as archive:
        module = archive.read("vllm/spinloop.abi3.so")
    assert SEEN in module
    assert "0 deviations" in place.run("verify", str(wheel), "--allow-compiled").stdout
    file = place.root / "spinloop.abi3.so"
    file.write_bytes(module)
    call = "import torch, spinloop; spinloop.spinloop(b'', None)"
    tools = toolchain.place(RELEASE) / "bin" / "python"
    done = subprocess.run([tools, "-c", call], cwd=place.root, capture_output=True, text=True)
    assert f"TypeError: {SEEN.decode()}" in done.stderr
