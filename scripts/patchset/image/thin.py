# SPDX-License-Identifier: Apache-2.0
"""Thin images: one small layer on an image that stays in its registry.

Made without an engine. The layout holds what is new: layers, configurations, manifests.
A base that is not the release's official image is looked into: the files that the
patches replace must be the release's.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit

from patchset import console, files, paths
from patchset.errors import (
    MissingToolError,
    PatchsetError,
    UnavailableError,
    UsageError,
)
from patchset.image import labels, layout, sbom, skopeo
from patchset.image import layer as layers
from patchset.image.layout import Image, Part
from patchset.image.skopeo import Reference
from patchset.release import GOARCH, Arch, Release, Target
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay
from patchset.wheel.archive import Wheel

#: A layer of patched files has no reason to be larger, in bytes.
MAX_LAYER = 2_000_000
#: Bounds of what a base's layer may unpack to, and of a file that is hashed, in bytes.
_MAX_UNPACKED = 64 << 30
_MAX_FILE = 64 << 20


@dataclass(frozen=True)
class Thin:
    """A thin image: its folder, its digest, and digest and size of each layer."""

    folder: Path
    digest: str
    layers: dict[Arch, tuple[str, int]]


def folder(release: Release, target: Target) -> Path:
    """Return ``build/images/<release>-<target>-thin``."""
    return paths.images_dir() / f"{release.name}-{target}-thin"


def official(release: Release, target: Target) -> Reference:
    """Return the official image's reference, by digest if the pin has one."""
    if target != "cuda":
        raise UsageError(
            f"no official image is pinned for {target}",
            "name one that has the release, --base REF, or take --base debian",
        )
    return skopeo.parse(release.image)


def pin_digest(pin: Path) -> str | None:
    """Write the official image's digest into a pin that has a tag alone.

    Returns the digest; None if the pin has one, or no registry can be asked.
    """
    document = tomlkit.parse(pin.read_text(encoding="utf-8"))
    reference = skopeo.parse(str(document["image"]))
    if reference.digest:
        return None
    try:
        digest = layout.digest(skopeo.raw(reference))
    except (UnavailableError, MissingToolError) as error:
        console.note(f"  the image's digest is not pinned: {error.message}")
        return None
    document["image"] = f"{reference}@{digest}"
    files.write_text(pin, tomlkit.dumps(document))
    return digest


def make(
    patched: PatchedRelease,
    target: Target,
    archs: Sequence[Arch],
    reference: Reference | None = None,
) -> Thin:
    """Build the thin image on a base in a registry, for those of ``archs`` that it has.

    Without ``reference``, the base is the official image.
    """
    base_name = reference or official(patched.pin, target)
    with console.step(f"look at {base_name}"):
        base = skopeo.look(base_name)
    if not base_name.digest:
        console.note(f"  {base_name} is a tag; today it is {base.digest}")
    made = wheels(patched, target, base, archs)
    if reference:
        for part in base.parts:
            if part.arch in made:
                _check(reference, part, patched.pin, target, made[part.arch])
    name = base_name.tagged(base_name.tag) if base_name.tag else base_name
    out = folder(patched.pin, target)
    return build(patched, target, made, base, str(name), out)


def wheels(
    patched: PatchedRelease, target: Target, base: Image, archs: Sequence[Arch]
) -> dict[Arch, Path]:
    """Build the wheels for those of ``archs`` that both base and release are for."""
    there = {part.arch for part in base.parts}
    if any(labels.RELEASE in part.labels for part in base.parts):
        raise PatchsetError(
            "the base has patches of this project already",
            "name the image that it was made from",
        )
    if not (pinned := patched.pin.wheels.get(target, {})):
        patched.pin.wheel(target, archs[0])  # an error that names the targets
    if not (common := [arch for arch in archs if arch in there and arch in pinned]):
        raise UsageError(
            f"the base is not for {' or '.join(GOARCH[arch] for arch in archs)}",
            "choose another --arch",
        )
    return {arch: overlay.build(patched, target, arch) for arch in common}


def build(
    patched: PatchedRelease,
    target: Target,
    wheels: Mapping[Arch, Path],
    base: Image,
    base_name: str,
    out: Path,
) -> Thin:
    """Write a thin image into the folder ``out``.

    It has the layout ``image``, and beside it a bill of materials and a provenance.
    """
    release = patched.pin
    blobs: list[bytes] = []
    entries: list[dict[str, Any]] = []
    made: dict[Arch, tuple[str, int]] = {}
    below = [part for part in base.parts if part.arch in wheels]
    for part in below:
        wheel = wheels[part.arch]
        with console.step(f"make the layer for {GOARCH[part.arch]}"):
            layer = layers.layer(wheel, release, target)
        if len(layer) > MAX_LAYER:
            raise PatchsetError(
                f"the layer has {len(layer)} bytes, more than {MAX_LAYER}",
                "build a whole image: --base debian",
            )
        said = labels.labels(patched, target, wheel) | {
            labels.BASE_NAME: base_name,
            labels.BASE_DIGEST: part.digest,
        }
        parts = _image(part, layer, said, f"series {patched.digest} on {release.name}")
        blobs += [layer, *parts]
        platform = part.platform
        entries.append(layout.descriptor(parts[-1], layout.MANIFEST, platform=platform))
        made[part.arch] = (layout.digest(layer), len(layer))
    top = entries[0]
    if len(entries) > 1:
        index = {"schemaVersion": 2, "mediaType": layout.INDEX, "manifests": entries}
        blobs.append(layout.dump(index))
        top = layout.descriptor(blobs[-1], layout.INDEX)
    with files.lock(out):
        files.remove_temp(out.parent, out.name)
        with files.atomic_folder(out) as temp:
            name = f"{release.name}-mtp.{release.revision}"
            layout.write(temp / "image", top, name, blobs)
            sbom.write(temp, patched, target, top["digest"], wheels, bases=below)
    return Thin(out, top["digest"], made)


