# SPDX-License-Identifier: Apache-2.0
"""Official files + series = what is inside a wheel, shown file by file.

It asks what each file is, apart from how ``overlay`` makes it; a wheel of which every file is right is then built again
and compared byte for byte, since installers read more of an archive than its files: headers, comments, what stands around.
"""

from __future__ import annotations

import filecmp
import hashlib
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from patchset.base import console, files, paths
from patchset.base.errors import UsageError
from patchset.base.release import Arch, Artifact, Release, Target, load
from patchset.downloads import fetch
from patchset.series.patched_release import PatchedRelease
from patchset.series.replay import Change
from patchset.wheel import archive, compiled_modules, metadata, modes, record
from patchset.wheel.archive import Member, Wheel, WheelError, plain_mode
from patchset.wheel.overlay import PROVENANCE, assemble, provenance, renamed, wheel_name

_NAME = re.compile(
    r"^(?P<project>vllm)-(?P<version>\d+(?:\.\d+)*)\+mtp\.(?P<revision>\d+)(?P<cpu>\.cpu)?-(?P<tags>.+)\.whl$"
)


_OFFICIAL_MODULE = "the official wheel's"
#: Files that are compared as a whole may have this many bytes.
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


def verify(file: Path, *, allow_compiled: bool = False) -> Report:
    """Compare a wheel with the official one and the patched tree of the release that its name says.

    Nobody can compare what its builder compiled or generated: each such file is a deviation unless ``allow_compiled``.
    """
    release, target, pinned = identify(file.name)
    official = fetch.artifact(pinned)
    report = Report(file.name, release.name, target)
    patched = PatchedRelease(release)
    changed = {change.path: change for change in patched.changes if modes.inside_wheel(change.path)}
    with console.step(f"verify {file.name}"), Wheel(official) as stock, Wheel(file) as wheel:
        found = _Comparison(report, patched, target, pinned, stock, wheel, changed)
        found.run()
        if not report.deviations:
            found.rebuild()
    if not allow_compiled:
        report.deviations += [
            f"{name}: {how}; nobody can compare that: --allow-compiled takes it on its builder's word"
            for name, how in report.modules.items()
            if how != _OFFICIAL_MODULE
        ]
    return report


def identify(name: str) -> tuple[Release, Target, Artifact]:
    """The release, target and official wheel of a patched wheel's file name."""
    match = _NAME.match(name)
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


