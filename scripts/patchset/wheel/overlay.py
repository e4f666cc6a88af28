# SPDX-License-Identifier: Apache-2.0
"""The overlay wheel: the official one, with exactly the files that the series changes replaced."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from patchset import apply, console, fetch, files, series
from patchset.apply import Change
from patchset.errors import PatchsetError
from patchset.release import Arch, Release, Target
from patchset.wheel import archive, metadata, modes, names, provenance, record


@dataclass(frozen=True)
class Entry:
    """A member of the new wheel: copied from the official ``source``, or with new ``content``."""

    name: str
    source: zipfile.ZipInfo | None = None
    content: bytes = b""
    mode: int = 0o644


def build(
    release: Release,
    target: Target = "cuda",
    arch: Arch = "x86_64",
    *,
    from_dir: Path | None = None,
    out_dir: Path | None = None,
) -> Path:
    """Build the overlay wheel and return it: below ``build/wheels``, or in ``out_dir``.

    The same pin and series give the same bytes, wherever and whenever.

    Raises:
        ModeError: a patch changes what an overlay cannot carry.
        PatchsetError: an input cannot be had, or the official wheel is not made of the pinned source.
    """
    official = release.wheel(target, arch)
    modes.check(release, target, series.read(release), "overlay")
    changes = apply.changes(release, from_dir=from_dir)
    source = fetch.artifact(official, from_dir=from_dir)
    place = names.built_file(release, target, arch)
    if out_dir is not None:
        place = out_dir / place.name
    with files.lock(place):
        files.remove_unfinished(place.parent)
        with console.step(f"overlay {official.file}"), archive.opened(source) as opened:
            entries = plan(release, target, arch, opened, official.file, changes)
            write(place, source, opened, entries, release.source_date_epoch)
    return place


def plan(
    release: Release,
    target: Target,
    arch: Arch,
    official: zipfile.ZipFile,
    official_name: str,
    changes: list[Change],
) -> list[Entry]:
    """The members of the new wheel, in order, without RECORD."""
    old_info = names.find_dist_info(official, official_name)
    new_info = names.dist_info(release, target)
    carried = carried_changes(official, official_name, changes)
    tags = names.parse(official_name).tag_lines
    version = release.built_version(target)
    own = {
        f"{old_info}/METADATA": lambda text: metadata.metadata(text, names.DISTRIBUTION, version),
        f"{old_info}/WHEEL": lambda text: metadata.wheel(text, tags),
        metadata.VERSION_MODULE: lambda text: metadata.version_module(text, version),
    }
    if missing := [name for name in own if name not in official.namelist()]:
        raise PatchsetError(f"{official_name} has no {missing[0]}")
    body: list[Entry] = []
    info: list[Entry] = []
    for member in official.infolist():
        path = member.filename
        name = names.renamed(path, old_info, new_info)
        if path == f"{old_info}/RECORD":
            continue
        if path in own:
            entry = Entry(name, content=own[path](official.read(member)))
        elif path in carried:
            change = carried.pop(path)
            if change.content is None:
                continue
            entry = Entry(name, content=change.content, mode=archive.plain_mode(change.mode))
        else:
            entry = Entry(name, source=member)
        (info if path.startswith(f"{old_info}/") else body).append(entry)
    for change in sorted(carried.values(), key=lambda change: change.path):
        if change.content is not None:
            body.append(Entry(change.path, content=change.content, mode=archive.plain_mode(change.mode)))
    told = provenance.render(release, target, arch, "overlay", changes)
    info.append(Entry(f"{new_info}/{metadata.PROVENANCE}", content=told))
    return body + info


def carried_changes(
    official: zipfile.ZipFile, official_name: str, changes: list[Change]
) -> dict[str, Change]:
    """The changes that end up in the wheel, by path; the others are said.

    Raises:
        PatchsetError: the wheel holds another file there than the source that the patch was made for.
    """
    carried = {}
    members = set(official.namelist())
    for change in changes:
        if not modes.in_wheel(change.path):
            console.note(f"  {change.path} is not part of a wheel: left out")
            continue
        if change.path == metadata.VERSION_MODULE:
            raise PatchsetError(f"the series changes {change.path}, which names the version of what is built")
        present = official.read(change.path) if change.path in members else None
        if present != change.stock:
            raise PatchsetError(
                f"{official_name} holds another {change.path} than the source of the release",
                "the patch was made for the source's; this wheel cannot be patched with it",
            )
        carried[change.path] = change
    return carried


def write(place: Path, source: Path, official: zipfile.ZipFile, entries: list[Entry], epoch: int) -> None:
    """Write a wheel of ``entries`` to ``place``, RECORD included."""
    old_info = names.find_dist_info(official, source.name)
    official_rows = record.parse(official.read(f"{old_info}/RECORD"))
    info = entries[-1].name.split("/")[0]
    rows = []
    total = sum(entry.source.compress_size if entry.source else len(entry.content) for entry in entries)
    with (
        files.whole_file(place) as unfinished,
        unfinished.open("wb") as file,
        source.open("rb") as raw,
        console.progress("write the wheel", total) as advance,
    ):
        writer = archive.Writer(file, epoch)
        for entry in entries:
            if entry.source is None:
                writer.store(entry.name, entry.content, entry.mode)
                advance(len(entry.content))
                rows.append(record.row(entry.name, entry.content))
                continue
            if entry.source.filename not in official_rows:
                raise PatchsetError(f"{source.name}: RECORD does not name {entry.source.filename}")
            known = official_rows[entry.source.filename]
            writer.copy(official, raw, entry.source, entry.name, advance)
            rows.append(record.Row(entry.name, known.digest, known.size))
        rows.append(record.Row(f"{info}/RECORD", "", ""))
        writer.store(f"{info}/RECORD", record.text(rows))
        writer.close()
