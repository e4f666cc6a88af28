# SPDX-License-Identifier: Apache-2.0
"""Compare a wheel with the official one and the series, file by file.

Nothing that the wheel says of itself counts. If every file is right, the wheel is built
again and compared byte for byte: installers read more of an archive than its files.
"""

from __future__ import annotations

import filecmp
import hashlib
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from patchset import console, files, paths
from patchset.errors import UsageError
from patchset.inputs import fetch
from patchset.release import Arch, Artifact, Release, Target, load
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import archive, overlay, record
from patchset.wheel.archive import Wheel, WheelError, plain_mode
from patchset.wheel.overlay import PROVENANCE, inside_wheel, renamed

_NAME = re.compile(
    r"vllm-(?P<version>\d+(\.\d+)*)\+mtp\.(?P<revision>\d+)(?P<cpu>\.cpu)?-.+\.whl"
)
_OFFICIAL, _PATCHED = "the official wheel's file", "the patched tree's file"


@dataclass
class Report:
    """Names of a wheel's files by where they come from, and every deviation.

    ``made`` has the files that the builder writes, with the rule for each; ``compiled``
    the modules that differ from the official ones and were allowed to.
    """

    wheel: str
    release: str
    target: Target
    official: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    compiled: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)


class _Expected(NamedTuple):
    """A file's origin in words, its sha256 as in RECORD, and if it is executable."""

    what: str
    sha256: str
    runs: bool | None = None


def verify(file: Path, *, allow_compiled: bool = False) -> Report:
    """Compare a wheel with the release that its name says.

    With ``allow_compiled``, modules of the official wheel may have other content.
    """
    release, target, pinned = identify(file.name)
    if not file.is_file():  # a fifo would be waited for
        raise UsageError(f"{file} is no regular file", "name a wheel")
    official = fetch.artifact(pinned)
    report = Report(file.name, release.name, target)
    patched = PatchedRelease(release)
    with (
        console.step(f"verify {file.name}"),
        Wheel(official) as stock,
        Wheel(file) as wheel,
    ):
        info = f"vllm-{release.built_version(target)}.dist-info"
        if wheel.dist_info != info:
            raise WheelError(f"{file.name} has {wheel.dist_info}, not {info}")
        found = _sums(wheel, report)
        expected = _expected(stock, patched, target, pinned)
        if allow_compiled:
            for name, one in expected.items():
                module = name.endswith(".so") and one.what == _OFFICIAL
                if module and name in found and found[name].hash != one.sha256:
                    report.compiled.append(name)
        compiled = {name: wheel.read(name) for name in sorted(report.compiled)}
        sums = {name: overlay.sha256(content) for name, content in compiled.items()}
        notes = overlay.provenance(patched, target, pinned, sums)
        expected[f"{info}/{PROVENANCE}"] = _Expected(
            "what pin and series say", record.line("", notes).hash
        )
        _compare(wheel, expected, found, patched, report)
        _check_record(wheel, found, report)
        if not report.deviations:
            members = overlay.assemble(stock, patched, target, pinned, compiled or None)
            _rebuild(members, stock, release, file, report)
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
    if int(match["revision"]) != release.revision:
        raise UsageError(
            f"{name} is of another revision; the pin says {release.revision}",
            "check that revision out",
        )
    if name != (expected := overlay.wheel_name(release, target, pinned)):
        raise UsageError(
            f"{name} has other tags than the official wheel", f"it is called {expected}"
        )
    return release, target, pinned


def _expected(
    stock: Wheel, patched: PatchedRelease, target: Target, pinned: Artifact
) -> dict[str, _Expected]:
    """Every file of the wheel but RECORD and patchset.json."""
    old = stock.dist_info
    new = f"vllm-{patched.pin.built_version(target)}.dist-info"
    expected = {
        renamed(line.name, old, new): _Expected(
            _OFFICIAL, line.hash, _runs(stock, line.name)
        )
        for line in record.parse(stock.read(f"{old}/RECORD"))
        if line.name in stock.members
        and line.name not in (f"{old}/RECORD", f"{old}/{PROVENANCE}")
    }
    for change in patched.changes:
        expected.pop(change.path, None)
        if change.content is not None and inside_wheel(change.path):
            digest = record.line(change.path, change.content).hash
            runs = bool(change.mode & 0o100)
            expected[change.path] = _Expected(_PATCHED, digest, runs)
    for name, content in overlay.own_files(stock, target, patched.pin, pinned).items():
        rule = "the official one with our version"
        if name.endswith("/WHEEL"):
            rule = "the official one with the tags of the file's name"
        digest = record.line(name, content).hash
        expected[renamed(name, old, new)] = _Expected(rule, digest)
    return expected


