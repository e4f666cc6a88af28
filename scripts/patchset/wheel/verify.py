# SPDX-License-Identifier: Apache-2.0
"""Proof that a wheel is the official one plus the series, file by file.

Nothing here trusts what the wheel says of itself, nor the code that builds wheels: the official wheel
(by sha256) and the patched tree are read, and every member is held against them.
"""

from __future__ import annotations

import ast
import hashlib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path

from patchset import apply, console, fetch
from patchset.apply import Change
from patchset.errors import PatchsetError, UsageError
from patchset.release import Arch, Release, Target, load, releases
from patchset.wheel import archive, metadata, modes, names, provenance, record

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Subject:
    """What a wheel is held against."""

    release: Release
    target: Target
    arch: Arch
    mode: str


@dataclass
class Report:
    """What came out: how many members are ``explained`` by which rule, and what is wrong with which."""

    file: Path
    subject: Subject
    explained: Counter[str] = field(default_factory=Counter)
    patched: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)

    def blame(self, member: str, reason: str) -> None:
        """Note what is wrong with a member; the first reason stays."""
        self.wrong.setdefault(member, reason)


def identify(
    file: Path, release: str | None = None, target: Target | None = None, arch: Arch | None = None
) -> Subject:
    """Which release, target, architecture and mode a wheel is to be held against.

    What is not said is taken from its ``patchset.json``, else from its name.

    Raises:
        UsageError: it cannot be told.
    """
    name = names.parse(file.name)
    claim = _claim(file)
    if release is None:
        release = claim.release if claim else _release_of(name.version)
    pin = load(release)
    if target is None:
        told = claim.target if claim else "cpu" if name.version.endswith(".cpu") else "cuda"
        target = next((known for known in pin.wheels if known == told), None)
    if arch is None:
        told = claim.arch if claim else name.tags
        arch = next((known for known in ("x86_64", "aarch64") if told.endswith(known)), None)
    if target is None or arch is None:
        raise UsageError(
            f"{file.name} does not say what it was built for", "say it: --release, --target, --arch"
        )
    return Subject(pin, target, arch, claim.mode if claim else "overlay")


def wheel(file: Path, subject: Subject, *, from_dir: Path | None = None) -> Report:
    """Hold every member of a wheel against the official wheel and the patched tree.

    Raises:
        ArchiveError: it is no readable wheel at all.
        PatchsetError: the inputs cannot be had.
    """
    release = subject.release
    official_file = fetch.artifact(release.wheel(subject.target, subject.arch), from_dir=from_dir)
    changes = {change.path: change for change in apply.changes(release, from_dir=from_dir)}
    report = Report(file, subject)
    expected = names.built_name(release, subject.target, subject.arch)
    if file.name != expected:
        report.blame(file.name, f"the file is called so, not {expected}")
    with ExitStack() as stack:
        built = _Half(file, stack)
        official = _Half(official_file, stack)
        _compare(built, official, changes, report)
    return report


class _Half:
    """One of the two wheels: the archive, its raw bytes, and its metadata folder."""

    def __init__(self, file: Path, stack: ExitStack) -> None:
        self.file = file
        self.archive = stack.enter_context(archive.opened(file))
        self.raw = stack.enter_context(file.open("rb"))
        self.info = names.find_dist_info(self.archive, file.name)
        self.members = {member.filename: member for member in self.archive.infolist()}

    def pieces(self, name: str) -> Iterator[bytes]:
        """A member's content. zipfile checks its CRC at the end."""
        with self.archive.open(name) as file:
            while piece := file.read(_CHUNK):
                yield piece

    def read(self, name: str) -> bytes:
        """A small member's content."""
        if self.members[name].file_size > 64 << 20:
            raise archive.ArchiveError(f"{self.file.name}: {name} is too large for what it is")
        return self.archive.read(name)

    def packed(self, name: str) -> Iterator[bytes]:
        """A member as it is compressed."""
        return archive.raw_pieces(self.archive, self.raw, self.members[name])


