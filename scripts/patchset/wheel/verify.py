# SPDX-License-Identifier: Apache-2.0
"""Build a wheel again from the official one and the series, and compare the bytes.

Nothing that the wheel says of itself counts. Only if the bytes differ, its files are
compared one by one, so that each deviation is named.
"""

from __future__ import annotations

import filecmp
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from patchset import console, files, paths
from patchset.errors import UsageError
from patchset.inputs import fetch
from patchset.release import Arch, Artifact, Release, Target, load
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay
from patchset.wheel.archive import Wheel, WheelError

_NAME = re.compile(
    r"vllm-(?P<version>\d+(\.\d+)*)\+mtp\.(?P<revision>\d+)(?P<cpu>\.cpu)?-.+\.whl"
)
_MADE = re.compile(
    r"vllm/_version\.py|[^/]+\.dist-info/(METADATA|WHEEL|RECORD|patchset\.json)"
)
_ORIGINS = {
    "official": "the official wheel's file",
    "patched": "the patched tree's file",
    "compiled": "the compiled module",
    "made": "what build-wheel writes",
}


@dataclass
class Report:
    """Names of a wheel's files by their origin, and every deviation.

    ``made`` are the files that the builder writes; ``compiled`` the modules that differ
    from the official ones and were allowed to.
    """

    wheel: str
    release: str
    target: Target
    official: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    compiled: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)


def verify(file: Path, *, allow_compiled: bool = False) -> Report:
    """Compare a wheel with the release that its name says.

    With ``allow_compiled``, modules of the official wheel may have other content.
    """
    release, target, pinned = identify(file.name)
    if not file.is_file():  # a fifo would be waited for
        raise UsageError(f"{file} is no regular file", "name a wheel")
    official = fetch.artifact(pinned)
    patched = PatchedRelease(release)
    report = Report(file.name, release.name, target)
    paths.build_dir().mkdir(parents=True, exist_ok=True)
    with (
        console.step(f"verify {file.name}"),
        Wheel(official) as stock,
        Wheel(file) as wheel,
        files.scratch(paths.build_dir()) as folder,
    ):
        compiled = _compiled(stock, wheel) if allow_compiled else {}
        again = overlay.write(folder, stock, patched, target, pinned, compiled)
        same = filecmp.cmp(again, file, shallow=False)
        changed = {change.path: change.content for change in patched.changes}
        with Wheel(again) as right:
            for name in right.members:
                origin = _origin(name, changed.keys(), compiled.keys())
                fault = None if same else _fault(name, right, wheel, _ORIGINS[origin])
                if fault:
                    report.deviations.append(f"{name}: {fault}")
                else:
                    getattr(report, origin).append(name)
            others = wheel.members.keys() - right.members.keys()
        for name in sorted(others):
            fault = "neither the official wheel nor the series has it"
            if name in changed:
                fault = "is there, though the series removes it"
            report.deviations.append(f"{name}: {fault}")
        gone = {name for name, content in changed.items() if content is None}
        report.removed = sorted(filter(overlay.inside_wheel, gone - others))
        if not same and not report.deviations:
            report.deviations.append(
                "its files are right, but the archive is not byte for byte what "
                "build-wheel writes: headers, order, times or bytes between them"
            )
    return report


def identify(name: str) -> tuple[Release, Target, Artifact]:
    """The release, target and official wheel of a patched wheel's file name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(
            f"{name} is not the name of a patched wheel",
            "it looks like vllm-0.33.0+mtp.1-cp38-abi3-manylinux_2_28_x86_64.whl",
        )
    release = load(match["version"])
    target: Target = "cpu" if match["cpu"] else "cuda"
    arch: Arch = "aarch64" if name.endswith("aarch64.whl") else "x86_64"
    pinned = release.wheel(target, arch)
    if name != (expected := overlay.wheel_name(release, target, pinned)):
        raise UsageError(
            f"{name} has another revision, or other tags than the official wheel",
            f"of this checkout, it is called {expected}",
        )
    return release, target, pinned


def _compiled(stock: Wheel, wheel: Wheel) -> dict[str, bytes]:
    """The modules of the official wheel that have other content in a wheel."""
    return {
        name: wheel.read(name)
        for name, info in stock.members.items()
        if name.endswith(".so")
        and name in wheel.members
        and wheel.members[name].CRC != info.CRC
    }


def _origin(name: str, changed: Collection[str], compiled: Collection[str]) -> str:
    if _MADE.fullmatch(name):
        return "made"
    if name in compiled:
        return "compiled"
    return "patched" if name in changed else "official"


def _fault(name: str, right: Wheel, wheel: Wheel, what: str) -> str | None:
    """The deviation of a file from what it must be."""
    if name not in wheel.members:
        return f"missing; it is {what}"
    if wheel.mode(name) != right.mode(name):
        return f"has other permissions than {what}"
    try:
        return None if wheel.read(name) == right.read(name) else f"is not {what}"
    except WheelError as error:
        return f"is not {what}: {error.message}"