def _image(
    base: Part, layer: bytes, said: dict[str, str], did: str
) -> tuple[bytes, bytes]:
    """Return configuration and manifest of the base with one more layer."""
    config = copy.deepcopy(base.config)
    config["created"] = said[labels.CREATED]
    config["config"] = config.get("config") or {}
    config["config"]["Labels"] = {**base.labels, **said}
    config["rootfs"]["diff_ids"].append(layout.digest(layer))
    if config.get("history"):
        by = f"vllm-mtp-patches: {did}"
        step = {"created": said[labels.CREATED], "created_by": by}
        config["history"].append(step)
    written = layout.dump(config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": layout.MANIFEST,
        "config": layout.descriptor(written, layout.CONFIG),
        "layers": [
            *map(_as_oci, base.manifest["layers"]),
            layout.descriptor(layer, layout.LAYER),
        ],
        "annotations": {
            name: said[name] for name in (labels.BASE_NAME, labels.BASE_DIGEST)
        },
    }
    return written, layout.dump(manifest)


def _as_oci(entry: dict[str, Any]) -> dict[str, Any]:
    kind = str(entry.get("mediaType"))
    kind = layout.OCI_NAMES.get(kind, kind)
    if not kind.startswith(layout.LAYER):
        raise PatchsetError(
            f"the base has a layer of the type {kind[:100]}", "choose another base"
        )
    return {"mediaType": kind, "digest": entry["digest"], "size": entry["size"]}


def _check(
    reference: Reference, base: Part, release: Release, target: Target, wheel_file: Path
) -> None:
    """Refuse a base whose files are not the release's where the patches replace them."""
    site, info = layers.SITES[target], layers.stock_info(release, target)
    with Wheel(wheel_file) as wheel:
        changed = overlay.changed_files(wheel).items()
    stock = {f"{site}/{path}": sums["stock"] for path, sums in changed if sums["stock"]}
    wanted, found = {f"{info}/METADATA", *stock}, dict[str, str | None]()
    paths.build_dir().mkdir(parents=True, exist_ok=True)
    entries = base.manifest["layers"]
    files.need_space({paths.build_dir(): sum(entry["size"] for entry in entries)})
    with (
        console.step(f"look into {reference} for {GOARCH[base.arch]}"),
        files.scratch(paths.build_dir()) as scratch,
    ):
        skopeo.copy(reference.at(base.digest), "dir:base", cwd=scratch)
        for entry in reversed(entries):
            file = scratch / "base" / entry["digest"].removeprefix("sha256:")
            found |= _look(file, wanted - found.keys())
    if found.get(f"{info}/METADATA") is None:
        raise PatchsetError(
            f"the base has no /{info}", f"it is not vLLM {release.version}"
        )
    if wrong := [path for path, sha256 in stock.items() if found.get(path) != sha256]:
        raise PatchsetError(
            f"the base has other files than the release: {', '.join(wrong[:5])}",
            "the patches were not made for them; use the release's official image",
        )


def _look(file: Path, wanted: set[str]) -> dict[str, str | None]:
    """Return the sha256 of each wanted file of a layer, None for one that it hides."""
    found: dict[str, str | None] = {}
    hidden: list[PurePosixPath] = []
    folders = {parent for name in wanted for parent in PurePosixPath(name).parents}
    try:
        with file.open("rb") as opened:
            packed = opened.read(2) == b"\x1f\x8b"
        # A gzip file may have several members, as engines read them.
        with (
            gzip.open(file) if packed else file.open("rb") as content,
            tarfile.open(fileobj=content, mode="r|") as tar,
        ):
            for member in tar:
                if tar.offset > _MAX_UNPACKED:
                    raise ValueError(f"it has more than {_MAX_UNPACKED} bytes")
                path = PurePosixPath(member.name.removeprefix("./").strip("/"))
                if path.name == ".wh..wh..opq":
                    hidden.append(path.parent)
                elif path.name.startswith(".wh."):
                    hidden.append(path.with_name(path.name.removeprefix(".wh.")))
                elif path in folders and not member.isdir():
                    hidden.append(path)  # a link or file in a folder's place
                elif str(path) in wanted:
                    small = member.isreg() and member.size <= _MAX_FILE
                    data = tar.extractfile(member) if small else None
                    found[str(path)] = (
                        hashlib.sha256(data.read()).hexdigest() if data else None
                    )
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise PatchsetError(
            f"a layer of the base cannot be read: {error}",
            "layers packed by zstd cannot be looked into",
        ) from error
    for name in wanted - found.keys():
        if any(PurePosixPath(name).is_relative_to(gone) for gone in hidden):
            found[name] = None
    return found
