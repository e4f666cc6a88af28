# SPDX-License-Identifier: Apache-2.0
"""Thin images: one small layer on an image that stays where it is.

Made without an engine. The layout holds what is new: layers, configurations, manifests.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset import console, files, paths
from patchset.errors import PatchsetError, UsageError
from patchset.image import base as bases
from patchset.image import labels, layout, sbom, skopeo
from patchset.image import layer as layers
from patchset.image.layer import Place
from patchset.image.layout import Image, Part
from patchset.image.skopeo import Reference
from patchset.release import GOARCH, Arch, Release, Target
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import overlay

#: A layer of patched files has no reason to be larger, in bytes.
MAX_LAYER = 2_000_000


@dataclass(frozen=True)
class Thin:
    """A thin image: its folder, its digest, and digest and size of each layer."""

    folder: Path
    digest: str
    layers: dict[Arch, tuple[str, int]]


def folder(release: Release, target: Target) -> Path:
    """Return ``build/images/<release>-<target>-thin``."""
    return paths.images_dir() / f"{release.name}-{target}-thin"


def make(
    patched: PatchedRelease,
    target: Target,
    archs: Sequence[Arch],
    reference: Reference,
    *,
    official: bool,
    site: str | None = None,
    version: str | None = None,
) -> Thin:
    """Build the thin image on a base in a registry, for those of ``archs`` that it has.

    A base that is not the ``official`` image is looked into, and so is one of which
    ``site`` or ``version`` is said.
    """
    where = layers.place(patched.pin, target, site, version)
    with console.step(f"look at {reference}"):
        found = skopeo.look(reference)
    if not reference.digest:
        console.note(f"  {reference} is a tag; today it is {found.digest}")
    made = wheels(patched, target, found, archs)
    if not official or site or version:
        bases.check(reference, found, where, made)
    name = str(reference.tagged(reference.tag) if reference.tag else reference)
    return build(patched, target, made, found, name, where, folder(patched.pin, target))


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
    wheels: dict[Arch, Path],
    base: Image,
    base_name: str,
    where: Place,
    out: Path,
) -> Thin:
    """Write a thin image into the folder ``out``.

    It has the layout ``image``, and beside it a bill of materials and a provenance.
    """
    release = patched.pin
    blobs: list[bytes] = []
    entries: list[dict[str, Any]] = []
    made: dict[Arch, tuple[str, int]] = {}
    for part in base.parts:
        if part.arch not in wheels:
            continue
        wheel = wheels[part.arch]
        with console.step(f"make the layer for {GOARCH[part.arch]}"):
            layer = layers.layer(wheel, where, release.source_date_epoch)
        if len(layer) > MAX_LAYER:
            raise PatchsetError(
                f"the layer has {len(layer)} bytes, more than {MAX_LAYER}",
                "build a whole image: --base debian",
            )
        said = labels.labels(patched, target, wheel) | {
            labels.BASE_NAME: base_name,
            labels.BASE_DIGEST: part.digest,
            labels.SITE: where.site,
            labels.BASE_VERSION: where.version,
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
            below = [part for part in base.parts if part.arch in wheels]
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
        step = {
            "created": said[labels.CREATED],
            "created_by": f"vllm-mtp-patches: {did}",
        }
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
