# SPDX-License-Identifier: Apache-2.0
"""What compiling needs of the machine, asked before anything is downloaded or compiled."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from patchset import console, paths
from patchset.errors import MissingToolError, NoSpaceError, PatchsetError, UsageError
from patchset.pins import cmake
from patchset.release import Arch, Release, this_machine
from patchset.source import toolchain
from patchset.source.worktree import Plan

#: Bytes on the disk of the build folder: the toolchain's wheels and installation (measured: 3.2 and 5.7 GB), the
#: objects of all of vLLM's own modules, and the wheel while it is written.
TOOLCHAIN = 9_500_000_000
OBJECTS = 2_500_000_000
#: Bytes of memory for one compiler: a CUDA unit with CUTLASS, and a C++ one with torch's headers.
PER_CUDA_JOB = 4_000_000_000
PER_CXX_JOB = 1_000_000_000
#: What the largest CUDA unit takes (v0.33.0's own modules for 9.0: at most 12.4 GB in one program); few are so large.
LARGEST_CUDA_JOB = 12_500_000_000
#: Modules of C++ alone, by name; any other is taken to have CUDA units.
CXX_MODULES = frozenset({"cumem_allocator", "spinloop", "fs_io_C"})

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Machine:
    """What was found: the C++ compiler in its own words, and how many are to run at a time."""

    compiler: str
    jobs: int
    ccache: bool


def check(
    release: Release, arch: Arch, tree: Path, chosen: Plan, jobs: int | None, own_toolchain: bool
) -> Machine:
    """See that this machine can compile the plan."""
    if (machine := this_machine()) != arch:
        raise UsageError(f"this machine is {machine}; modules for {arch} are compiled on {arch}")
    folder = paths.build_dir()
    if re.search(r"\s", str(folder)):
        raise UsageError(
            f"the build folder {str(folder)!r} has a space in its name, which vLLM's build does not take",
            "set PATCHSET_BUILD_DIR to another folder",
        )
    compiler = _compiler(tree, chosen)
    needed = OBJECTS
    if not own_toolchain and not toolchain.place(release).is_dir():
        toolchain.find_python()
        needed += TOOLCHAIN
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if (free := shutil.disk_usage(there).free) < needed:
        raise NoSpaceError(
            f"compiling needs {needed / 1e9:.1f} GB in {folder}, and {free / 1e9:.1f} GB are free",
            "free some space there, or set PATCHSET_BUILD_DIR to another disk",
        )
    ccache = shutil.which("ccache") is not None
    if not ccache:
        console.note(
            "  no ccache: what is compiled now is not kept for other builds (apt-get install ccache)"
        )
    return Machine(compiler, _jobs(chosen, jobs), ccache)


def _compiler(tree: Path, chosen: Plan) -> str:
    program = os.environ.get("CXX", "g++")
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise MissingToolError(
            f"there is no C++ compiler: {program} cannot be run", "apt-get install g++ (or set CXX and CC)"
        ) from error
    first = said.partition("\n")[0].strip()
    numbers = re.findall(r"\d+\.\d+\.\d+", first)
    if "Free Software Foundation" in said and numbers:
        wanted = cmake.oldest_gcc(tree)
        for oldest in wanted if chosen.asks_newer_gcc else wanted[:1]:
            if Version(numbers[-1]) < Version(oldest):
                raise MissingToolError(
                    f"{program} is GCC {numbers[-1]}; these modules need {oldest} or newer",
                    "install one and name it: CXX=g++-14 CC=gcc-14"
                    + ("; vLLM's own modules alone need no such new one" if oldest != wanted[0] else ""),
                )
    return first


def _jobs(chosen: Plan, asked: int | None) -> int:
    """How many compilers run at a time: what was asked for, else as many as processors and memory allow."""
    each, largest = PER_CUDA_JOB, LARGEST_CUDA_JOB
    if all(module.name in CXX_MODULES for module in chosen.modules):
        each = largest = PER_CXX_JOB
    free = free_memory()
    if free < largest:
        raise PatchsetError(
            f"one compiler needs up to {largest / 1e9:.0f} GB of memory, and {free / 1e9:.1f} GB are free",
            "end other programs, or compile fewer modules (--modules)",
        )
    fitting = 1 + (free - largest) // each
    if asked is not None and asked > fitting:
        console.note(
            f"  --jobs {asked}: the free memory, {free / 1e9:.1f} GB, may be enough for {fitting} only"
        )
    return asked or min(len(os.sched_getaffinity(0)), fitting)


def free_memory() -> int:
    """Bytes of memory that programs can still have: the machine's, or less where this process's group has a limit."""
    words = Path("/proc/meminfo").read_text(encoding="ascii")
    free = int(words.partition("MemAvailable:")[2].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # there is no group, or its limit is "max"
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        free = min(free, int((_CGROUP / "memory.max").read_text(encoding="ascii")) - used)
    return free
