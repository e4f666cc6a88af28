# SPDX-License-Identifier: Apache-2.0
"""Bringing an image to a registry, in an order in which an interruption leaves nothing that can be pulled by tag."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset import console
from patchset.errors import PatchsetError, UsageError
from patchset.publish import image
from patchset.publish.image import Image
from patchset.registry import media, upload
from patchset.registry.client import Repository
from patchset.registry.reference import Reference
from patchset.registry.upload import Blob
from patchset.release import Release, Target
from patchset.supply import papers


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


def publish(goal: Reference, archives: list[Path], names: Tags) -> Published:
    """Send an image's parts, its manifests by digest, its papers, and last its tags.

    The fixed tag is never moved. Run again after an interruption, it goes on where that was.

    Raises:
        PatchsetError: the fixed tag names another image already.
        UnavailableError: the registry fails again and again.
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
        attached = _attach(repository, found, archives)
        _check_fixed(repository, names.fixed, digest)
        for tag in (names.fixed, *names.moved):
            _, kind, content = found.manifests[-1]
            repository.put_manifest(tag, kind, content)
    return Published(goal, digest, names, parts, attached)


def _check_fixed(repository: Repository, tag: str, digest: str) -> None:
    there = repository.digest_of(tag)
    if there is not None and there != digest:
        raise PatchsetError(
            f"{repository.reference.repository}:{tag} is {there} already; this image is {digest}, and that tag never moves",
            "raise revision in release.toml to publish another image; nox -s reproduce says what differs",
        )


def _push_parts(repository: Repository, found: Image) -> Counter[str]:
    parts: Counter[str] = Counter()
    with console.progress("parts", found.size) as advance:
        for blob in found.blobs.values():
            parts[upload.put(repository, blob, advance)] += 1
    return parts


def _attach(repository: Repository, found: Image, archives: list[Path]) -> dict[str, str]:
    """Attach each paper that stands beside the archives, unless one of its kind is there (OCI: guidelines for artifacts)."""
    there = {
        entry.get("artifactType"): entry["digest"] for entry in repository.referrers(found.top["digest"])
    }
    empty = b"{}"
    attached: dict[str, str] = {}
    subject = {name: found.top[name] for name in ("mediaType", "digest", "size")}
    for paper in papers.ALL:
        files = [place for archive in archives if (place := papers.beside(archive, paper)).is_file()]
        if len(files) != len(archives):
            continue
        if paper.media_type in there:
            attached[paper.title] = there[paper.media_type]
            continue
        layers = []
        for content in (place.read_bytes() for place in files):
            upload.put(repository, in_memory(content), _nobody)
            layers.append(media.descriptor(content, paper.media_type))
        upload.put(repository, in_memory(empty), _nobody)
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": media.MANIFEST,
            "artifactType": paper.media_type,
            "config": media.descriptor(empty, media.EMPTY),
            "layers": layers,
        }
        attached[paper.title] = repository.attach(subject, manifest)
    return attached


def in_memory(content: bytes) -> Blob:
    """A blob of some bytes."""

    @contextlib.contextmanager
    def opener(start: int) -> Iterator[Iterator[bytes]]:
        yield iter([content[start:]] if content[start:] else [])

    return Blob(media.digest(content), len(content), opener)


def _nobody(count: int) -> None:
    """Progress of what is too small for it."""
