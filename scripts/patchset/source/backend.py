# SPDX-License-Identifier: Apache-2.0
"""vLLM's own build backend: how it is called, and what its build files say."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from patchset.base import paths, process
from patchset.base.errors import PatchsetError
from patchset.base.release import Release
from patchset.source import ninja, third_party_sources
from patchset.source.preflight import Machine
from patchset.source.third_party_sources import Had
from patchset.source.toolchain import Toolchain

_DRIVER = Path(__file__).with_name("driver.py")
_OBJECT = re.compile(r"^build (\S+/CMakeFiles/|CMakeFiles/)(\w+)\.dir/\S+\.o: \S+ (\S+)")
_GENCODE = re.compile(r"code=((?:sm|compute)_\w+)")
#: A CUDA unit may take minutes without a word; after so many seconds the user hears that it is at work.
_HEARTBEAT = 120.0
#: ccache's limit where the user set none: all of vLLM's own modules take about 1 GB.
_CACHE_SIZE = "10G"


def environment(
    release: Release,
    folder: Path,
    tools: Toolchain,
    sources: list[Had],
    archs: str,
    machine: Machine,
) -> dict[str, str]:
    """The variables of the build: of the caller's only where programs and caches are, and which compiler."""
    kept = ("PATH", "HOME", "TMPDIR", "CC", "CXX")
    made = {key: os.environ[key] for key in kept if key in os.environ}
    made |= {key: value for key, value in os.environ.items() if key.startswith(("CCACHE_", "SCCACHE_"))}
    made["PATH"] = os.pathsep.join(
        [str(tools.python.parent), str(tools.cuda / "bin"), made.get("PATH", os.defpath)]
    )
    made.setdefault("CCACHE_DIR", str(paths.build_dir() / "ccache"))
    made.setdefault("CCACHE_MAXSIZE", _CACHE_SIZE)
    arguments = [
        # A path of this machine in the modules would tell them apart from others' and help nobody.
        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    ]
    for had in sources:
        made[had.source.variable] = str(had.folder / had.source.subfolder)
        if had.source.name == third_party_sources.CUTLASS:
            arguments += [
                f"-DCUTLASS_INCLUDE_DIR={had.folder}/include",
                f"-DCUTLASS_TOOLS_UTIL_INCLUDE_DIR={had.folder}/tools/util/include",
            ]
    # In modules, paths of this machine are relative to the objects' folder, as ccache makes them.
    above = os.path.relpath(paths.build_dir(), folder / "objects")
    maps = [f"-ffile-prefix-map={paths.build_dir()}={above}", f"-ffile-prefix-map={folder}=.."]
    if not machine.ccache:
        # With ccache nvcc is given relative paths, and another checkout's cached files fit.
        made["NVCC_APPEND_FLAGS"] = " ".join(f"-Xcompiler={text}" for text in maps)
    return made | {
        # The same bytes anywhere (reproducible-builds.org).
        "VLLM_VERSION_OVERRIDE": release.built_version("cuda"),
        "SOURCE_DATE_EPOCH": str(release.source_date_epoch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        # Nothing is to be downloaded in a build: whatever tried would fail, and be seen.
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "CUDA_HOME": str(tools.cuda),
        "CUDACXX": str(tools.cuda / "bin" / "nvcc"),
        "TORCH_CUDA_ARCH_LIST": archs,
        "VLLM_TARGET_DEVICE": "cuda",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_ARGS": " ".join(arguments),
        "CXXFLAGS": " ".join(maps),
        "FETCHCONTENT_BASE_DIR": str(folder / "deps"),
        "MAX_JOBS": str(machine.jobs),
        "NVCC_THREADS": "1",
        "NINJA_STATUS": ninja.STATUS,
        # Paths below the build folder are relative to the cache: another checkout finds what this one compiled.
        "CCACHE_BASEDIR": str(paths.build_dir()),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "VLLM_RS_BUILD_VERSION": release.version,
    }


def drive(
    action: str, folder: Path, names: list[str], tools: Toolchain, variables: dict[str, str]
) -> ninja.Reader:
    """Configure, or build, the modules of these names; what the backend says is in ``<folder>/<action>.log``."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    (folder / "deps").mkdir(parents=True, exist_ok=True)
    reader = ninja.Reader(folder / f"{action}.log")
    with reader.log.open("w", encoding="utf-8") as log:

        def heard(line: str) -> None:
            log.write(line + "\n")
            log.flush()
            reader.line(line)

        try:
            process.run(
                [tools.python, _DRIVER, action, ",".join(names), folder / "objects", out],
                prefix=action,
                env=variables,
                cwd=folder / "tree",
                heartbeat=_HEARTBEAT,
                on_line=heard,
            )
        except process.ProgramError as error:
            what = "cannot be configured" if action == "configure" else "did not compile"
            raise PatchsetError(
                f"the modules {what}:\n{reader.explanation()}",
                "fix it and run the same command again: what is compiled already stays",
            ) from error
    return reader


def units(objects: Path) -> dict[str, tuple[list[str], set[str]]]:
    """For each CMake target the source files that it is compiled from, and the GPU code that nvcc makes of them."""
    found: dict[str, tuple[list[str], set[str]]] = {}
    target = None
    with (objects / "build.ninja").open(encoding="utf-8") as lines:
        for line in lines:
            if match := _OBJECT.match(line):
                target = found.setdefault(match[2], ([], set()))
                target[0].append(match[3])
            elif target and line.startswith("  FLAGS = "):
                target[1].update(_GENCODE.findall(line))
            elif not line.startswith("  "):
                target = None
    return found
