# SPDX-License-Identifier: Apache-2.0
"""The patched wheel: the official one, with the files that the series changes.

Without compiled modules it needs no compiler, and its bytes are the same whoever builds
it, where and when.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from patchset import console, files, paths
from patchset.errors import PatchsetError
from patchset.inputs import fetch
from patchset.release import Arch, Artifact
from patchset.series.apply import PatchedRelease
from patchset.wheel import archive, metadata, record
from patchset.wheel.archive import Member, Wheel, WheelError

Mode = Literal["overlay", "source"]

#: What no wheel made here can carry: requirements, which are metadata, crates and
#: binaries, which are the official wheel's.
_NEVER = re.compile(
    r"requirements/(common|cuda|cpu)\.txt|pyproject\.toml|rust/.*|tools/build_rust\.py|"
    r"rust-toolchain\.toml|build_rust\.sh|.*\.(rs|so)"
)
#: What is compiled, vendored, or steers the build.
_COMPILED = re.compile(
    r"(csrc|cmake|vllm/third_party|vllm/vllm_flash_attn)/.*|CMakeLists\.txt|setup\.py|"
    r".*\.(c|cc|cpp|cu|cuh|h|hpp|cmake)"
)

#: Inside ``.dist-info``: what the wheel was made of, for ``doctor``.
PROVENANCE = "patchset.json"


def build(patched: PatchedRelease, arch: Arch) -> Path:
    """Build the wheel without compiling, in ``build/wheels/<release>/<target>``."""
    check_series(patched, "overlay")
    pinned = patched.wheel(arch)
    official = fetch.artifact(pinned)
    folder = paths.build_dir() / "wheels" / patched.pin.name / patched.target
    with Wheel(official) as stock:
        return write(folder, stock, patched, pinned)


def write(
    folder: Path,
    stock: Wheel,
    patched: PatchedRelease,
    pinned: Artifact,
    compiled: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a patched wheel into a folder, with ``compiled`` modules by their names."""
    # Our name and version before the official wheel's tags (PEP 427).
    tags = "-".join(pinned.file.split("-")[-3:])
    place = folder / f"vllm-{patched.version}-{tags}"
    with console.step(f"write {place.name}"), files.lock(place):
        members = assemble(stock, patched, pinned, compiled or {})
        with files.atomic_file(place) as temp:
            archive.write(temp, members, stock, patched.pin.source_date_epoch)
        files.remove_others(place, f"vllm-*-{tags}")
    return place


def check_series(patched: PatchedRelease, mode: Mode) -> None:
    """Refuse a series with a change that a wheel of this mode cannot carry."""
    for patch in patched.patches:
        for path in patch.paths:
            if _NEVER.fullmatch(path):
                hint = "build vLLM from the patched tree with its own Dockerfile"
            elif mode == "overlay" and _COMPILED.fullmatch(path):
                hint = f"nox -s build-wheel -- {patched.pin.name} --mode source"
            else:
                continue
            what = f"which a wheel of mode {mode} cannot carry"
            raise PatchsetError(f"{patch.name} changes {path}, {what}", hint)


def inside_wheel(path: str) -> bool:
    """Tell if a file of the tree belongs into a wheel; tests and docs do not."""
    return path.startswith("vllm/")


def assemble(
    stock: Wheel,
    patched: PatchedRelease,
    pinned: Artifact,
    compiled: Mapping[str, bytes],
) -> list[Member]:
    """Return a patched wheel's members, the official wheel's in its order first."""
    info, version = stock.dist_info, patched.version
    old, new = info.removesuffix(".dist-info"), f"vllm-{version}"
    module, notes, tags = metadata.VERSION_FILE, f"{info}/METADATA", f"{info}/WHEEL"
    # Without content: left out, or made at the end.
    contents: dict[str, bytes | None] = {
        **compiled,
        **_changed(stock, patched, pinned),
        module: metadata.patched_version_file(stock.read(module), version),
        notes: metadata.patched_metadata(stock.read(notes), version),
        tags: metadata.retagged_wheel_file(stock.read(tags), pinned.file),
        f"{info}/{PROVENANCE}": None,
        f"{info}/RECORD": None,
    }
    modes = {change.path: change.mode for change in patched.changes}
    listed = {line.name: line for line in record.parse(stock.read(f"{info}/RECORD"))}
    members: list[Member] = []
    lines: list[record.Line] = []

    def put(name: str, mode: int, content: bytes) -> None:
        members.append(Member(name, mode, content))
        lines.append(record.line(name, content))

    for name in [*stock.members, *sorted(contents.keys() - stock.members.keys())]:
        here = name
        if name.startswith((f"{info}/", f"{old}.data/")):
            here = new + name.removeprefix(old)
        mode = stock.mode(name) if name in stock.members else 0o644
        if name in contents:
            if (content := contents[name]) is not None:
                put(here, modes.get(name, mode), content)
        elif name in listed:
            members.append(Member(here, mode, source=stock.members[name]))
            lines.append(listed[name]._replace(name=here))
        else:
            raise WheelError(f"{stock.path.name}: RECORD does not list {name}")
    made = _provenance(patched, pinned, compiled)
    put(f"{new}.dist-info/{PROVENANCE}", 0o644, made)
    lines.append(record.Line(f"{new}.dist-info/RECORD", "", ""))
    members.append(Member(f"{new}.dist-info/RECORD", 0o644, record.render(lines)))
    return members


def _changed(
    stock: Wheel, patched: PatchedRelease, pinned: Artifact
) -> dict[str, bytes | None]:
    """Return the series' files that belong into a wheel; None for a deleted one."""
    found = {}
    for change in patched.changes:
        path = change.path
        if not inside_wheel(path):
            if not _COMPILED.fullmatch(path):
                console.note(f"  {path} is not part of a wheel; left out")
            continue
        if path == metadata.VERSION_FILE:
            raise PatchsetError(
                f"the series changes {path}, which holds our version",
                "take the change out of the patch",
            )
        # The patch was made for the source's file; the wheel must have that same file.
        there = stock.read(path) if path in stock.members else None
        if there != change.stock:
            what = "has no such file" if there is None else "has another"
            raise PatchsetError(
                f"{pinned.file} {what} where the source has {path}",
                "the official wheel was not built from this source; check the pin",
            )
        found[path] = change.content
    return found


def _provenance(
    patched: PatchedRelease,
    pinned: Artifact,
    compiled: Mapping[str, bytes],
) -> bytes:
    """Return the wheel's origins as JSON, with the sha256 of ``compiled`` modules."""
    changes = [change for change in patched.changes if inside_wheel(change.path)]
    made: dict[str, object] = {
        "mode": "source" if compiled else "overlay",
        "release": patched.pin.name,
        "target": patched.target,
        "version": patched.version,
        "official-wheel": {"file": pinned.file, "sha256": pinned.sha256},
        "series-sha256": patched.digest,
        "patches": [
            {
                "name": patch.name,
                "subject": patch.subject,
                "sha256": sha256(patch.mail().encode()),
                "files": sorted(filter(inside_wheel, patch.paths)),
            }
            for patch in patched.patches
        ],
        "files": {
            change.path: {
                "stock": sha256(change.stock),
                "patched": sha256(change.content),
            }
            for change in changes
        },
    }
    if compiled:
        sums = {name: sha256(content) for name, content in sorted(compiled.items())}
        made["compiled"] = sums
    return (json.dumps(made, indent=1, ensure_ascii=False) + "\n").encode()


def sha256(content: bytes | None) -> str | None:
    """Return the sha256 in hex; None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()
