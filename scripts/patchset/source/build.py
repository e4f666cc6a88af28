# SPDX-License-Identifier: Apache-2.0
"""Compile extension modules of a patched release with vLLM's own build backend."""

from __future__ import annotations

import json
import re
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

from patchset import console, files, paths
from patchset.errors import UsageError
from patchset.pins import cmake, third_party
from patchset.pins.cmake import Module
from patchset.release import Arch, Release
from patchset.source import backend, preflight, third_party_sources, toolchain, worktree
from patchset.wheel import compiled_modules
from patchset.wheel.compiled_modules import Compiled

_ARCHS = re.compile(r"^\d+\.\d[af]?(\+PTX)?([ ;,]\d+\.\d[af]?(\+PTX)?)*$")


@dataclass(frozen=True)
class Options:
    """What the user chose. ``archs`` as ``TORCH_CUDA_ARCH_LIST`` takes them; ``modules`` None: those that the
    series changes, or vLLM's own when it changes none."""

    archs: str = "9.0"
    modules: tuple[str, ...] | None = None
    jobs: int | None = None
    third_party: Path | None = None
    python: Path | None = None


def run(
    release: Release,
    arch: Arch,
    patched: Path,
    stock: Path,
    official: Path,
    changed: list[str],
    options: Options,
) -> tuple[dict[str, Path], Compiled]:
    """Compile the chosen modules; ``changed`` are the paths that the series changes.

    Returns the files that were made, by their names in a wheel, and what the wheel is to say of the modules. What was
    compiled stays in ``build/source/<release>-<arch>``: the next run continues from there.
    """
    third_party.check_pin(release, stock)
    chosen = worktree.plan(patched, choose(patched, options))
    with console.step("look at what compiling needs"):
        machine = preflight.check(
            release, arch, patched, chosen, options.jobs, own_toolchain=options.python is not None
        )
        sources = third_party_sources.bring(chosen.sources, official, given=options.third_party)
    tools = toolchain.own(options.python, release) if options.python else toolchain.locked(release, arch)
    key = re.sub(r"[^0-9A-Za-z.+]+", "_", options.archs)
    folder = paths.build_dir() / "source" / f"{release.name}-{arch}-{key}"
    with files.lock(folder), files.explain_full_disk(folder):
        worktree.prepare(patched, folder / "tree", chosen)
        # Objects that were made with other tools go: CMake keeps their paths. The compiler cache stays.
        stamp = folder / "tools.json"
        text = json.dumps({"python": str(tools.python), "cuda": str(tools.cuda), "torch": tools.torch}) + "\n"
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != text:
            shutil.rmtree(folder / "objects", ignore_errors=True)
            files.write_text(stamp, text)
        variables = backend.environment(release, folder, tools, sources, options.archs, machine)
        names = [module.name for module in chosen.modules]
        with console.step(f"configure {', '.join(names)} for {options.archs}"):
            backend.drive("configure", folder, names, tools, variables)
        units = backend.units(folder / "objects")
        named = options.modules is not None
        names = _settled(changed, names, units, folder / "tree", cmake.modules(patched), named)
        count = sum(len(units[name][0]) for name in names if name in units)
        with console.step(f"compile {count} files with {machine.jobs} jobs at a time"):
            reader = backend.drive("build", folder, names, tools, variables)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        warned = f", {reader.warnings} lines with warnings in {reader.log}" if reader.warnings else ""
        console.note(f"  at most {peak / 1e9:.1f} GB of memory in one program{warned}")
        found = {
            str(file.relative_to(folder / "out")): file
            for file in sorted((folder / "out").rglob("*"))
            if file.is_file()
        }
    how = {}
    for name in names:
        codes = sorted(units[name][1]) if name in units else []
        how[name] = compiled_modules.Module(
            compiler=machine.compiler,
            torch=tools.torch,
            cuda=tools.nvcc_version() if codes else None,
            architectures=codes,
        )
    # CUTLASS is given to every build, because CMake asks for it; only GPU code includes it.
    gpu = any(module.cuda for module in how.values())
    used = {
        had.source.name: had.origin
        for had in sources
        if gpu or had.source.name != third_party_sources.CUTLASS
    }
    return found, Compiled(modules=how, files={}, third_party=used, official=[])


def choose(tree: Path, options: Options) -> list[Module]:
    """The modules that the options name; ``all`` stands for every one, no names for vLLM's own."""
    if not _ARCHS.match(options.archs):
        raise UsageError(f"{options.archs!r} is not a list of CUDA architectures", "such as 9.0, or 8.0;9.0")
    names = options.modules
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


def _settled(
    changed: list[str],
    names: list[str],
    units: dict[str, tuple[list[str], set[str]]],
    tree: Path,
    known: list[Module],
    named: bool,
) -> list[str]:
    """The modules to compile: all of them when they were ``named``; else those that the series changes, or all when it
    changes none."""
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
                + (", or no --modules: what the series changes" if named else ""),
            )
        concerned += users
    return names if named else [name for name in names if name in concerned] or names