def _compare(built: _Half, official: _Half, changes: dict[str, Change], report: Report) -> None:
    subject = report.subject
    info = names.dist_info(subject.release, subject.target)
    if built.info != info:
        report.blame(built.info, f"the metadata folder is called so, not {info}")
    there = {names.renamed(name, official.info, built.info): name for name in official.members}
    rules = _rules(built, official, changes, report)
    rows = _rows(built, report)
    wanted = set(there) | set(rules) | {p for p, c in changes.items() if modes.in_wheel(p)}
    gone = {path for path, change in changes.items() if change.content is None}
    for name in sorted((wanted - gone) - set(built.members)):
        report.blame(name, "is missing")
    with console.progress(
        f"verify {built.file.name}", sum(member.file_size for member in built.members.values())
    ) as advance:
        for name, member in built.members.items():
            digest = _check_content(built, official, name, there.get(name), changes, rules, report)
            _check_row(built, name, digest, rows, report)
            if (member.external_attr >> 28) not in (0, 0o10) or archive.plain_mode(
                member.external_attr >> 16
            ) != (member.external_attr >> 16 & 0o777):
                report.blame(name, f"has the mode {member.external_attr >> 16:o}, not 644 or 755")
            advance(member.file_size)
    for name in sorted(set(rows) - set(built.members)):
        report.blame(name, "stands in RECORD and is missing")


def _check_content(
    built: _Half,
    official: _Half,
    name: str,
    original: str | None,
    changes: dict[str, Change],
    rules: dict[str, Callable[[bytes], str | None]],
    report: Report,
) -> bytes | None:
    """Explain one member or blame it; its sha256."""
    try:
        digest = _digest(built.pieces(name))
        if name in rules:
            reason = rules[name](built.read(name))
            if reason is None:
                report.explained["metadata and version"] += 1
            else:
                report.blame(name, reason)
        elif name in changes:
            content = changes[name].content
            if content is None:
                report.blame(name, "is there, though the series deletes it")
            elif digest != hashlib.sha256(content).digest():
                report.blame(name, "is not the patched tree's file")
            elif archive.plain_mode(built.members[name].external_attr >> 16) != archive.plain_mode(
                changes[name].mode
            ):
                report.blame(name, "has another mode than in the patched tree")
            else:
                report.explained["patched"] += 1
                report.patched.append(name)
        elif original is None:
            report.blame(name, "is in neither the official wheel nor the series")
        elif not _same(built, name, official, original, digest):
            report.blame(name, "is not the official wheel's file, and the series does not change it")
        else:
            report.explained["identical to the official wheel"] += 1
    except (zipfile.BadZipFile, archive.ArchiveError, EOFError, OSError, ArithmeticError) as error:
        report.blame(name, f"cannot be read: {error}")
        return None
    except Exception as error:  # zlib.error has no public base below Exception
        if type(error).__module__ != "zlib":
            raise
        report.blame(name, f"cannot be read: {error}")
        return None
    return digest


def _same(built: _Half, name: str, official: _Half, original: str, digest: bytes) -> bool:
    """Whether a member is the official one. Equal compressed bytes are equal content; else both are unpacked."""
    here, there = built.members[name], official.members[original]
    if here.file_size != there.file_size or archive.plain_mode(
        here.external_attr >> 16
    ) != archive.plain_mode(there.external_attr >> 16):
        return False
    if (here.compress_type, here.compress_size) == (there.compress_type, there.compress_size) and _digest(
        built.packed(name)
    ) == _digest(official.packed(original)):
        return True
    return _digest(official.pieces(original)) == digest


def _rows(built: _Half, report: Report) -> dict[str, record.Row]:
    name = f"{built.info}/RECORD"
    if name not in built.members:
        report.blame(name, "is missing")
        return {}
    try:
        return record.parse(built.read(name))
    except (PatchsetError, zipfile.BadZipFile) as error:
        report.blame(name, str(error))
        return {}


def _check_row(
    built: _Half, name: str, digest: bytes | None, rows: dict[str, record.Row], report: Report
) -> None:
    if digest is None:
        return
    if name == f"{built.info}/RECORD":
        wanted = record.Row(name, "", "")
    else:
        wanted = record.Row(name, record.encode(digest), str(built.members[name].file_size))
    if name not in rows:
        report.blame(name, "does not stand in RECORD")
    elif rows[name] != wanted:
        report.blame(name, "does not have the hash and size that RECORD says")


