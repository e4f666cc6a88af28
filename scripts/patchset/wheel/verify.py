# SPDX-License-Identifier: Apache-2.0
"""Build a wheel again and compare the bytes: a patched one, or the plugin.

Nothing that the wheel says of itself counts. Only if the bytes differ, its files are
compared one by one, so that each deviation is named.
"""

import filecmp
import re
from dataclasses import dataclass, field
from pathlib import Path

from patchset import console, files, paths
from patchset.errors import UsageError
from patchset.inputs import fetch
from patchset.release import Arch, load
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay, plugin
from patchset.wheel.archive import Wheel, WheelError

_NAME = re.compile(r"vllm-(\d+(?:\.\d+)*)\+mtp\.\d+(\.cpu)?-.+\.whl")


@dataclass
class Report:
    """What a wheel was compared with, and every deviation from it.

    ``changed`` has the files that are not the official wheel's: *patched* and *removed*
    by the series, or *compiled*: of a content that nothing here can tell.
    """

    origin: str
    changed: dict[str, str] = field(default_factory=dict)
    deviations: list[str] = field(default_factory=list)


def verify(file: Path, *, allow_compiled: bool = False) -> Report:
    """Compare a wheel with what its name says.

    With ``allow_compiled``, modules of the official wheel may have other content.
    """
    if not file.is_file():  # a fifo would be waited for
        raise UsageError(f"{file} is not a regular file", "name a wheel")
    with (
        console.step(f"verify {file.name}"),
        files.scratch(paths.build_dir()) as folder,
    ):
        if file.name.startswith(f"{plugin.PACKAGE}-"):
            again, report = plugin.build(folder), Report("this checkout's plugin")
        else:
            again, report = _build(file, folder, allow_compiled=allow_compiled)
        if file.name != again.name or not filecmp.cmp(again, file, shallow=False):
            report.deviations = _compare(again, file, report.changed)
    return report


def _build(file: Path, folder: Path, *, allow_compiled: bool) -> tuple[Path, Report]:
    """Build the patched wheel that a file's name promises."""
    match = _NAME.fullmatch(file.name)
    if match is None:
        raise UsageError(
            f"{file.name} is not the name of a patched wheel",
            "it looks like vllm-0.33.0+mtp.1-cp38-abi3-manylinux_2_28_x86_64.whl",
        )
    release = load(match[1])
    patched = PatchedRelease(release, "cpu" if match[2] else "cuda")
    arch: Arch = "aarch64" if file.name.endswith("aarch64.whl") else "x86_64"
    pinned = patched.wheel(arch)
    with Wheel(fetch.artifact(pinned)) as stock, Wheel(file) as wheel:
        compiled = _compiled(stock, wheel) if allow_compiled else {}
        again = overlay.write(folder, stock, patched, pinned, compiled)
    report = Report(f"official {release.name} {patched.target} + series")
    for change in filter(lambda c: overlay.inside_wheel(c.path), patched.changes):
        report.changed[change.path] = "removed" if change.content is None else "patched"
    report.changed |= dict.fromkeys(compiled, "compiled")
    return again, report


def _compiled(stock: Wheel, wheel: Wheel) -> dict[str, bytes]:
    """Return the modules of the official wheel that have other content in a wheel."""
    return {
        name: wheel.read(name)
        for name, info in stock.members.items()
        if name.endswith(".so")
        and name in wheel.members
        and wheel.members[name].CRC != info.CRC
    }


def _compare(again: Path, file: Path, changed: dict[str, str]) -> list[str]:
    """Name every deviation of a wheel from the one that was built again."""
    with Wheel(again) as right, Wheel(file) as wheel:
        names = [*right.members, *sorted(wheel.members.keys() - right.members.keys())]
        found = [
            f"{' '.join(name.split())}: {fault} "  # a name may have line feeds
            f"({changed.get(name, 'not of the series')})"
            for name in names
            if (fault := _fault(name, right, wheel))
        ]
    return found or [
        f"its files are right, but not byte for byte what is built as {again.name}: "
        "its name, or headers, order, times or bytes between the files"
    ]


def _fault(name: str, right: Wheel, wheel: Wheel) -> str | None:
    """Return the deviation of a file from what it must be."""
    if name not in right.members:
        return "does not belong there"
    if name not in wheel.members:
        return "missing"
    if wheel.mode(name) != right.mode(name):
        return "has other permissions, or is not a plain file"
    try:
        sizes = {w.members[name].file_size for w in (wheel, right)}
        same = len(sizes) == 1 and wheel.read(name) == right.read(name)
    except WheelError:
        same = False
    return None if same else "has other content"
