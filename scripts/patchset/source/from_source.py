# SPDX-License-Identifier: Apache-2.0
"""The wheel of mode source: the official one with the series' files, and with modules compiled from the patched tree."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from patchset import console, paths
from patchset.downloads import fetch
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.release import Arch, Target
from patchset.series.apply import patched_tree
from patchset.series.native import native_reason
from patchset.series.patched_release import PatchedRelease
from patchset.series.stock_tree import stock_tree
from patchset.source import build as compiling
from patchset.source.build import Options
from patchset.source.toolchain import DRIVER
from patchset.wheel import compiled_modules, modes, overlay
from patchset.wheel.archive import Wheel

#: How many names of symbols are shown.
_SHOWN = 5


def build(
    patched: PatchedRelease, target: Target, arch: Arch, options: Options, *, out: Path | None = None
) -> Path:
    """Compile and build ``build/wheels/<release>/<target>-source/vllm-<version>+mtp.<n>-<tags>.whl``."""
    release = patched.pin
    if target != "cuda":
        raise UsageError(
            "modules are compiled for cuda only",
            f"everything, in a container: nox -s build-image -- {release.name} --target {target} --mode source",
        )
    modes.check(patched, target, "source")
    pinned = release.wheel(target, arch)
    tree = patched_tree(release)
    compiling.choose(tree, options)  # refused before the wheel is downloaded
    official = fetch.artifact(pinned)
    changed = [change.path for change in patched.changes]
    native = [path for path in changed if native_reason(path)]
    made, compiled = compiling.run(release, arch, tree, stock_tree(release), official, native, options)
    with Wheel(official) as stock:
        contents = {}
        for name, file in made.items():
            if name.endswith(".so"):
                _tell(stock, name, file)
            content = file.read_bytes()
            same = name in stock.members and stock.members[name].file_size == len(content)
            if name not in changed and not (same and stock.read(name) == content):
                contents[name] = content
        compiled.files = {name: overlay.sha256(content) or "" for name, content in contents.items()}
        compiled.official = compiled_modules.official(stock.members, contents)
        folder = out or paths.wheels_dir() / release.name / f"{target}-source"
        return overlay.write(folder, stock, patched, target, pinned, compiled, contents)


def _tell(stock: Wheel, name: str, file: Path) -> None:
    """Say how a compiled module compares with the official one."""
    if name not in stock.members:
        console.note(f"  {name}: the official wheel has no such module")
        return
    with tempfile.NamedTemporaryFile(suffix=".so") as other:
        for piece in stock.pieces(name):
            other.write(piece)
        other.flush()
        first, *more = compare(file, Path(other.name))
    size, before = file.stat().st_size, stock.members[name].file_size
    console.note(f"  {name}: {size / 1e6:.2f} MB (official {before / 1e6:.2f} MB), {first}")
    for line in more:
        console.note(f"    {line}")


def compare(here: Path, official: Path) -> list[str]:
    """How a module differs from the official one, in lines: the symbols that they export, the libraries that they ask for.

    One that asks for functions of the driver, but not for its library, could not be loaded, and is refused.
    """
    ours, theirs = _symbols(here, "--defined-only"), _symbols(official, "--defined-only")
    linked, linked_there = _libraries(here), _libraries(official)
    calls = sorted(name for name in _symbols(here, "--undefined-only") if re.match(r"cu[A-Z]\w*(@|$)", name))
    if calls and DRIVER not in linked:
        raise PatchsetError(
            f"{here.name} calls {calls[0]} of the CUDA driver and is not linked with {DRIVER}",
            "the CUDA root has no lib/stubs/libcuda.so to link with, or an empty one",
        )
    lines = [
        f"{len(ours)} exported symbols, the same as the official module's"
        if ours == theirs
        else f"{len(ours & theirs)} exported symbols in common with the official module, "
        f"{len(ours - theirs)} only here, {len(theirs - ours)} only there"
    ]
    for word, names in (
        ("only here", ours - theirs),
        ("only in the official", theirs - ours),
        ("not linked with, as the official is", linked_there - linked),
    ):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(f"{word}: {', '.join(sorted(names)[:_SHOWN])}{more}")
    return lines


def _symbols(module: Path, which: str) -> set[str]:
    """The names of a shared library's dynamic symbols."""
    listing = _ask(module, "nm", "--dynamic", which, "--format=posix")
    return {line.split(" ", 1)[0] for line in listing.splitlines() if line.strip()}


def _libraries(module: Path) -> set[str]:
    """The libraries that the loader brings for a shared library (DT_NEEDED)."""
    listing = _ask(module, "objdump", "--private-headers")
    return set(re.findall(r"^\s+NEEDED\s+(\S+)$", listing, re.MULTILINE))


def _ask(module: Path, program: str, *options: str) -> str:
    try:
        done = subprocess.run([program, *options, module], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MissingToolError(f"{program} is not installed", "apt-get install binutils") from error
    if done.returncode:
        raise PatchsetError(f"{module.name} cannot be read: {done.stderr.strip()[-300:]}")
    return done.stdout
