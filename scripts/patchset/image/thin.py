# SPDX-License-Identifier: Apache-2.0
"""Thin images: one small layer on an image that stays where it is, made without an engine or a daemon.

The archive holds what is new: layers, configurations, manifests. ``publish`` brings it to a registry, which mounts
the base's layers or gets them copied.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from patchset import console, files, paths
from patchset.attest import attestation, inputs, labels
from patchset.attest.inputs import Inputs
from patchset.errors import PatchsetError
from patchset.image import base_check, base_manifest, deflate
from patchset.image import layer as layers
from patchset.image.base_manifest import BaseManifest
from patchset.registry import layout, media
from patchset.release import Arch, Release, Target
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import overlay

#: A layer of patched files has no reason to be larger, in bytes.
MAX_LAYER = 1_000_000
#: Annotation of the archive's index: where the base's layers are.
BASE = labels.OWN + "base"


@dataclass(frozen=True)
class Thin:
    """``digest`` of what is to be published; ``layers``: digest and size in bytes of each architecture's."""

    path: Path
    digest: str
    layers: dict[Arch, tuple[str, int]]
    inputs: Inputs
    wheels: dict[Arch, Path]


def archive_path(release: Release, target: Target) -> Path:
    """``build/images/<release>-<target>-thin.oci.tar``."""
    return paths.images_dir() / f"{release.name}-{target}-thin.oci.tar"


def build(
    patched: PatchedRelease,
    target: Target,
    archs: Sequence[Arch],
    base_ref: str,
    *,
    site: str | None = None,
    version: str | None = None,
    look_inside: bool = False,
    out: Path | None = None,
) -> Thin:
    """Write the archive of a thin image for those of ``archs`` that the base is made for.

    ``site`` and ``version`` say where the base has vLLM, and as which version, where that is not as in the official
    image; ``look_inside`` reads the base's layers to see whether it is so.
    """
    release = patched.pin
    where = layers.place(release, target, site, version)
    base = base_manifest.look(base_ref, [arch for arch in archs if arch in release.wheels.get(target, {})])
    if not base.reference.digest and base_ref == release.image:
        console.note(
            f'  the pin names the base by tag; image = "{base_ref}@{base.digest}" in release.toml keeps it'
        )
    blobs: dict[str, bytes] = {}
    entries: list[dict[str, Any]] = []
    made: dict[Arch, tuple[str, int]] = {}
    wheels: dict[Arch, Path] = {}
    for found in base.manifests:
        wheel = wheels[found.arch] = overlay.build(patched, target, found.arch)
        with console.step(f"make the layer for {found.platform['architecture']}"):
            layer = layers.layer(wheel, where, release.source_date_epoch)
            said = labels.labels(patched, target, wheel)
            entry, new = _image(patched, said, found, layer, blobs)
        made[found.arch] = (new["digest"], new["size"])
        entries.append(entry)
    if look_inside or site or version:  # what somebody says of a base is not taken on their word
        base_check.check(base, where, wheels)
    top = entries[0]
    if base.index:
        docker = all(entry["mediaType"] == media.DOCKER_MANIFEST for entry in entries)
        kind = media.DOCKER_INDEX if docker else media.INDEX
        index = {"schemaVersion": 2, "mediaType": kind, "manifests": entries}
        top = _put(blobs, media.dump(index), kind)
    stands_on = inputs.OnBase(
        reference=str(base.reference),
        digest=base.digest,
        manifests={found.arch: found.digest for found in base.manifests},
        site=where.site,
        version=where.version,
    )
    locked = inputs_lock("thin", patched, target, [*wheels], top["digest"], base=stands_on)
    attestations = attestation.by_annotation(attestation.write(locked, patched, wheels))
    top["annotations"] = {
        "org.opencontainers.image.ref.name": f"{release.name}-mtp.{release.revision}",
        BASE: str(base.reference.at(base.digest)),
        **{name: _put(blobs, content, "")["digest"] for name, content in attestations.items()},
    }
    path = out or archive_path(release, target)
    with files.lock(path):
        index = {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": [top]}
        layout.write(path, index, blobs, release.source_date_epoch)
    return Thin(path, top["digest"], made, locked, wheels)


def inputs_lock(
    kind: Literal["thin", "full"],
    patched: PatchedRelease,
    target: Target,
    archs: list[Arch],
    digest: str,
    *,
    rootfs: Sequence[inputs.Source] = (),
    **more: Any,
) -> Inputs:
    """What an image of some kind was made of; ``more`` has the fields that only this kind has."""
    return Inputs(
        kind=kind,
        release=patched.pin.name,
        version=patched.pin.built_version(target),
        target=target,
        digest=digest,
        archs=archs,
        sources=[*inputs.sources(patched.pin, target, archs), *rootfs],
        files=inputs.checkout_files(patched, target, kind),
        tool=inputs.tool_files(),
        **more,
    )


def _image(
    patched: PatchedRelease, said: dict[str, str], base: BaseManifest, layer: bytes, blobs: dict[str, bytes]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Put the parts of an image with these labels into ``blobs``; its descriptor, and that of its new layer."""
    docker = base.kind == media.DOCKER_MANIFEST
    packed = deflate.gzip(layer)
    if len(packed) > MAX_LAYER:
        raise PatchsetError(
            f"the layer has {len(packed)} bytes, more than {MAX_LAYER}", "build a full image: --base debian"
        )
    new = _put(blobs, packed, media.DOCKER_LAYER if docker else media.LAYER)
    config, manifest = copy.deepcopy(base.config), copy.deepcopy(base.manifest)
    created = config["created"] = said["org.opencontainers.image.created"]
    config["config"] = config.get("config") or {}
    config["config"]["Labels"] = {**(config["config"].get("Labels") or {}), **said}
    config["rootfs"]["diff_ids"].append(media.digest(layer))
    if config.get("history"):
        did = f"vllm-mtp-patches: series {patched.digest} on {patched.pin.name}"
        config["history"].append({"created": created, "created_by": did})
    kind = manifest["config"].get("mediaType", media.CONFIG)
    manifest["config"] = _put(blobs, media.dump(config), kind)
    manifest["layers"].append(new)
    manifest["mediaType"] = base.kind
    if not docker:  # docker's older form knows no annotations
        manifest["annotations"] = {
            **said,
            "org.opencontainers.image.base.name": patched.pin.image,
            "org.opencontainers.image.base.digest": base.digest,
        }
    return _put(blobs, media.dump(manifest), base.kind, platform=base.platform), new


def _put(blobs: dict[str, bytes], content: bytes, kind: str, **more: object) -> dict[str, Any]:
    """Put one blob with the others; its descriptor."""
    entry = media.descriptor(content, kind, **more)
    blobs[entry["digest"]] = content
    return entry
