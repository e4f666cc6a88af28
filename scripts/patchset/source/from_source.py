# SPDX-License-Identifier: Apache-2.0
"""The wheel of mode source: the official one with the series' files, and with modules compiled from the patched tree."""

from __future__ import annotations

import tempfile
from pathlib import Path

from patchset.base import console, files, paths
from patchset.base.errors import UsageError
from patchset.base.release import Arch, Target
from patchset.downloads import fetch
from patchset.series.apply import patched_tree
from patchset.series.native import native_reason
from patchset.series.patched_release import PatchedRelease
from patchset.series.stock_tree import stock_tree
from patchset.source import build as compiling
from patchset.source import symbols
from patchset.source.build import Compiled, Options
from patchset.wheel import archive, compiled_modules, modes, overlay
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
    native = [change.path for change in patched.changes if native_reason(change.path)]
    stock_source = stock_tree(release)
    made = compiling.run(release, arch, tree, stock_source, official, native, options)
    place = (out or paths.wheels_dir() / release.name / f"{target}-source") / overlay.wheel_name(
        release, target, pinned
    )
    with files.lock(place), Wheel(official) as stock:
        files.remove_temp(place.parent, place.name)
        _compare_symbols(stock, made)
        with console.step(f"write {place.name}"), files.atomic_file(place) as temp:
            contents = _contents(stock, made, {change.path for change in patched.changes})
            notes = overlay.provenance(
                patched, target, pinned, mode="source", compiled=_words(stock, made, contents)
            )
            members = overlay.assemble(stock, patched, target, pinned, notes, contents)
            archive.write(temp, members, stock, release.source_date_epoch)
    return place


def _contents(stock: Wheel, made: Compiled, changed: set[str]) -> dict[str, bytes]:
    """The files that the build made and that are not the official wheel's own already."""
    found = {}
    for name, file in made.files.items():
        content = file.read_bytes()
        same = name in stock.members and stock.members[name].file_size == len(content)
        if name not in changed and not (same and stock.read(name) == content):
            found[name] = content
    return found


def _words(stock: Wheel, made: Compiled, contents: dict[str, bytes]) -> object:
    sums = {name: overlay.sha256(content) or "" for name, content in contents.items()}
    return compiled_modules.Words(
        modules={name: compiled_modules.Module.model_validate(how) for name, how in made.modules.items()},
        files=sums,
        third_party=made.third_party,
        official=compiled_modules.official(stock.members, sums),
    ).model_dump(by_alias=True)


def _compare_symbols(stock: Wheel, made: Compiled) -> None:
    """Say how the compiled modules' exported symbols compare with the official ones'."""
    for name, file in made.files.items():
        if not name.endswith(".so"):
            continue
        if name not in stock.members:
            console.note(f"  {name}: the official wheel has no such module")
            continue
        with tempfile.NamedTemporaryFile(suffix=".so") as other:
            for piece in stock.pieces(name):
                other.write(piece)
            other.flush()
            found = symbols.compare(file, Path(other.name))
        size, before = file.stat().st_size, stock.members[name].file_size
        console.note(f"  {name}: {size / 1e6:.2f} MB (official {before / 1e6:.2f} MB), {found.words()}")
        for word, names in (
            ("only here", found.only_here),
            ("only in the official", found.only_official),
            ("not linked with, as the official is", found.not_linked),
        ):
            if names:
                more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
                console.note(f"    {word}: {', '.join(names[:_SHOWN])}{more}")
