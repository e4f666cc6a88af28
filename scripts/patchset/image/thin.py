# SPDX-License-Identifier: Apache-2.0
"""Thin images: one small layer on an image that stays where it is, made without an engine or a daemon.

The archive holds what is new: layers, configurations, manifests. ``publish`` brings it to a registry, which mounts
the base's layers or gets them copied.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset.attest import attestation, inputs, labels
from patchset.attest.inputs import Inputs
from patchset.base import console, files, paths
from patchset.base.errors import PatchsetError
from patchset.base.release import Arch, Release, Target
from patchset.image import base_check, base_manifest, deflate
from patchset.image import layer as layers
from patchset.image.base_manifest import Base, BaseManifest
from patchset.image.layer import Place
from patchset.registry import layout, media
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
    path = out or archive_path(release, target)
    blobs: dict[str, bytes] = {}
    entries: list[dict[str, Any]] = []
    made: dict[Arch, tuple[str, int]] = {}
    wheels: dict[Arch, Path] = {}
    for found in base.manifests:
        wheel = wheels[found.arch] = overlay.build(patched, target, found.arch)
        with console.step(f"make the layer for {found.platform['architecture']}"):
            content = layers.layer(wheel, where, release.source_date_epoch)
            entry, made[found.arch] = _image(patched, target, found, wheel, content, blobs)
            entries.append(entry)
    if look_inside or site or version:  # what somebody says of a base is not taken on their word
        base_check.check(base, where, wheels)
    top = entries[0] if not base.index else _index(entries, blobs)
    locked = _inputs(patched, target, base, where, top["digest"])
    attestations = attestation.by_annotation(attestation.write(locked, patched, wheels))
    annotations = {
        "org.opencontainers.image.ref.name": f"{release.name}-mtp.{release.revision}",
        BASE: str(base.reference.at(base.digest)),
        **{name: media.digest(content) for name, content in attestations.items()},
    }
    blobs |= {media.digest(content): content for content in attestations.values()}
    index = {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": [{**top, "annotations": annotations}]}
    with files.lock(path):
        layout.write(path, index, blobs, release.source_date_epoch)
    return Thin(path, top["digest"], made, locked, wheels)


def _image(
    patched: PatchedRelease,
    target: Target,
    base: BaseManifest,
    wheel: Path,
    content: bytes,
    blobs: dict[str, bytes],
) -> tuple[dict[str, Any], tuple[str, int]]:
    """Put an image's parts into ``blobs``; its descriptor, and its new layer's digest and size."""
    docker = base.kind == media.DOCKER_MANIFEST
    packed = deflate.gzip(content)
    if len(packed) > MAX_LAYER:
        raise PatchsetError(
            f"the layer has {len(packed)} bytes, more than {MAX_LAYER}", "build a full image: --base debian"
        )
    new = media.descriptor(packed, media.DOCKER_LAYER if docker else media.LAYER)
    config = copy.deepcopy(base.config)
    said = labels.labels(patched, target, wheel)
    created = said["org.opencontainers.image.created"]
    config["created"] = created
    config["config"] = {**(config.get("config") or {})}
    config["config"]["Labels"] = {**(config["config"].get("Labels") or {}), **said}
    config["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(content).hexdigest()}")
    if config.get("history"):
        did = f"vllm-mtp-patches: series {patched.digest} on {patched.pin.name}"
        config["history"].append({"created": created, "created_by": did})
    config_bytes = media.dump(config)
    manifest = copy.deepcopy(base.manifest)
    manifest["config"] = media.descriptor(
        config_bytes, base.manifest["config"].get("mediaType", media.CONFIG)
    )
    manifest["layers"].append(new)
    manifest["mediaType"] = base.kind
    if not docker:  # docker's older form knows no annotations
        manifest["annotations"] = {
            **said,
            "org.opencontainers.image.base.name": patched.pin.image,
            "org.opencontainers.image.base.digest": base.digest,
        }
    manifest_bytes = media.dump(manifest)
    blobs |= {media.digest(blob): blob for blob in (packed, config_bytes, manifest_bytes)}
    entry = media.descriptor(manifest_bytes, base.kind, platform=base.platform)
    return entry, (new["digest"], new["size"])


def _index(entries: list[dict[str, Any]], blobs: dict[str, bytes]) -> dict[str, Any]:
    docker = all(entry["mediaType"] == media.DOCKER_MANIFEST for entry in entries)
    kind = media.DOCKER_INDEX if docker else media.INDEX
    content = media.dump({"schemaVersion": 2, "mediaType": kind, "manifests": entries})
    blobs[media.digest(content)] = content
    return media.descriptor(content, kind)


def _inputs(patched: PatchedRelease, target: Target, base: Base, where: Place, digest: str) -> Inputs:
    release, archs = patched.pin, [found.arch for found in base.manifests]
    return Inputs(
        kind="thin",
        release=release.name,
        version=release.built_version(target),
        target=target,
        digest=digest,
        archs=archs,
        base=inputs.OnBase(
            reference=str(base.reference),
            digest=base.digest,
            manifests={found.arch: found.digest for found in base.manifests},
            site=where.site,
            version=where.version,
        ),
        sources=inputs.sources(release, target, archs),
        files=inputs.checkout_files(patched, target, "thin"),
        tool=inputs.tool_files(),
    )
