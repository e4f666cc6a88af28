# SPDX-License-Identifier: Apache-2.0
"""Mode source: compiler, torch, disk and memory are looked at before anything is compiled; the lock of the tools."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import cmake_files
from conftest import Project
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.locks import toolchain_lock
from patchset.pins import cmake
from patchset.release import Arch, Release, load
from patchset.source import preflight, toolchain, worktree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return cmake_files.write(tmp_path / "patched")


@pytest.fixture
def ready(
    project: Project, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Release, Path, worktree.Plan]:
    """A release, its tree, and a plan of its modules; the toolchain is the user's own."""
    # Whatever memory the machine of the tests has.
    monkeypatch.setattr(preflight, "free_memory", lambda: 24_000_000_000)
    modules = [module for module in cmake.modules(tree) if not module.external]
    return load(), tree, worktree.plan(tree, modules)


def check(ready: tuple[Release, Path, worktree.Plan], jobs: int | None = None) -> preflight.Machine:
    release, tree, chosen = ready
    return preflight.check(release, this_machine(), tree, chosen, jobs, True)


def this_machine() -> Arch:
    from patchset.commands import options

    return options.this_machine()


def compiler(folder: Path, says: str) -> str:
    program = folder / "some-g++"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    program.chmod(0o755)
    return str(program)


GCC = "g++ (Debian {v}-1) {v}\nCopyright (C) 2022 Free Software Foundation, Inc."


def test_a_missing_or_old_compiler_is_said_before_anything_is_compiled(
    ready: tuple[Release, Path, worktree.Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    with pytest.raises(MissingToolError, match=r"there is no C\+\+ compiler"):
        check(ready)
    monkeypatch.setenv("CXX", compiler(tmp_path, GCC.format(v="10.2.1")))
    with pytest.raises(MissingToolError, match=r"is GCC 10\.2\.1; these modules need 11\.3 or newer"):
        check(ready)
    monkeypatch.setenv("CXX", compiler(tmp_path, GCC.format(v="12.2.0")))
    assert check(ready).compiler == "g++ (Debian 12.2.0-1) 12.2.0"
    release, tree, _ = ready
    everything = worktree.plan(tree, cmake.modules(tree))
    with pytest.raises(MissingToolError, match="need 13 or newer") as caught:
        check((release, tree, everything))
    assert "vLLM's own modules alone need no such new one" in (caught.value.hint or "")


def test_too_little_disk_or_memory_is_said(
    ready: tuple[Release, Path, worktree.Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, GCC.format(v="12.2.0")))
    assert check(ready, jobs=3).jobs == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert check(ready).jobs == 3
    monkeypatch.setattr(preflight, "free_memory", lambda: 16_000_000_000)
    assert check(ready).jobs == 1
    monkeypatch.setattr(preflight, "free_memory", lambda: 12_000_000_000)
    with pytest.raises(PatchsetError, match=r"one compiler needs up to .* GB of memory, and .* GB are free"):
        check(ready)
    monkeypatch.setattr(preflight, "OBJECTS", 1 << 60)
    with pytest.raises(PatchsetError, match=r"compiling needs .* GB in .*build, and .* GB are free"):
        check(ready)


def test_free_memory_is_this_machines() -> None:
    assert 0 < preflight.free_memory() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_another_processor_is_refused(ready: tuple[Release, Path, worktree.Plan]) -> None:
    release, tree, chosen = ready
    other: Arch = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
    with pytest.raises(UsageError, match=f"modules for {other} are compiled on {other}"):
        preflight.check(release, other, tree, chosen, None, True)


def test_a_build_folder_with_a_space_is_refused(
    ready: tuple[Release, Path, worktree.Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "my build"))
    with pytest.raises(UsageError, match="has a space in its name"):
        check(ready)


def test_a_torch_of_another_version_is_refused(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "cuda/bin").mkdir(parents=True)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    python = Path(sys.executable)
    for version, cuda, words in (
        ("2.1.0", "'12.1'", "has torch 2.1.0; v1.2.0 is compiled with torch 2.0.0"),
        ("2.0.0+cpu", "None", "is built without CUDA"),
        ("2.0.0", "'12.1'", "has no CUDA compiler"),
    ):
        cmake_files.fake_torch(tmp_path, version, cuda)
        with pytest.raises(UsageError, match=words):
            toolchain.own(python, load())
    (tmp_path / "cuda/bin/nvcc").write_text(
        "#!/bin/sh\necho 'Cuda compilation tools, release 12.1, V12.1.66'\n"
    )
    (tmp_path / "cuda/bin/nvcc").chmod(0o755)
    assert toolchain.own(python, load()).nvcc_version() == "12.1.66"


def test_a_release_without_a_lock_of_its_tools_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match=r"v1\.2\.0 has no requirements\.build\.lock"):
        toolchain.place(load())


def test_what_compiles_is_read_off_the_tree(project: Project, tree: Path) -> None:
    (tree / "docker").mkdir()
    (tree / "docker/Dockerfile").write_text("FROM x\nARG CUDA_VERSION=13.0.3\nARG CUDA_VERSION\n")
    assert toolchain_lock.cuda_version(tree) == "13.0"
    with pytest.raises(PatchsetError, match=r"has none of requirements/build/cuda\.txt"):
        toolchain_lock.make(load(), tree)
    (tree / "requirements/build").mkdir(parents=True)
    (tree / "requirements/build/cuda.txt").write_text("# mirrored\ntorch==2.0.0  # why\n-r other.txt\n")
    with pytest.raises(PatchsetError, match=r"cuda\.txt: '-r other\.txt'"):
        toolchain_lock.make(load(), tree)
    (tree / "docker/Dockerfile").write_text("ARG CUDA_VERSION=12.9.1\n")
    with pytest.raises(
        UsageError, match=r"built with CUDA 12\.9, whose packages do not make one CUDA root"
    ) as caught:
        toolchain_lock.make(load(), tree)
    assert "--python PYTHON (with CUDA_HOME set)" in (caught.value.hint or "")
    (tree / "docker/Dockerfile").write_text("FROM x\n")
    with pytest.raises(PatchsetError, match="does not name CUDA_VERSION"):
        toolchain_lock.cuda_version(tree)