@dataclass
class _Comparison:
    report: Report
    patched: PatchedRelease
    target: Target
    pinned: Artifact
    stock: Wheel
    wheel: Wheel
    changed: dict[str, Change]
    digests: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    compiled: compiled_modules.Notes | None = None

    def run(self) -> None:
        version = self.patched.pin.built_version(self.target)
        info = f"vllm-{version}.dist-info"
        if self.wheel.dist_info != info:
            raise WheelError(f"{self.wheel.path.name} has {self.wheel.dist_info}, not {info}")
        here = {renamed(name, self.stock.dist_info, info): name for name in self.stock.members}
        made = self._made_files(info, version)
        by_builder = self.compiled.files if self.compiled else {}
        with console.progress("files", sum(i.file_size for i in self.wheel.members.values())) as advance:
            for name, member in self.wheel.members.items():
                if name == f"{info}/RECORD":
                    continue
                if name in made:
                    self._made(name, made[name])
                elif name in self.changed:
                    self._patched(name, self.changed[name])
                elif name in by_builder:
                    self._compiled(name, by_builder[name])
                elif name in here:
                    self._official(name, here[name])
                else:
                    self.report.deviations.append(f"{name}: neither the official wheel nor the series has it")
                if member.external_attr >> 16 & 0o7777 != plain_mode(member.external_attr >> 16):
                    self.report.deviations.append(f"{name}: its permissions are neither 644 nor 755")
                advance(member.file_size)
        wanted = {
            *here,
            *made,
            *by_builder,
            *(name for name, change in self.changed.items() if change.content is not None),
        }
        for name in sorted(wanted - set(self.wheel.members)):
            if name in self.changed and self.changed[name].content is None:
                self.report.removed.append(name)
            else:
                origin = "the series makes it" if name in self.changed else "the official wheel has it"
                self.report.deviations.append(f"{name}: missing; {origin}")
        self._record(f"{info}/RECORD")

    def rebuild(self) -> None:
        """Build the wheel again, of what was found in it, and compare every byte."""
        folder = paths.build_dir()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=files.TEMP_PREFIX, suffix=".whl") as again:
            archive.write(Path(again.name), self._members(), self.stock, self.patched.pin.source_date_epoch)
            if not filecmp.cmp(again.name, self.wheel.path, shallow=False):
                self.report.deviations.append(
                    "its files are right, but it is not byte for byte what build-wheel writes: headers, order, "
                    "times, comments or bytes between and behind the files differ"
                )

    def _members(self) -> list[Member]:
        notes = self.wheel.read(f"{self.wheel.dist_info}/{PROVENANCE}")
        compiled = {name: self.wheel.read(name) for name in (self.compiled.files if self.compiled else ())}
        return assemble(self.stock, self.patched, self.target, self.pinned, notes, compiled)

    def _made_files(self, info: str, version: str) -> dict[str, dict[bytes, str]]:
        """The files that a builder writes: what each may hold, and the rule that this follows."""
        old = self.stock.dist_info
        own = metadata.patched_metadata(self.stock.read(f"{old}/METADATA"), version)
        module = metadata.patched_version_file(self.stock.read(metadata.VERSION_FILE), version)
        wheel = metadata.retagged_wheel_file(self.stock.read(f"{old}/WHEEL"), self.pinned.file)
        made = {
            f"{info}/METADATA": {own: "the official one with our version"},
            f"{info}/WHEEL": {wheel: "the official one with the tags of the file's name"},
            metadata.VERSION_FILE: {module: "the official one with our version"},
            f"{info}/{PROVENANCE}": {
                self._provenance("overlay"): "says what pin and series say, mode overlay"
            },
        }
        found = self._content(f"{info}/{PROVENANCE}") or b""
        self.compiled = compiled_modules.read(found)
        if self.compiled:
            rest = compiled_modules.official(self.stock.members, self.compiled.files)
            source = self._provenance("source", self.compiled.words | {"official": rest})
            made[f"{info}/{PROVENANCE}"] = {source: "says what pin and series say, mode source"}
        return made

    def _provenance(self, mode: str, words: object = None) -> bytes:
        return provenance(self.patched, self.target, self.pinned, mode=mode, compiled=words)

    def _content(self, name: str) -> bytes | None:
        """A small member's content, or None when it cannot be read."""
        if name not in self.wheel.members or self.wheel.members[name].file_size > _SMALL:
            return None
        try:
            return self.wheel.read(name)
        except WheelError:
            return None

    def _made(self, name: str, allowed: dict[bytes, str]) -> None:
        rule = allowed.get(self._content(name) or b"")
        if rule is not None:
            self.report.made[name] = rule
        else:
            self.report.deviations.append(f"{name}: is not {next(iter(allowed.values()))}")

    def _patched(self, name: str, change: Change) -> None:
        if change.content is None:
            self.report.deviations.append(f"{name}: is there, though the series removes it")
        elif self._content(name) != change.content:
            self.report.deviations.append(f"{name}: is not the patched tree's file")
        elif _runs(self.wheel, name) != bool(change.mode & 0o100):
            self.report.deviations.append(f"{name}: has other permissions than the patched tree's file")
        else:
            self.report.patched.append(name)

    def _compiled(self, name: str, sha256: str) -> None:
        """A file that the wheel says its builder compiled: what nobody can compare, but whose sum it must have."""
        assert self.compiled is not None  # noqa: S101 - it names the file
        if self._digest(self.wheel, name)[0].hex() != sha256:
            self.report.deviations.append(f"{name}: is not the file that the wheel says was compiled")
        else:
            self.report.modules[name] = self.compiled.origin(name)

    def _official(self, name: str, old: str) -> None:
        if not self._same(name, old):
            self.report.deviations.append(f"{name}: is not the official wheel's file")
        elif _runs(self.wheel, name) != _runs(self.stock, old):
            self.report.deviations.append(f"{name}: has other permissions than the official wheel's file")
        else:
            self.report.official.append(name)
            if self.compiled and name.endswith(".so"):
                self.report.modules[name] = _OFFICIAL_MODULE

    def _same(self, name: str, old: str) -> bool:
        """Whether a file is the official one: equal as they are compressed, or else equal unpacked."""
        here, there = self.wheel.members[name], self.stock.members[old]
        if here.file_size != there.file_size or self._digest(self.wheel, name)[1] != there.file_size:
            return False
        if (here.compress_type, here.compress_size) == (there.compress_type, there.compress_size) and all(
            ours == theirs for ours, theirs in zip(self.wheel.raw(here), self.stock.raw(there), strict=True)
        ):
            return True
        return self._digest(self.wheel, name) == self._digest(self.stock, old)

    def _digest(self, wheel: Wheel, name: str) -> tuple[bytes, int]:
        """A member's sha256 and size; what cannot be read has neither, and is no other file's equal."""
        if wheel is self.wheel and name in self.digests:
            return self.digests[name]
        digest, size = hashlib.sha256(), 0
        try:
            for piece in wheel.pieces(name):
                digest.update(piece)
                size += len(piece)
        except WheelError as error:
            digest.update(error.message.encode())
            size = -1
        if wheel is self.wheel:
            self.digests[name] = digest.digest(), size
        return digest.digest(), size

    def _record(self, name: str) -> None:
        """RECORD lists every file once, with the hash and size that it has."""
        before = len(self.report.deviations)
        listed = {}
        for entry in record.parse(self.wheel.read(name)):
            if entry.name in listed:
                self.report.deviations.append(f"RECORD lists {entry.name} twice")
            listed[entry.name] = entry
        for member in self.wheel.members:
            found = listed.pop(member, None)
            if found is None:
                self.report.deviations.append(f"RECORD does not list {member}")
            elif member == name and (found.hash, found.size) != ("", ""):
                self.report.deviations.append(f"{name}: gives a hash of itself")
            elif member != name and not self._record_line_holds(member, found):
                self.report.deviations.append(f"{member}: RECORD gives another hash or size")
        self.report.deviations += [f"RECORD lists {left}, which is not there" for left in listed]
        if len(self.report.deviations) == before:
            self.report.made[name] = "names every file with its hash and size"

    def _record_line_holds(self, member: str, entry: record.Line) -> bool:
        digest, size = self._digest(self.wheel, member)
        return (record.encode(digest), str(size)) == (entry.hash, entry.size)


def _runs(wheel: Wheel, name: str) -> bool:
    return bool(wheel.members[name].external_attr >> 16 & 0o100)
