# SPDX-License-Identifier: Apache-2.0
"""Compile extension modules of a patched release with vLLM's own build backend."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

from patchset import console, files, paths
from patchset.compiled import cmake, ninja, preflight, third_party, toolchain, worktree
from patchset.compiled.cmake import Module
from patchset.compiled.third_party import Had
from patchset.compiled.toolchain import Toolchain
from patchset.errors import PatchsetError, UsageError
from patchset.image import stream
from patchset.release import Arch, Release

_DRIVER = Path(__file__).with_name("driver.py")
_OBJECT = re.compile(r"^build (\S+/CMakeFiles/|CMakeFiles/)(\w+)\.dir/\S+\.o: \S+ (\S+)")
_GENCODE = re.compile(r"code=((?:sm|compute)_\w+)")
_ARCHS = re.compile(r"^\d+\.\d[af]?(\+PTX)?([ ;,]\d+\.\d[af]?(\+PTX)?)*$")
#: A CUDA unit may take minutes without a word; after so many seconds the user hears that it is at work.
_HEARTBEAT = 120.0
#: ccache's limit where the user set none: all of vLLM's own modules take about 1 GB.
_CACHE_SIZE = "10G"


@dataclass(frozen=True)
class Options:
    """What the user chose. ``archs`` as ``TORCH_CUDA_ARCH_LIST`` takes them; ``modules`` None: those that the
    series changes, or vLLM's own when it changes none."""

    archs: str = "9.0"
    modules: tuple[str, ...] | None = None
    jobs: int | None = None
    third_party: Path | None = None
    python: Path | None = None


@dataclass(frozen=True)
class Compiled:
    """The files that the build made, by their names in a wheel, and for each module how it was made."""

    files: dict[str, Path]
    modules: dict[str, dict[str, object]]
    third_party: dict[str, str]


def run(
    release: Release,
    arch: Arch,
    patched: Path,
    stock: Path,
    official: Path,
    changed: list[str],
    options: Options,
    *,
    from_dir: Path | None = None,
) -> Compiled:
    """Compile the chosen modules; ``changed`` are the paths that the series changes.

    What was compiled stays in ``build/source/<release>-<arch>``: the next run goes on from there.

    Raises:
        UsageError: a module or architecture does not exist, or the series changes a module that is not chosen.
        MissingToolError: the machine lacks a program; UnavailableError: a source or package cannot be had.
        PatchsetError: the build failed.
    """
    if not _ARCHS.match(options.archs):
        raise UsageError(f"{options.archs!r} are no CUDA architectures", "such as 9.0, or 8.0;9.0")
    third_party.check_pin(release, stock)
    chosen = worktree.plan(patched, _chosen(patched, options.modules))
    with console.step("look at what compiling needs"):
        machine = preflight.check(
            release, arch, patched, chosen, options.jobs, own_toolchain=options.python is not None
        )
        sources = third_party.bring(chosen.sources, official, given=options.third_party)
    tools = (
        toolchain.own(options.python, release)
        if options.python
        else toolchain.locked(release, arch, from_dir=from_dir)
    )
    key = re.sub(r"[^0-9A-Za-z.+]+", "_", options.archs)
    folder = paths.build_dir() / "source" / f"{release.name}-{arch}-{key}"
    with files.lock(folder), files.explain_full_disk(folder):
        worktree.prepare(patched, folder / "tree", chosen)
        _forget_other_tools(folder, tools)
        environment = _environment(release, folder, tools, sources, options.archs, machine)
        names = [module.name for module in chosen.modules]
        with console.step(f"configure {', '.join(names)} for {options.archs}"):
            _drive("configure", folder, names, tools, environment)
        units = _units(folder / "objects")
        modules = _settled(
            changed, chosen.modules, units, folder / "tree", patched, by_default=options.modules is None
        )
        names = [module.name for module in modules]
        count = sum(len(units[name][0]) for name in names if name in units)
        with console.step(f"compile {count} files with {machine.jobs} jobs at a time"):
            reader = _drive("build", folder, names, tools, environment)
        _say_costs(reader)
        found = {
            str(file.relative_to(folder / "out")): file
            for file in sorted((folder / "out").rglob("*"))
            if file.is_file()
        }
    how: dict[str, dict[str, object]] = {}
    for module in modules:
        codes = units.get(module.name, ([], set()))[1]
        how[module.name] = {
            "compiler": machine.compiler,
            "torch": tools.torch,
            "cuda": tools.nvcc_version() if codes else None,
            "architectures": sorted(codes),
        }
    # CUTLASS is given to every build, because CMake asks for it; only GPU code includes it.
    gpu = any(module["cuda"] for module in how.values())
    used = {had.source.name: had.origin for had in sources if gpu or had.source.name != third_party.CUTLASS}
    return Compiled(found, how, used)


def _chosen(tree: Path, names: tuple[str, ...] | None) -> list[Module]:
    """The modules of these names; ``all`` stands for every one, no names for vLLM's own."""
    known = cmake.modules(tree)
    if names is None:
        return [module for module in known if not module.external]
    if names == ("all",):
        return known
    by_name = {module.name: module for module in known}
    if unknown := [name for name in names if name not in by_name]:
        raise UsageError(
            f"there is no module {', '.join(unknown)}",
            f"modules of this release: {', '.join(by_name)}, or all",
        )
    return [by_name[name] for name in dict.fromkeys(names)]


