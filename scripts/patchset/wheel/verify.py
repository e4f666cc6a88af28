# SPDX-License-Identifier: Apache-2.0
"""Official files + series = what is inside a wheel, shown file by file.

It asks what each file is, apart from how ``overlay`` makes it; a wheel of which every file is right is then built again
and compared byte for byte, since installers read more of an archive than its files: headers, comments, what stands around.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from patchset import console, files, paths
from patchset.downloads import fetch
from patchset.errors import UsageError
from patchset.release import Arch, Artifact, Release, Target, load
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import archive, compiled_modules, metadata, modes, record
from patchset.wheel.archive import Wheel, WheelError, plain_mode
from patchset.wheel.compiled_modules import Compiled
from patchset.wheel.overlay import PROVENANCE, assemble, provenance, renamed, wheel_name

_NAME = re.compile(r"vllm-(?P<version>\d+(\.\d+)*)\+mtp\.(?P<revision>\d+)(?P<cpu>\.cpu)?-.+\.whl")
#: What a file may be; any other is made by a rule, given in words.
_OFFICIAL, _PATCHED, _COMPILED = (
    "the official wheel's file",
    "the patched tree's file",
    "the file that the wheel says was compiled",
)
#: What a wheel says of itself may have this many bytes.
_SMALL = 64 << 20


@dataclass
class Report:
    """What a wheel was found to hold: names of files by where they come from, and every deviation.

    ``made`` has the files that a builder writes, each with the rule that explains how it differs from the official;
    ``modules`` says of a wheel with compiled modules for each whether it was compiled by its builder, and how.
    """

    wheel: str
    release: str
    target: Target
    official: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    made: dict[str, str] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    deviations: list[str] = field(default_factory=list)


class _Expected(NamedTuple):
    """What a file must be, in words, and its sha256 as RECORD writes it; ``runs`` says whether it is executable, None where
    that does not matter."""

    what: str
    sha256: str
    runs: bool | None = None


def verify(file: Path, *, allow_compiled: bool = False) -> Report:
    """Compare a wheel with the official one and the patched tree of the release that its name says.

    Nobody can compare what its builder compiled or generated: each such file is a deviation unless ``allow_compiled``.
    """
    release, target, pinned = identify(file.name)
    official = fetch.artifact(pinned)
    report = Report(file.name, release.name, target)
    patched = PatchedRelease(release)
    gone = [
        change.path
        for change in patched.changes
        if change.content is None and modes.inside_wheel(change.path)
    ]
    with console.step(f"verify {file.name}"), Wheel(official) as stock, Wheel(file) as wheel:
        info = f"vllm-{release.built_version(target)}.dist-info"
        if wheel.dist_info != info:
            raise WheelError(f"{file.name} has {wheel.dist_info}, not {info}")
        notes, compiled = f"{info}/{PROVENANCE}", None
        if notes in wheel.members and wheel.members[notes].file_size <= _SMALL:
            with contextlib.suppress(WheelError):
                compiled = compiled_modules.read(wheel.read(notes))
        expected = _expected(stock, patched, target, pinned, compiled)
        found = _compare(wheel, expected, gone, compiled, report)
        report.removed = [name for name in gone if name not in found]
        report.deviations += [
            f"{name}: missing; it is {expected[name].what}" for name in sorted(expected.keys() - found.keys())
        ]
        listed = set(record.parse(wheel.read(f"{info}/RECORD")))
        true = {*found.values(), record.Line(f"{info}/RECORD", "", "")}
        faults = [f"RECORD does not list {line.name} with its hash and size" for line in true - listed]
        faults += [f"RECORD lists {line.name}, which is not there or is another" for line in listed - true]
        report.deviations += sorted(faults)
        if not faults:
            report.made[f"{info}/RECORD"] = "names every file with its hash and size"
        if not report.deviations:
            contents = {name: wheel.read(name) for name in (compiled.files if compiled else ())}
            members = assemble(stock, patched, target, pinned, compiled, contents)
            folder = paths.build_dir()
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=files.TEMP_PREFIX, suffix=".whl") as again:
                archive.write(Path(again.name), members, stock, release.source_date_epoch)
                if not filecmp.cmp(again.name, file, shallow=False):
                    report.deviations.append(
                        "its files are right, but it is not byte for byte what build-wheel writes: headers, "
                        "order, times, comments or bytes between and behind the files differ"
                    )
    if not allow_compiled:
        report.deviations += [
            f"{name}: {how}; nobody can compare that: --allow-compiled takes it on its builder's word"
            for name, how in report.modules.items()
            if name not in report.official
        ]
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
            f"{name} is of another revision; the pin says {release.revision}", "check that revision out"
        )
    if name != (expected := wheel_name(release, target, pinned)):
        raise UsageError(f"{name} has other tags than the official wheel", f"it is called {expected}")
    return release, target, pinned


def _expected(
    stock: Wheel, patched: PatchedRelease, target: Target, pinned: Artifact, compiled: Compiled | None
) -> dict[str, _Expected]:
    """Every file of the wheel but RECORD. Of compiled files only the sum that the wheel states is known."""
    version = patched.pin.built_version(target)
    old, new = stock.dist_info, f"vllm-{version}.dist-info"
    expected = {
        renamed(line.name, old, new): _Expected(_OFFICIAL, line.hash, _runs(stock, line.name))
        for line in record.parse(stock.read(f"{old}/RECORD"))
        if line.name in stock.members
    }
    expected.pop(f"{new}/RECORD", None)
    if compiled:
        official = compiled_modules.official(stock.members, compiled.files)
        compiled = compiled.model_copy(update={"official": official})
        for name, digest in compiled.files.items():
            expected[name] = _Expected(_COMPILED, record.encode(bytes.fromhex(digest)))
    for change in patched.changes:
        expected.pop(change.path, None)
        if change.content is not None and modes.inside_wheel(change.path):
            digest = record.line(change.path, change.content).hash
            expected[change.path] = _Expected(_PATCHED, digest, bool(change.mode & 0o100))
    own = metadata.patched_metadata(stock.read(f"{old}/METADATA"), version)
    module = metadata.patched_version_file(stock.read(metadata.VERSION_FILE), version)
    tags = metadata.retagged_wheel_file(stock.read(f"{old}/WHEEL"), pinned.file)
    notes = provenance(patched, target, pinned, compiled)
    mode = "source" if compiled else "overlay"
    for name, content, rule in (
        (f"{new}/METADATA", own, "the official one with our version"),
        (f"{new}/WHEEL", tags, "the official one with the tags of the file's name"),
        (metadata.VERSION_FILE, module, "the official one with our version"),
        (f"{new}/{PROVENANCE}", notes, f"what pin and series say, mode {mode}"),
    ):
        expected[name] = _Expected(rule, record.line(name, content).hash)
    return expected


def _compare(
    wheel: Wheel, expected: dict[str, _Expected], gone: list[str], compiled: Compiled | None, report: Report
) -> dict[str, record.Line]:
    """Report what each file but RECORD is, and return what RECORD is to say of each."""
    found: dict[str, record.Line] = {}
    with console.progress("files", sum(info.file_size for info in wheel.members.values())) as advance:
        for name, member in wheel.members.items():
            advance(member.file_size)
            mode = member.external_attr >> 16 & 0o7777
            if mode != plain_mode(mode):
                report.deviations.append(f"{name}: its permissions are neither 644 nor 755")
            if name == f"{wheel.dist_info}/RECORD":
                continue
            found[name] = _line(wheel, name)
            what, digest, runs = expected.get(name, _Expected("", ""))
            if name in gone:
                report.deviations.append(f"{name}: is there, though the series removes it")
            elif not what:
                report.deviations.append(f"{name}: neither the official wheel nor the series has it")
            elif found[name].hash != digest:
                report.deviations.append(f"{name}: is not {what}")
            elif runs not in (None, _runs(wheel, name)):
                report.deviations.append(f"{name}: has other permissions than {what}")
            elif what == _PATCHED:
                report.patched.append(name)
            elif what == _COMPILED and compiled:
                report.modules[name] = compiled.origin(name)
            elif what == _OFFICIAL:
                report.official.append(name)
                if compiled and name.endswith(".so"):
                    report.modules[name] = "the official wheel's"
            else:
                report.made[name] = what
    return found


def _line(wheel: Wheel, name: str) -> record.Line:
    """What RECORD is to say of a file; one that cannot be read has no hash, and is no other file's equal."""
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
