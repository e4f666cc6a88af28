# SPDX-License-Identifier: Apache-2.0
"""Bringing an image to a registry, in an order in which an interruption leaves nothing that can be pulled by tag."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset.attest.attestation import Contents
from patchset.base import console
from patchset.base.errors import PatchsetError, UsageError
from patchset.base.release import Release, Target
from patchset.publish import attached, image
from patchset.publish.image import Image
from patchset.registry import upload
from patchset.registry.client import Repository
from patchset.registry.reference import Reference

#: Signs an image by digest, with the attestations of its archives.
Signer = Callable[[Reference, str, Sequence[Contents]], None]
#: After its tags are set a publisher waits so many seconds before it looks whether another one replaced the fixed one.
SETTLE = 2.0


@dataclass(frozen=True)
class Tags:
    """``fixed`` names one image for ever; those that are ``moved`` name the newest of its kind."""

    fixed: str
    moved: tuple[str, ...]


@dataclass(frozen=True)
class Published:
    """``digest`` behind the ``tags``; ``parts`` counts how blobs came there (there, mounted, sent)."""

    reference: Reference
    digest: str
    tags: Tags
    parts: Counter[str]
    attached: dict[str, str]


def tags(release: Release, target: Target) -> Tags:
    """``v0.33.0-mtp.1``; ``v0.33.0`` and, for the default release, ``latest``; ``-cpu`` behind each for the CPU."""
    suffix = "-cpu" if target == "cpu" else ""
    moved = [release.name, *(["latest"] if release.default else [])]
    return Tags(f"{release.name}-mtp.{release.revision}{suffix}", tuple(f"{name}{suffix}" for name in moved))


def publish(goal: Reference, archives: list[Path], names: Tags, sign: Signer | None = None) -> Published:
    """Send an image's parts, its manifests by digest, its attestations and signatures, and last its tags.

    The fixed tag is never moved. Run again after an interruption, it goes on where that was.
    """
    if goal.tag or goal.digest:
        raise UsageError(f"{goal} names a tag or digest", f"tags are given here; name {goal.repository}")
    with (
        image.opened(archives, goal) as found,
        Repository(goal, push=True) as repository,
    ):
        digest = found.top["digest"]
        _check_fixed(repository, names.fixed, digest)
        with console.step(f"push {digest} to {goal.repository}"):
            parts = _push_parts(repository, found)
            for child, kind, content in found.manifests:
                repository.put_manifest(child, kind, content)
        attached.read(repository, digest)  # refuses those of another image
        subject = {name: found.top[name] for name in ("mediaType", "digest", "size")}
        artifacts = attached.attach(repository, subject, found.attestations)
        if sign is not None:
            sign(goal, digest, found.attestations)
        _tag(repository, found, names)
    return Published(goal, digest, names, parts, artifacts)


def _tag(repository: Repository, found: Image, names: Tags) -> None:
    """Set the tags. Nothing in the protocol keeps two publishers apart: a registry that knows ``If-None-Match`` refuses
    the second, and at any other the one whose tag was replaced is told."""
    digest, kind, content = found.manifests[-1]
    written = _check_fixed(repository, names.fixed, digest) is None
    if written:
        try:
            repository.put_manifest(names.fixed, kind, content, new=True)
        except PatchsetError:
            if _check_fixed(repository, names.fixed, digest) is None:
                raise
        _check_fixed(repository, names.fixed, digest)
    for tag in names.moved:
        repository.put_manifest(tag, kind, content)
    if written:
        time.sleep(SETTLE)
        _check_fixed(repository, names.fixed, digest)


def _check_fixed(repository: Repository, tag: str, digest: str) -> str | None:
    there = repository.digest_of(tag)
    if there is not None and there != digest:
        raise PatchsetError(
            f"{repository.reference.repository}:{tag} is {there} already; this image is {digest}, and that tag never moves",
            "somebody published another image: raise revision in release.toml; nox -s reproduce says what differs",
        )
    return there


def _push_parts(repository: Repository, found: Image) -> Counter[str]:
    parts: Counter[str] = Counter()
    with console.progress("parts", found.size) as advance:
        for blob in found.blobs.values():
            parts[upload.put(repository, blob, advance)] += 1
    return parts