def _forget_other_tools(folder: Path, tools: Toolchain) -> None:
    """Begin anew where the objects were made with other tools: CMake keeps their paths. The compiler cache stays."""
    stamp = folder / "tools.json"
    text = json.dumps({"python": str(tools.python), "cuda": str(tools.cuda), "torch": tools.torch}) + "\n"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != text:
        shutil.rmtree(folder / "objects", ignore_errors=True)
        files.write_text(stamp, text)


def _environment(
    release: Release,
    folder: Path,
    tools: Toolchain,
    sources: list[Had],
    archs: str,
    machine: preflight.Machine,
) -> dict[str, str]:
    """The variables of the build: of the caller's only where programs and caches are, and which compiler."""
    kept = ("PATH", "HOME", "TMPDIR", "CC", "CXX")
    environment = {key: os.environ[key] for key in kept if key in os.environ}
    environment |= {
        key: value for key, value in os.environ.items() if key.startswith(("CCACHE_", "SCCACHE_"))
    }
    environment["PATH"] = os.pathsep.join(
        [str(tools.python.parent), str(tools.cuda / "bin"), environment.get("PATH", os.defpath)]
    )
    environment.setdefault("CCACHE_DIR", str(paths.build_dir() / "ccache"))
    environment.setdefault("CCACHE_MAXSIZE", _CACHE_SIZE)
    arguments = [
        # A path of this machine in the modules would tell them apart from others' and help nobody.
        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
    ]
    for had in sources:
        environment[had.source.variable] = str(had.folder / had.source.subfolder)
        if had.source.name == third_party.CUTLASS:
            arguments += [
                f"-DCUTLASS_INCLUDE_DIR={had.folder}/include",
                f"-DCUTLASS_TOOLS_UTIL_INCLUDE_DIR={had.folder}/tools/util/include",
            ]
    # In modules, paths of this machine are relative to the objects' folder, as ccache makes them.
    above = os.path.relpath(paths.build_dir(), folder / "objects")
    maps = [f"-ffile-prefix-map={paths.build_dir()}={above}", f"-ffile-prefix-map={folder}=.."]
    if not machine.ccache:
        # With ccache nvcc is given relative paths, and another checkout's cached files fit.
        environment["NVCC_APPEND_FLAGS"] = " ".join(f"-Xcompiler={text}" for text in maps)
    return environment | {
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
        "VLLM_VERSION_OVERRIDE": release.built_version("cuda"),
        "VLLM_RS_BUILD_VERSION": release.version,
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
    }


def _drive(
    action: str, folder: Path, names: list[str], tools: Toolchain, environment: dict[str, str]
) -> ninja.Reader:
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
            stream.run(
                [tools.python, _DRIVER, action, ",".join(names), folder / "objects", out],
                prefix=action,
                env=environment,
                cwd=folder / "tree",
                heartbeat=_HEARTBEAT,
                on_line=heard,
            )
        except stream.ProgramError as error:
            what = "cannot be configured" if action == "configure" else "did not compile"
            raise PatchsetError(
                f"the modules {what}:\n{reader.explanation()}",
                "mend it and run the same command again: what is compiled already stays",
            ) from error
    return reader


def _units(objects: Path) -> dict[str, tuple[list[str], set[str]]]:
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


def _settled(
    changed: list[str],
    chosen: list[Module],
    units: dict[str, tuple[list[str], set[str]]],
    tree: Path,
    patched: Path,
    *,
    by_default: bool,
) -> list[Module]:
    """The modules to compile: the chosen ones, or by default those that the series changes, when it does change some.

    Raises:
        UsageError: the choice leaves out a module that the series changes; the wheel would hold the official one.
    """
    names = [module.name for module in chosen]
    known = cmake.modules(patched)
    concerned: list[str] = []
    for path in changed:
        users = [name for name, (sources, _) in units.items() if str(tree / path) in sources]
        # How an external project is built, or else a header, or how all are built: any of vLLM's own may be concerned.
        users = users or [module.name for module in known if module.external == path]
        if not users and (path.startswith(("csrc/", "cmake/")) or path in (cmake.TOP, "setup.py")):
            users = [module.name for module in known if not module.external]
        if left := [name for name in users if name not in names]:
            raise UsageError(
                f"the series changes {path}, which {', '.join(left)} may be compiled from and --modules leaves out",
                f"--modules {','.join(dict.fromkeys([*names, *left]))}"
                + ("" if by_default else ", or no --modules: what the series changes"),
            )
        concerned += users
    if by_default and concerned:
        return [module for module in chosen if module.name in concerned]
    return chosen


def _say_costs(reader: ninja.Reader) -> None:
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    warned = f", {reader.warnings} lines with warnings in {reader.log}" if reader.warnings else ""
    console.note(f"  at most {peak / 1e9:.1f} GB of memory in one program{warned}")
