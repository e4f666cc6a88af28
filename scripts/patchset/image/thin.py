# SPDX-License-Identifier: Apache-2.0
"""Thin images: one small layer on an image that stays in its registry.

Made without an engine. The layout holds what is new: layers, configurations, manifests.
A base that is not the release's official image is looked into: the files that the
patches replace must be the release's.
"""

import copy
import hashlib
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from patchset import console, files, paths
from patchset.errors import (
    PatchsetError,
    UsageError,
)
from patchset.image import labels, layout, sbom, skopeo
from patchset.image import layer as layers
from patchset.image.layout import Part
from patchset.image.skopeo import Reference
from patchset.release import GOARCH, Arch, Release, Target
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay

#: Bounds of what a base's layer may unpack to, and of a file that is hashed, in bytes.
_MAX_UNPACKED = 64 << 30
_MAX_FILE = 64 << 20
#: What an index names of a configuration.
_PLATFORM = {"architecture", "os", "variant"}
#: Docker's older name of the type of a layer.
_DOCKER = "application/vnd.docker.image.rootfs.diff.tar"


def official(release: Release, target: Target) -> Reference:
    """Return the official image's reference, by digest if the pin has one."""
    if target != "cuda":
        raise UsageError(
            f"no official image is pinned for {target}",
            "name one that has the release, --base REF, or take --base debian",
        )
    return skopeo.parse(release.image)


def make(
    patched: PatchedRelease,
    target: Target,
    reference: Reference | None = None,
) -> Path:
    """Build the thin image on a base in a registry, for all processors of both.

    Without ``reference``, the base is the official image. Returns the image's folder.
    """
    release = patched.pin
    base_name = reference or official(release, target)
    with console.step(f"look at {base_name}"):
        base = skopeo.look(base_name)
    if not base_name.digest:
        console.note(f"  {base_name} is a tag; today it is {base.digest}")
    if any(labels.RELEASE in part.labels for part in base.parts):
        raise PatchsetError(
            "the base has patches of this project already",
            "name the image that it was made from",
        )
    pinned = release.wheels.get(target, {})
    parts = [part for part in base.parts if part.arch in pinned]
    if not parts:
        has = ", ".join(pinned) or "none"
        raise UsageError(
            f"the base is for no processor that {release.name} has a {target} wheel for",
            f"it has: {has}; choose another base",
        )
    for part in parts if reference else []:
        _check(base_name, part, patched, target)
    name = base_name.tagged(base_name.tag) if base_name.tag else base_name
    out = layout.folder(release, target)
    return build(patched, target, parts, str(name), out)


def build(
    patched: PatchedRelease,
    target: Target,
    bases: Sequence[Part],
    base_name: str,
    out: Path,
) -> Path:
    """Write a thin image into the folder ``out``, on one base or on one each arch."""
    release = patched.pin
    wheels: dict[Arch, Path] = {}
    blobs: list[bytes] = []
    entries: list[dict[str, Any]] = []
    for part in bases:
        wheel = wheels[part.arch] = overlay.build(patched, target, part.arch)
        with console.step(f"make the layer for {GOARCH[part.arch]}"):
            layer = layers.layer(wheel, patched, target)
        said = labels.labels(patched, target, wheel) | {
            labels.BASE_NAME: base_name,
            labels.BASE_DIGEST: part.digest,
        }
        parts = _image(part, layer, said, f"series {patched.digest} on {release.name}")
        blobs += [layer, *parts]
        platform = {name: part.config[name] for name in _PLATFORM & part.config.keys()}
        entries.append(layout.descriptor(parts[-1], layout.MANIFEST, platform=platform))
    top = entries[0]
    if len(entries) > 1:
        index = {"schemaVersion": 2, "mediaType": layout.INDEX, "manifests": entries}
        blobs.append(layout.dump(index))
        top = layout.descriptor(blobs[-1], layout.INDEX)
    with files.lock(out), files.atomic_folder(out) as temp:
        name = f"{release.name}-mtp.{release.revision}"
        layout.write(temp / "image", top, name, blobs)
        below = {f"base-{part.arch}": part.digest for part in bases}
        sbom.write(temp, patched, target, top["digest"], wheels, below)
    return out


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
    kind = str(entry.get("mediaType")).replace(_DOCKER, layout.LAYER)
    kind = kind.replace(".gzip", "+gzip")
    if not kind.startswith(layout.LAYER):
        raise PatchsetError(
            f"the base has a layer of the type {kind[:100]}", "choose another base"
        )
    return {"mediaType": kind, "digest": entry["digest"], "size": entry["size"]}


def _check(
    reference: Reference, base: Part, patched: PatchedRelease, target: Target
) -> None:
    """Refuse a base in which a file to be replaced is not the release's."""
    release = patched.pin
    site, info = layers.SITES[target], layers.stock_info(release, target)
    stock = {
        f"{site}/{change.path}": overlay.sha256(change.stock)
        for change in patched.changes
        if overlay.inside_wheel(change.path) and change.stock is not None
    }
    wanted, found = {f"{info}/METADATA", *stock}, dict[str, str]()
    with (
        console.step(f"look into {reference} for {GOARCH[base.arch]}"),
        files.scratch(paths.build_dir()) as scratch,
    ):
        skopeo.copy(reference.at(base.digest), "dir:base", cwd=scratch)
        for entry in base.manifest["layers"]:
            file = scratch / "base" / entry["digest"].removeprefix("sha256:")
            found = _look(file, wanted, found)
    if f"{info}/METADATA" not in found:
        raise PatchsetError(
            f"the base has no /{info}", f"it is not vLLM {release.version}"
        )
    if wrong := [path for path, sha256 in stock.items() if found.get(path) != sha256]:
        raise PatchsetError(
            f"the base has other files than the release: {', '.join(wrong[:5])}",
            "the patches were not made for them; use the release's official image",
        )


def _look(file: Path, wanted: set[str], found: dict[str, str]) -> dict[str, str]:
    """Return the wanted files' sha256 after one more layer, which may hide some."""
    try:
        with tarfile.open(file) as tar:
            for member in tar:
                if tar.offset > _MAX_UNPACKED:
                    raise ValueError(f"it has more than {_MAX_UNPACKED} bytes")
                path = PurePosixPath(member.name.removeprefix("./").strip("/"))
                gone = path  # or what is below it, if it is a link in a folder's place
                if path.name == ".wh..wh..opq":
                    gone = path.parent
                elif path.name.startswith(".wh."):
                    gone = path.with_name(path.name.removeprefix(".wh."))
                if gone != path or not member.isdir():
                    below = "" if gone == PurePosixPath() else f"{gone}/"
                    found = {
                        name: sha256
                        for name, sha256 in found.items()
                        if not f"{name}/".startswith(below)
                    }
                if str(path) in wanted:
                    small = member.isreg() and member.size <= _MAX_FILE
                    data = tar.extractfile(member) if small else None
                    digest = data and hashlib.sha256(data.read()).hexdigest()
                    found[str(path)] = digest or "no plain file"
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise PatchsetError(
            f"a layer of the base cannot be read: {error}",
            "layers packed by zstd cannot be looked into",
        ) from error
    return found
