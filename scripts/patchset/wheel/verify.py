# SPDX-License-Identifier: Apache-2.0
"""Official files + series = what is inside a wheel, shown file by file.

Written apart from ``overlay``: it asks what each file is, not whether the builder would make the same.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from patchset import console, fetch, series
from patchset.apply import Change, changes
from patchset.errors import UsageError
from patchset.release import Arch, Artifact, Release, Target, load
from patchset.wheel import metadata, record
from patchset.wheel.archive import Wheel, WheelError
from patchset.wheel.overlay import PROVENANCE, inside_wheel, provenance

_NAME = re.compile(
    r"^(?P<project>vllm)-(?P<version>\d+(?:\.\d+)*)\+mtp\.(?P<revision>\d+)(?P<cpu>\.cpu)?-(?P<tags>.+)\.whl$"
)


@dataclass
class Report:
    """What a wheel was found to hold: names of files by where they come from, and every deviation."""

    wheel: str
    release: str
    target: Target
    official: list[str] = field(default_factory=list)
    patched: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)


def verify(file: Path, *, from_dir: Path | None = None) -> Report:
    """Compare a wheel with the official one and the patched tree of the release that its name says.

    Raises:
        UsageError: its name is not that of a patched wheel.
        WheelError: it is no readable wheel.
    """
    release, target, pinned = identify(file.name)
    official = fetch.artifact(pinned, from_dir=from_dir)
    report = Report(file.name, release.name, target)
    changed = {
        change.path: change for change in changes(release, from_dir=from_dir) if inside_wheel(change.path)
    }
    with console.step(f"verify {file.name}"), Wheel(official) as stock, Wheel(file) as wheel:
        _Comparison(report, release, target, pinned, stock, wheel, changed).run()
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
    if int(match["revision"]) != release.revision:
        raise UsageError(
            f"{name} is of another revision; the pin says {release.revision}", "check that revision out"
        )
    return release, target, release.wheel(target, arch)


@dataclass
class _Comparison:
    report: Report
    release: Release
    target: Target
    pinned: Artifact
    stock: Wheel
    wheel: Wheel
    changed: dict[str, Change]
    digests: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    def run(self) -> None:
        version = self.release.built_version(self.target)
        info = f"vllm-{version}.dist-info"
        if self.wheel.dist_info != info:
            raise WheelError(f"{self.wheel.path.name} has {self.wheel.dist_info}, not {info}")
        unseen = set(self.stock.members)
        for name in self.wheel.members:
            old = self.stock.dist_info + name.removeprefix(info) if name.startswith(info + "/") else name
            unseen.discard(old)
            if name == f"{info}/RECORD":
                continue
            if name == f"{info}/{PROVENANCE}":
                self._made(name, self._provenance("overlay"), self._provenance("precompiled"))
            elif name == f"{info}/METADATA":
                self._made(name, metadata.patched_metadata(self.stock.read(old), version))
            elif name == metadata.VERSION_FILE:
                official = self.stock.read(old)
                self._made(
                    name,
                    metadata.patched_version_file(official, version),
                    metadata.backend_version_file(official, version),
                )
            elif name == f"{info}/WHEEL" and self._digest(self.wheel, name) != self._digest(self.stock, old):
                tag = "-".join(self.report.wheel.removesuffix(".whl").split("-")[-3:])
                self._made(name, metadata.retagged_wheel_file(self.stock.read(old), tag))
            elif name in self.changed:
                self._patched(name, self.changed[name])
            elif old in self.stock.members:
                self._official(name, old)
            else:
                self.report.deviations.append(f"{name}: neither the official wheel nor the series has it")
        for name in sorted(unseen):
            if name in self.changed and self.changed[name].content is None:
                self.report.removed.append(name)
            else:
                self.report.deviations.append(f"{name}: missing; the official wheel has it")
        for name, change in self.changed.items():
            if change.content is not None and name not in self.wheel.members:
                self.report.deviations.append(f"{name}: missing; the series makes it")
        self._record(f"{info}/RECORD")

    def _provenance(self, mode: str) -> bytes:
        patches = series.read(self.release)
        changed = list(self.changed.values())
        return provenance(self.release, self.target, self.pinned, patches, changed, mode=mode)

    def _made(self, name: str, *expected: bytes) -> None:
        """A file that a builder writes: what an overlay has there, or what vLLM's backend puts there."""
        if self.wheel.read(name) in expected:
            self.report.made.append(name)
        else:
            self.report.deviations.append(f"{name}: is not the official one with our version")

    def _patched(self, name: str, change: Change) -> None:
        if self.wheel.read(name) == change.content:
            self.report.patched.append(name)
        else:
            self.report.deviations.append(f"{name}: is not the patched tree's file")

    def _official(self, name: str, old: str) -> None:
        if self._digest(self.wheel, name) == self._digest(self.stock, old):
            self.report.official.append(name)
        else:
            self.report.deviations.append(f"{name}: is not the official wheel's file")

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
            elif member != name and not self._record_line_holds(member, found):
                self.report.deviations.append(f"{member}: RECORD gives another hash or size")
        self.report.deviations += [f"RECORD lists {left}, which is not there" for left in listed]
        if len(self.report.deviations) == before:
            self.report.made.append(name)

    def _record_line_holds(self, member: str, entry: record.Line) -> bool:
        digest, size = self._digest(self.wheel, member)
        return (record.encode(digest), str(size)) == (entry.hash, entry.size)
