# SPDX-License-Identifier: Apache-2.0
"""The overlay wheel: the official one with exactly the files that the series changes put in their place.

No compiler, no torch, and byte for byte the same whoever builds it, where and when.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from patchset import console, fetch, files, paths, series
from patchset.apply import Change, changes
from patchset.errors import PatchsetError
from patchset.native import native_reason
from patchset.patch import Patch
from patchset.release import Arch, Artifact, Release, Target
from patchset.wheel import archive, metadata, record
from patchset.wheel.archive import Member, Wheel, WheelError

#: Inside ``.dist-info``: what the wheel was made of, for ``verify`` and ``doctor``.
PROVENANCE = "patchset.json"


def build(
    release: Release, target: Target, arch: Arch, *, from_dir: Path | None = None, out: Path | None = None
) -> Path:
    """Build the overlay wheel, ``build/wheels/<release>/<target>/vllm-<version>+mtp.<n>-<tags>.whl``.

    Raises:
        PatchsetError: a patch changes what only a compiler can, or the official wheel's file is not the source's.
    """
    patches = series.read(release)
    refuse_native(patches, "overlay")
    pinned = release.wheel(target, arch)
    official = fetch.artifact(pinned, from_dir=from_dir)
    changed = changes(release, from_dir=from_dir)
    place = (out or paths.wheels_dir() / release.name / target) / wheel_name(release, target, pinned)
    with (
        console.step(f"write {place.name}"),
        files.lock(place),
        Wheel(official) as stock,
        files.whole_file(place) as unfinished,
    ):
        members = _members(stock, release, target, pinned, patches, changed)
        archive.write(unfinished, members, stock, release.source_date_epoch)
    return place


def wheel_name(release: Release, target: Target, official: Artifact) -> str:
    """The name of a patched wheel: the official one's tags behind our name and version (PEP 427)."""
    tags = "-".join(official.file.removesuffix(".whl").split("-")[-3:])
    return f"vllm-{release.built_version(target)}-{tags}.whl"


def refuse_native(patches: list[Patch], mode: str) -> None:
    """Refuse a series with a patch whose change this mode cannot bring into a wheel.

    Raises:
        PatchsetError: naming the patch, the path and the mode that can.
    """
    for patch in patches:
        for path in patch.paths:
            if reason := native_reason(path):
                raise PatchsetError(
                    f"{patch.name} changes {path}, and {reason}: an {mode} wheel keeps the official binaries",
                    "such a patch needs a wheel compiled from the patched tree: --mode source",
                )


def inside_wheel(path: str) -> bool:
    """Whether a file of the tree belongs into a wheel; tests, docs and the like do not."""
    return path.startswith("vllm/")


def _members(
    stock: Wheel,
    release: Release,
    target: Target,
    pinned: Artifact,
    patches: list[Patch],
    changed: list[Change],
) -> list[Member]:
    version = release.built_version(target)
    old_info, new_info = stock.dist_info, f"vllm-{version}.dist-info"
    new: dict[str, bytes | None] = {}
    for change in changed:
        if not inside_wheel(change.path):
            console.note(f"  {change.path} is no part of a wheel; left out")
            continue
        _check_stock(stock, change, pinned)
        new[change.path] = change.content
    new[metadata.VERSION_FILE] = metadata.patched_version_file(stock.read(metadata.VERSION_FILE), version)
    new[f"{old_info}/METADATA"] = metadata.patched_metadata(stock.read(f"{old_info}/METADATA"), version)
    modes = {change.path: change.mode for change in changed}

    def rename(name: str) -> str:
        return new_info + name.removeprefix(old_info) if name.startswith(old_info + "/") else name

    old_record = {entry.name: entry for entry in record.parse(stock.read(f"{old_info}/RECORD"))}
    members: list[Member] = []
    lines: list[record.Line] = []

    def put(name: str, mode: int, content: bytes) -> None:
        members.append(Member(name, mode, content))
        lines.append(record.line(name, content))

    for name, info in stock.members.items():
        mode = info.external_attr >> 16 & 0o777
        if name == f"{old_info}/RECORD":
            continue
        if name not in new:
            members.append(Member(rename(name), mode, source=info))
            entry = old_record.get(name)
            if entry is None:
                raise WheelError(f"{stock.path.name}: RECORD does not list {name}")
            lines.append(record.Line(rename(name), entry.hash, entry.size))
        elif (content := new[name]) is not None:
            put(rename(name), modes.get(name, mode), content)
    for name, content in sorted(new.items()):
        if content is not None and name not in stock.members:
            put(name, modes[name], content)
    put(f"{new_info}/{PROVENANCE}", 0o644, provenance(release, target, pinned, patches, changed))
    lines.append(record.Line(f"{new_info}/RECORD", "", ""))
    members.append(Member(f"{new_info}/RECORD", 0o644, record.render(lines)))
    return members


def _check_stock(stock: Wheel, change: Change, pinned: Artifact) -> None:
    """The patch was made for the source's file; the wheel must have that same file."""
    found = stock.read(change.path) if change.path in stock.members else None
    if found != change.stock:
        what = "has no such file" if found is None else "has another"
        raise PatchsetError(
            f"{pinned.file} {what} where the source has {change.path}",
            "the official wheel was not built from this source; verify the pin",
        )


def provenance(
    release: Release,
    target: Target,
    pinned: Artifact,
    patches: list[Patch],
    changed: list[Change],
    *,
    mode: str = "overlay",
) -> bytes:
    """What the wheel was made of, as JSON."""
    made = {
        "mode": mode,
        "release": release.name,
        "target": target,
        "version": release.built_version(target),
        "official-wheel": {"file": pinned.file, "sha256": pinned.sha256},
        "series-sha256": series.sha256(release),
        "patches": [
            {"name": p.name, "subject": p.subject, "sha256": _sha256(p.file.read_bytes())} for p in patches
        ],
        "files": {
            change.path: {"stock": _sha256(change.stock), "patched": _sha256(change.content)}
            for change in changed
            if inside_wheel(change.path)
        },
    }
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def _sha256(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()
