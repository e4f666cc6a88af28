# SPDX-License-Identifier: Apache-2.0
"""Thin images: one small layer on an image that stays in its registry.

Made without an engine. The layout holds what is new: layers, configurations, manifests.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchset import console, files
from patchset.errors import PatchsetError
from patchset.image import labels, layout, sbom
from patchset.image import layer as layers
from patchset.release import GOARCH, Arch
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay

#: What an index names of a configuration.
_PLATFORM = {"architecture", "os", "variant"}
#: Docker's older name of the type of a layer.
_DOCKER = "application/vnd.docker.image.rootfs.diff.tar"


def build(
    patched: PatchedRelease, bases: Sequence[layout.Part], base_name: str, out: Path
) -> Path:
    """Write a thin image into the folder ``out``, on one base or on one each arch."""
    release = patched.pin
    wheels: dict[Arch, Path] = {}
    blobs: list[bytes] = []
    entries: list[dict[str, Any]] = []
    for part in bases:
        wheel = wheels[part.arch] = overlay.build(patched, part.arch)
        with console.step(f"make the layer for {GOARCH[part.arch]}"):
            layer = layers.layer(wheel, patched)
        said = labels.labels(patched, wheel) | {
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
        layout.write(temp / "image", top, labels.tags(patched)[0], blobs)
        below = {f"base-{part.arch}": part.digest for part in bases}
        sbom.write(temp, patched, top["digest"], wheels, below)
    return out


def _image(
    base: layout.Part, layer: bytes, said: dict[str, str], did: str
) -> tuple[bytes, bytes]:
    config = copy.deepcopy(base.config)
    config["created"] = said[labels.CREATED]
    config["config"] = config.get("config") or {}
    config["config"]["Labels"] = {**base.labels, **said}
    config["rootfs"]["diff_ids"].append(layout.digest(layer))
    if config.get("history"):
        by = f"vllm-mtp-patches: {did}"
        config["history"].append({"created": said[labels.CREATED], "created_by": by})
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
