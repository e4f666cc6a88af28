# SPDX-License-Identifier: Apache-2.0
"""The attestations that stand in a registry: artifacts whose ``subject`` is an image (OCI: guidelines for artifacts)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchset.attest import sidecars
from patchset.attest.sidecars import Contents, Paper
from patchset.registry import media, upload
from patchset.registry.client import Repository
from patchset.registry.upload import in_memory


def read(repository: Repository, digest: str) -> dict[Paper, list[bytes]]:
    """What a registry holds of each kind for an image, each checked to be about it.

    Raises:
        PatchsetError: an attestation is about another image.
    """
    top = media.parse(repository.manifest(digest)[2], digest)
    children = [media.check_descriptor(entry, digest)["digest"] for entry in top.get("manifests") or ()]
    found: dict[Paper, list[bytes]] = {paper: [] for paper in sidecars.ALL}
    for entry in repository.referrers(digest):
        paper = next((paper for paper in sidecars.ALL if paper.media_type == entry.get("artifactType")), None)
        if paper is None:
            continue
        where = str(repository.reference.at(entry["digest"]))
        manifest = media.parse(repository.manifest(entry["digest"])[2], where)
        for part in media.parts(manifest, where)[1:]:
            content = repository.blob(part["digest"], part["size"], sidecars.MAX_BYTES)
            sidecars.check_subject(paper, content, {digest, *children}, where)
            if content not in found[paper]:
                found[paper].append(content)
    return found


def attach(repository: Repository, subject: dict[str, Any], held: Sequence[Contents]) -> dict[str, str]:
    """Attach the attestations of an image's archives; the digest of each artifact by what it is."""
    attached: dict[str, str] = {}
    for paper in sidecars.ALL:
        contents = [one[paper] for one in held]
        for content in (b"{}", *contents):
            upload.put(repository, in_memory(content), lambda count: None)
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": media.MANIFEST,
            "artifactType": paper.media_type,
            "config": media.descriptor(b"{}", media.EMPTY),
            "layers": [media.descriptor(content, paper.media_type) for content in contents],
        }
        attached[paper.title] = repository.attach(subject, manifest)
    return attached