def _sums(wheel: Wheel, report: Report) -> dict[str, record.Line]:
    """The lines that RECORD must have, but its own."""
    found: dict[str, record.Line] = {}
    size = sum(info.file_size for info in wheel.members.values())
    with console.progress("files", size) as advance:
        for name, member in wheel.members.items():
            advance(member.file_size)
            mode = member.external_attr >> 16 & 0o7777
            if mode != plain_mode(mode):
                report.deviations.append(f"{name}: permissions are not 644 or 755")
            if name != f"{wheel.dist_info}/RECORD":
                found[name] = _line(wheel, name)
    return found


def _compare(
    wheel: Wheel,
    expected: dict[str, _Expected],
    found: dict[str, record.Line],
    patched: PatchedRelease,
    report: Report,
) -> None:
    """Report what each file but RECORD is."""
    gone = {
        change.path
        for change in patched.changes
        if change.content is None and inside_wheel(change.path)
    }
    for name, line in found.items():
        what, digest, runs = expected.get(name, _Expected("", ""))
        if name in gone:
            report.deviations.append(f"{name}: is there, though the series removes it")
        elif not what:
            report.deviations.append(
                f"{name}: neither the official wheel nor the series has it"
            )
        elif runs not in (None, _runs(wheel, name)):
            report.deviations.append(f"{name}: has other permissions than {what}")
        elif name in report.compiled:
            continue
        elif line.hash != digest:
            report.deviations.append(f"{name}: is not {what}")
        elif what == _PATCHED:
            report.patched.append(name)
        elif what == _OFFICIAL:
            report.official.append(name)
        else:
            report.made[name] = what
    report.removed = sorted(gone - found.keys())
    for name in sorted(expected.keys() - found.keys()):
        report.deviations.append(f"{name}: missing; it is {expected[name].what}")


def _check_record(wheel: Wheel, found: dict[str, record.Line], report: Report) -> None:
    place = f"{wheel.dist_info}/RECORD"
    listed = set(record.parse(wheel.read(place)))
    true = {*found.values(), record.Line(place, "", "")}
    faults = [f"RECORD does not list {line.name} as it is" for line in true - listed]
    faults += [f"RECORD lists {line.name}, which is not so" for line in listed - true]
    report.deviations += sorted(faults)
    if not faults:
        report.made[place] = "names every file with its hash and size"


def _rebuild(
    members: list[archive.Member],
    stock: Wheel,
    release: Release,
    file: Path,
    report: Report,
) -> None:
    """Build the wheel again and compare the bytes."""
    folder = paths.build_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        dir=folder, prefix=files.TEMP_PREFIX, suffix=".whl"
    ) as again:
        archive.write(Path(again.name), members, stock, release.source_date_epoch)
        if not filecmp.cmp(again.name, file, shallow=False):
            report.deviations.append(
                "its files are right, but the archive is not byte for byte what "
                "build-wheel writes: headers, order, times or bytes between them"
            )


def _line(wheel: Wheel, name: str) -> record.Line:
    """The line of a file in RECORD; one that cannot be read equals no other."""
    digest, size = hashlib.sha256(), 0
    try:
        for piece in wheel.pieces(name):
            digest.update(piece)
            size += len(piece)
    except WheelError as error:
        return record.Line(name, error.message, "")
    return record.Line(name, record.encode(digest.digest()), str(size))


def _runs(wheel: Wheel, name: str) -> bool:
    return bool(wheel.members[name].external_attr >> 16 & 0o100)
