# SPDX-License-Identifier: Apache-2.0
"""The overlay wheel: the official one with exactly the files that the series changes put in their place.

No compiler, no torch, and byte for byte the same whoever builds it, where and when.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchset import console, files, paths
from patchset.downloads import fetch
from patchset.errors import PatchsetError
from patchset.release import Arch, Artifact, Release, Target
from patchset.series.native import native_reason
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import archive, metadata, modes, record
from patchset.wheel.archive import Member, Wheel, WheelError
from patchset.wheel.compiled_modules import Compiled
from patchset.wheel.modes import inside_wheel as inside_wheel

#: Inside ``.dist-info``: what the wheel was made of, for ``verify`` and ``doctor``.
PROVENANCE = "patchset.json"


def build(patched: PatchedRelease, target: Target, arch: Arch, *, out: Path | None = None) -> Path:
    """Build the overlay wheel, ``build/wheels/<release>/<target>/vllm-<version>+mtp.<n>-<tags>.whl``."""
    modes.check(patched, target, "overlay")
    pinned = patched.pin.wheel(target, arch)
    official = fetch.artifact(pinned)
    _ = patched.changes  # the patched tree is made before the wheel's place is locked
    folder = out or paths.wheels_dir() / patched.pin.name / target
    with Wheel(official) as stock:
        return write(folder, stock, patched, target, pinned)


def write(
    folder: Path,
    stock: Wheel,
    patched: PatchedRelease,
    target: Target,
    pinned: Artifact,
    compiled: Compiled | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a wheel into a folder; of mode source ``compiled`` says what its ``contents`` are."""
    place = folder / wheel_name(patched.pin, target, pinned)
    with console.step(f"write {place.name}"), files.lock(place):
        files.remove_temp(place.parent, place.name)
        members = assemble(stock, patched, target, pinned, compiled, contents)
        with files.atomic_file(place) as temp:
            archive.write(temp, members, stock, patched.pin.source_date_epoch)
    return place


def wheel_name(release: Release, target: Target, official: Artifact) -> str:
    """The name of a patched wheel: the official one's tags behind our name and version (PEP 427)."""
    tags = "-".join(official.file.removesuffix(".whl").split("-")[-3:])
    return f"vllm-{release.built_version(target)}-{tags}.whl"


def assemble(
    stock: Wheel,
    patched: PatchedRelease,
    target: Target,
    pinned: Artifact,
    compiled: Compiled | None = None,
    contents: Mapping[str, bytes] | None = None,
) -> list[Member]:
    """The members of a patched wheel: the official one's with the series' files and the compiled ``contents`` put in."""
    version = patched.pin.built_version(target)
    old_info, new_info = stock.dist_info, f"vllm-{version}.dist-info"
    new: dict[str, bytes | None] = dict(contents or {})
    for change in patched.changes:
        path = change.path
        if not inside_wheel(path):
            if compiled is None or native_reason(path) is None:
                console.note(f"  {path} is not part of a wheel; left out")
            continue
        if path == metadata.VERSION_FILE:
            raise PatchsetError(f"the series changes {path}, where the version of what is built stands")
        # The patch was made for the source's file; the wheel must have that same file.
        found = stock.read(path) if path in stock.members else None
        if found != change.stock:
            what = "has no such file" if found is None else "has another"
            raise PatchsetError(
                f"{pinned.file} {what} where the source has {path}",
                "the official wheel was not built from this source; verify the pin",
            )
        new[path] = change.content
    new[metadata.VERSION_FILE] = metadata.patched_version_file(stock.read(metadata.VERSION_FILE), version)
    new[f"{old_info}/METADATA"] = metadata.patched_metadata(stock.read(f"{old_info}/METADATA"), version)
    new[f"{old_info}/WHEEL"] = metadata.retagged_wheel_file(stock.read(f"{old_info}/WHEEL"), pinned.file)
    permissions = {change.path: change.mode for change in patched.changes}
    old_record = {entry.name: entry for entry in record.parse(stock.read(f"{old_info}/RECORD"))}
    members: list[Member] = []
    lines: list[record.Line] = []

    def put(name: str, mode: int, content: bytes) -> None:
        members.append(Member(name, mode, content))
        lines.append(record.line(name, content))

    for name, info in stock.members.items():
        here, mode = renamed(name, old_info, new_info), info.external_attr >> 16 & 0o777
        if name == f"{old_info}/RECORD":
            continue
        if name not in new:
            if name not in old_record:
                raise WheelError(f"{stock.path.name}: RECORD does not list {name}")
            members.append(Member(here, mode, source=info))
            lines.append(old_record[name]._replace(name=here))
        elif (content := new[name]) is not None:
            put(here, permissions.get(name, mode), content)
    for name, content in sorted(new.items()):
        if content is not None and name not in stock.members:
            put(name, permissions.get(name, 0o755 if name.endswith(".so") else 0o644), content)
    put(f"{new_info}/{PROVENANCE}", 0o644, provenance(patched, target, pinned, compiled))
    lines.append(record.Line(f"{new_info}/RECORD", "", ""))
    members.append(Member(f"{new_info}/RECORD", 0o644, record.render(lines)))
    return members


def renamed(name: str, old_info: str, new_info: str) -> str:
    """Where a member of the official wheel stands in ours: the two folders that carry a version move (PEP 427)."""
    top, slash, rest = name.partition("/")
    old, new = old_info.removesuffix(".dist-info"), new_info.removesuffix(".dist-info")
    return new + top.removeprefix(old) + slash + rest if top in (old_info, f"{old}.data") else name


def provenance(
    patched: PatchedRelease, target: Target, pinned: Artifact, compiled: Compiled | None = None
) -> bytes:
    """What the wheel was made of, as JSON; ``compiled`` says of mode source what was compiled, and how."""
    changes = [change for change in patched.changes if inside_wheel(change.path)]
    made: dict[str, object] = {
        "mode": "source" if compiled else "overlay",
        "release": patched.pin.name,
        "target": target,
        "version": patched.pin.built_version(target),
        "official-wheel": {"file": pinned.file, "sha256": pinned.sha256},
        "series-sha256": patched.digest,
        "patches": [
            {
                "name": patch.name,
                "subject": patch.subject,
                "sha256": sha256(patch.file.read_bytes()),
                "files": sorted(filter(inside_wheel, patch.paths)),
            }
            for patch in patched.patches
        ],
        "files": {
            change.path: {"stock": sha256(change.stock), "patched": sha256(change.content)}
            for change in changes
        },
    }
    if compiled:
        made["compiled"] = compiled.model_dump(by_alias=True)
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def changed_files(wheel: Wheel) -> dict[str, Any]:
    """What a patched wheel says that the series changed in it: path to the sha256 of ``stock`` and ``patched``."""
    found: dict[str, Any] = json.loads(wheel.read(f"{wheel.dist_info}/{PROVENANCE}"))["files"]
    return found


def sha256(content: bytes | None) -> str | None:
    """In hex; None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()
