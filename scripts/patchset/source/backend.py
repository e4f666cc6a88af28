# SPDX-License-Identifier: Apache-2.0
"""vLLM's own build backend: how it is called, what its build files say, and what it says itself, made short."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from patchset import console, paths, process
from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.source import third_party_sources
from patchset.source.preflight import Machine
from patchset.source.third_party_sources import Had
from patchset.source.toolchain import Toolchain

#: Given to Ninja: what ``_STATUS`` reads.
_NINJA_STATUS = "[%f/%t] "
_STATUS = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
_FAILED = re.compile(r"^FAILED: (?:\[code=\d+\] )?(.+)$")
_ERROR = re.compile(r"(?:\berror\b[ :]|\bError\b|ninja: |undefined reference|Killed|out of memory)")
_WARNING = re.compile(r"\bwarning\b[ :#]")
#: Without a terminal, a line appears so many seconds after the last at the earliest.
_PAUSE = 30.0
_SHORT = 160

_OBJECT = re.compile(r"^build (\S+/CMakeFiles/|CMakeFiles/)(\w+)\.dir/\S+\.o: \S+ (\S+)")
_GENCODE = re.compile(r"code=((?:sm|compute)_\w+)")


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
    made.setdefault("CCACHE_MAXSIZE", "10G")  # all of vLLM's own modules take about 1 GB
    # A path of this machine in the modules would tell them apart from others' and help nobody.
    arguments = ["-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"]
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
        "NINJA_STATUS": _NINJA_STATUS,
        # Paths below the build folder are relative to the cache: another checkout finds what this one compiled.
        "CCACHE_BASEDIR": str(paths.build_dir()),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "VLLM_RS_BUILD_VERSION": release.version,
    }


@dataclass
class Reader:
    """Hears a build's output line by line, and tells the user the little that matters: files done with an estimate,
    warnings counted, a failure explained."""

    log: Path
    done: int = 0
    total: int = 0
    warnings: int = 0
    failed: str = ""
    command: str = ""
    errors: list[str] = field(default_factory=list)
    #: When, and with how many files done, a total was first heard of; and when the user was last told.
    first: tuple[float, int] = (0.0, 0)
    told: float = 0.0

    def line(self, text: str) -> None:
        """One line of output."""
        if match := _STATUS.match(text):
            self._step(int(match[1]), int(match[2]), match[3])
        elif match := _FAILED.match(text):
            self.failed = self.failed or match[1].split()[0]
        elif self.failed and not self.command:
            self.command = text
        elif _ERROR.search(text):
            self.errors.append(text)
        elif _WARNING.search(text):
            self.warnings += 1

    def _step(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if total != self.total:
            self.first = (now, done)
        self.done, self.total = done, total
        if done == total or now - self.told >= _PAUSE:
            self.told = now
            start, before = self.first
            seconds = (now - start) / max(done - before, 1) * (total - done)
            left = f", about {console.duration(seconds)} left" if before < done < total else ""
            console.note(f"  {done} of {total} files{left}: {_short(what)}")

    def explanation(self, tail: str = "") -> str:
        """Why the build failed, short, with the end of what it said where no line is an error; the log has everything."""
        parts = [f"{Path(self.failed).name} could not be made"] if self.failed else []
        parts += [f"  {_short(line)}" for line in self.errors[:4] or tail.splitlines()[-8:]]
        if self.command:
            parts.append(f"  by: {_short(self.command)}")
        if any("Killed" in line or "out of memory" in line.lower() for line in self.errors):
            parts.append("  the machine ran out of memory: fewer --jobs")
        return "\n".join([*parts, f"  everything: {self.log}"])


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def drive(action: str, folder: Path, names: list[str], tools: Toolchain, variables: dict[str, str]) -> Reader:
    """Configure, or build, the modules of these names; what the backend says is in ``<folder>/<action>.log``."""
    driver, out = Path(__file__).with_name("driver.py"), folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    (folder / "deps").mkdir(parents=True, exist_ok=True)
    reader = Reader(folder / f"{action}.log")
    with reader.log.open("w", encoding="utf-8") as log:

        def heard(line: str) -> None:
            print(line, file=log, flush=True)
            reader.line(line)

        try:
            process.run(
                [tools.python, driver, action, ",".join(names), folder / "objects", out],
                prefix=action,
                env=variables,
                cwd=folder / "tree",
                heartbeat=120.0,  # a CUDA unit may take minutes without a word
                on_line=heard,
            )
        except process.ProgramError as error:
            what = "cannot be configured" if action == "configure" else "did not compile"
            raise PatchsetError(
                f"the modules {what}:\n{reader.explanation(error.tail)}",
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
