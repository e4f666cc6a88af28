# SPDX-License-Identifier: Apache-2.0
"""The attestations that stand in a registry: artifacts whose ``subject`` is an image (OCI: guidelines for artifacts)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchset.attest import attestation
from patchset.attest.attestation import Attestation, Contents
from patchset.errors import NotFoundError
from patchset.registry import media, upload
from patchset.registry.client import Repository


def digest(repository: Repository) -> str:
    """The digest of the image that the repository's reference names."""
    found = repository.digest_of(repository.reference.wanted)
    if found is None:
        raise NotFoundError(f"{repository.reference} does not exist", "check the name and the tag")
    return found


def read(repository: Repository, digest: str) -> dict[Attestation, list[bytes]]:
    """What a registry holds of each kind for an image, each checked to be about it."""
    top = media.parse(repository.manifest(digest)[2], digest)
    children = [media.check_descriptor(entry, digest)["digest"] for entry in top.get("manifests") or ()]
    found: dict[Attestation, list[bytes]] = {kind: [] for kind in attestation.ALL}
    kinds = {kind.media_type: kind for kind in attestation.ALL}
    for entry in repository.referrers(digest):
        if (kind := kinds.get(str(entry.get("artifactType")))) is None:
            continue
        where = str(repository.reference.at(entry["digest"]))
        manifest = media.parse(repository.manifest(entry["digest"])[2], where)
        for part in media.parts(manifest, where)[1:]:
            content = repository.blob(part["digest"], part["size"], attestation.MAX_BYTES)
            attestation.check_subject(kind, content, {digest, *children}, where)
            if content not in found[kind]:
                found[kind].append(content)
    return found


def attach(repository: Repository, subject: dict[str, Any], held: Sequence[Contents]) -> dict[str, str]:
    """Attach the attestations of an image's archives; the digest of each artifact by what it is."""
    attached: dict[str, str] = {}
    for kind in attestation.ALL:
        contents = [one[kind] for one in held]
        for content in (b"{}", *contents):
            upload.put(repository, upload.in_memory(content), lambda count: None)
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": media.MANIFEST,
            "artifactType": kind.media_type,
            "config": media.descriptor(b"{}", media.EMPTY),
            "layers": [media.descriptor(content, kind.media_type) for content in contents],
        }
        attached[kind.title] = repository.attach(subject, manifest)
    return attached