def _rules(
    built: _Half, official: _Half, changes: dict[str, Change], report: Report
) -> dict[str, Callable[[bytes], str | None]]:
    """The members that are made and not copied, each with a function that finds its fault (None: as it should be)."""
    subject = report.subject
    release = subject.release
    version = release.built_version(subject.target)
    tags = names.parse(release.wheel(subject.target, subject.arch).file).tag_lines
    told = provenance.render(
        release, subject.target, subject.arch, subject.mode, [changes[path] for path in sorted(changes)]
    )
    stock = official.read(f"{official.info}/METADATA")
    stock_wheel = official.read(f"{official.info}/WHEEL")
    stock_module = official.read(metadata.VERSION_MODULE)
    return {
        f"{built.info}/METADATA": lambda content: _metadata_fault(content, stock, version),
        f"{built.info}/WHEEL": lambda content: _wheel_fault(content, stock_wheel, tags),
        f"{built.info}/RECORD": lambda content: None,  # held against every member, row by row
        f"{built.info}/{metadata.PROVENANCE}": lambda content: (
            None if content == told else "does not say what pin and series say"
        ),
        metadata.VERSION_MODULE: lambda content: _module_fault(content, stock_module, version),
    }


def _metadata_fault(content: bytes, stock: bytes, version: str) -> str | None:
    """METADATA may differ from the official one in ``Name`` and ``Version`` only."""
    parser = BytesParser(policy=compat32)
    here, there = parser.parsebytes(content), parser.parsebytes(stock)
    if here.get_all("Name") != [names.DISTRIBUTION] or here.get_all("Version") != [version]:
        return f"does not name {names.DISTRIBUTION} {version}"

    def rest(message: object) -> list[tuple[str, str]]:
        items = message.items()  # type: ignore[attr-defined]
        return [(key, str(value)) for key, value in items if key not in ("Name", "Version")]

    if rest(here) != rest(there):
        new = [f"{key}: {value}" for key, value in rest(here) if (key, value) not in rest(there)]
        lost = [f"{key}: {value}" for key, value in rest(there) if (key, value) not in rest(here)]
        what = [f"has {line}" for line in new[:3]] + [f"lacks {line}" for line in lost[:3]]
        return "differs from the official one: " + ("; ".join(what) or "in the order of its fields")
    if here.get_payload() != there.get_payload():
        return "has another description than the official one"
    return None


def _wheel_fault(content: bytes, stock: bytes, tags: list[str]) -> str | None:
    """WHEEL may differ from the official one in its tags only, which are those of the official file's name."""
    here, there = content.decode(errors="replace").split("\n"), stock.decode(errors="replace").split("\n")
    if [line.removeprefix("Tag: ") for line in here if line.startswith("Tag:")] != tags:
        return f"does not have the tags {', '.join(tags)}"
    kept = [line for line in here if line and not line.startswith("Tag:")]
    if kept != [line for line in there if line and not line.startswith("Tag:")]:
        return "differs from the official one in more than its tags"
    return None


def _module_fault(content: bytes, stock: bytes, version: str) -> str | None:
    """``_version.py`` may differ from the official one in the two assignments of the version only."""
    try:
        here, there = _assignments(content), _assignments(stock)
    except (SyntaxError, ValueError) as error:
        return f"cannot be read: {error}"
    wanted = dict(there)
    wanted["__version__ = version"] = repr(version)
    wanted["__version_tuple__ = version_tuple"] = repr(metadata.version_tuple(version))
    if here != wanted:
        return f"does not name {version}, or says more than the official one"
    return None


def _assignments(source: bytes) -> dict[str, str]:
    """A module as its statements, assignments by their left side."""
    found: dict[str, str] = {}
    for number, statement in enumerate(ast.parse(source).body):
        if isinstance(statement, ast.Assign):
            found[" = ".join(map(ast.unparse, statement.targets))] = ast.unparse(statement.value)
        else:
            found[f"{number}"] = ast.unparse(statement)
    return found


def _digest(pieces: Iterator[bytes]) -> bytes:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _claim(file: Path) -> provenance.Claim | None:
    with archive.opened(file) as opened:
        name = f"{names.find_dist_info(opened, file.name)}/{metadata.PROVENANCE}"
        if name not in opened.namelist() or opened.getinfo(name).file_size > provenance.MAX_BYTES:
            return None
        try:
            return provenance.read(opened.read(name))
        except PatchsetError as error:
            console.note(f"{error.message}; going by the name of the file")
            return None


def _release_of(version: str) -> str:
    for release in releases():
        if version.split("+")[0] == release.version:
            return release.name
    raise UsageError(f"no pinned release has the version {version}", "say it: --release RELEASE")
