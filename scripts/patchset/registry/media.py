# SPDX-License-Identifier: Apache-2.0
"""Media types and descriptors (OCI Image Format Specification 1.1), with docker's older names for the same things."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from patchset.errors import PatchsetError
from patchset.registry.reference import DIGEST

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
EMPTY = "application/vnd.oci.empty.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
MANIFESTS = (MANIFEST, DOCKER_MANIFEST)
INDEXES = (INDEX, DOCKER_INDEX)

#: Bound of a manifest in bytes; the specification asks registries for four megabytes.
MAX_MANIFEST = 4 << 20
#: Bound of an image's configuration in bytes.
MAX_CONFIG = 8 << 20


def digest(content: bytes) -> str:
    """``sha256:…`` of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def dump(value: object) -> bytes:
    """JSON in one form only, so that equal things have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse(content: bytes, what: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PatchsetError(f"{what} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise PatchsetError(f"{what} is not a JSON object")
    return found


def descriptor(content: bytes, kind: str, **more: object) -> dict[str, Any]:
    """The descriptor of some bytes."""
    return {"mediaType": kind, "digest": digest(content), "size": len(content), **more}


def check_descriptor(found: object, what: str) -> dict[str, Any]:
    """A descriptor whose digest and size are what they must be."""
    if (
        not isinstance(found, dict)
        or not isinstance(found.get("digest"), str)
        or not DIGEST.fullmatch(found["digest"])
        or not isinstance(found.get("size"), int)
        or found["size"] < 0
    ):
        raise PatchsetError(f"{what} names a part without a sha256 digest and a size")
    return found


def parts(manifest: dict[str, Any], what: str) -> list[dict[str, Any]]:
    """The descriptors of a manifest's configuration and layers."""
    layers = manifest.get("layers")
    if not isinstance(layers, list) or "config" not in manifest:
        raise PatchsetError(f"{what} is not an image manifest")
    return [check_descriptor(found, what) for found in (manifest["config"], *layers)]
