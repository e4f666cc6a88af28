# SPDX-License-Identifier: Apache-2.0
"""Bringing an image to a registry, in an order in which an interruption leaves nothing that can be pulled by tag."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchset import console
from patchset.attest import attestation
from patchset.attest.attestation import Contents
from patchset.errors import PatchsetError, UsageError
from patchset.image.thin import BASE
from patchset.publish import attached
from patchset.registry import media, upload
from patchset.registry.client import Repository
from patchset.registry.layout import Layout
from patchset.registry.reference import Reference, parse
from patchset.registry.upload import Blob
from patchset.release import Release, Target

#: Signs an image by digest, with the attestations of its archives.
Signer = Callable[[Reference, str, Sequence[Contents]], None]
#: After its tags are set a publisher waits so many seconds before it looks whether another one replaced the fixed one.
SETTLE = 2.0
#: Layers that may not be passed on come from where their ``urls`` say (OCI: nondistributable, docker: foreign).
_NOT_PASSED_ON = ("nondistributable", "foreign")


@dataclass(frozen=True)
class Published:
    """``digest`` behind the ``tags``; ``parts`` counts how blobs came there (there, mounted, sent)."""

    digest: str
    tags: list[str]
    parts: Counter[str]
    attached: dict[str, str]


@dataclass
class _Image:
    """What is to be published: the manifests by digest, with kind and bytes, the last being the one that tags name; where
    each part comes from; and what the archives say of it."""

    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)
    attestations: list[Contents] = field(default_factory=list)


def tags(release: Release, target: Target) -> list[str]:
    """``v0.33.0-mtp.1``; ``v0.33.0`` and, for the default release, ``latest``; ``-cpu`` behind each for the CPU.

    The first names one image for ever, the others the newest of its kind.
    """
    names = [f"{release.name}-mtp.{release.revision}", release.name, *(["latest"] if release.default else [])]
    return [name + ("-cpu" if target == "cpu" else "") for name in names]


def publish(goal: Reference, archives: list[Path], names: list[str], sign: Signer | None = None) -> Published:
    """Send an image's parts, its manifests by digest, its attestations and signatures, and last its tags.

    The first tag is never moved. Run again after an interruption, it goes on where that was.
    """
    if goal.tag or goal.digest:
        raise UsageError(f"{goal} names a tag or digest", f"tags are given here; name {goal.repository}")
    with _opened(archives, goal) as found, Repository(goal, push=True) as repository:
        digest, (kind, content) = list(found.manifests.items())[-1]
        _check_fixed(repository, names[0], digest)
        parts: Counter[str] = Counter()
        with console.step(f"push {digest} to {goal.repository}"):
            with console.progress("parts", sum(blob.size for blob in found.blobs.values())) as advance:
                for blob in found.blobs.values():
                    parts[upload.put(repository, blob, advance)] += 1
            for name, stored in found.manifests.items():
                repository.put_manifest(name, *stored)
        attached.read(repository, digest)  # refuses those of another image
        artifacts = attached.attach(repository, media.descriptor(content, kind), found.attestations)
        if sign is not None:
            sign(goal, digest, found.attestations)
        _tag(repository, digest, kind, content, *names)
    return Published(digest, names, parts, artifacts)


def _tag(repository: Repository, digest: str, kind: str, content: bytes, fixed: str, *moved: str) -> None:
    """Set the tags. Nothing in the protocol keeps two publishers apart: a registry that knows ``If-None-Match`` refuses
    the second, and at any other the one whose tag was replaced is told."""
    written = _check_fixed(repository, fixed, digest) is None
    if written:
        try:
            repository.put_manifest(fixed, kind, content, new=True)
        except PatchsetError:
            if _check_fixed(repository, fixed, digest) is None:
                raise
        _check_fixed(repository, fixed, digest)
    for tag in moved:
        repository.put_manifest(tag, kind, content)
    if written:
        time.sleep(SETTLE)
        _check_fixed(repository, fixed, digest)


def _check_fixed(repository: Repository, tag: str, digest: str) -> str | None:
    there = repository.digest_of(tag)
    if there is not None and there != digest:
        raise PatchsetError(
            f"{repository.reference.repository}:{tag} is {there} already; this image is {digest}, and that tag never moves",
            "somebody published another image: raise revision in release.toml; nox -s reproduce says what differs",
        )
    return there


@contextlib.contextmanager
def _opened(archives: list[Path], goal: Reference) -> Iterator[_Image]:
    """Read what archives hold; several of one architecture each become one index.

    Parts that stand at ``goal`` 's registry in the base's repository are named to be mounted from there, those at
    another are read from there when they are needed.
    """
    with contextlib.ExitStack() as stack:
        found, tops = _Image(), []
        for path in archives:
            layout = Layout(path)
            found.attestations.append(attestation.read(layout))
            entry = layout.index["manifests"][0]
            named = (entry.get("annotations") or {}).get(BASE)
            base = stack.enter_context(Repository(parse(named))) if isinstance(named, str) else None
            tops.append(_add(found, layout, entry, base, goal))
        if len(tops) > 1:  # one index over images of different architectures
            platforms = {(top.get("platform") or {}).get("architecture") for top in tops}
            if None in platforms or len(platforms) != len(tops):
                raise UsageError("several archives must be of one architecture each, and of different ones")
            tops.sort(key=lambda top: str(top["platform"]["architecture"]))
            content = media.dump({"schemaVersion": 2, "mediaType": media.INDEX, "manifests": tops})
            found.manifests[media.digest(content)] = (media.INDEX, content)
        yield found


def _add(
    found: _Image, layout: Layout, entry: dict[str, Any], base: Repository | None, goal: Reference
) -> dict[str, Any]:
    """Take a manifest and all below it, children first; its descriptor, with the platform."""
    content = layout.read(entry["digest"], media.MAX_MANIFEST)
    what = f"{layout.path}: {entry['digest']}"
    manifest = media.parse(content, what)
    kind = str(entry.get("mediaType") or manifest.get("mediaType") or "")
    top = media.descriptor(content, kind)
    if kind in media.INDEXES:
        for child in manifest.get("manifests") or ():
            _add(found, layout, media.check_descriptor(child, what), base, goal)
    elif kind in media.MANIFESTS:
        for part in media.parts(manifest, what):
            if not any(word in str(part.get("mediaType")) for word in _NOT_PASSED_ON):
                found.blobs.setdefault(part["digest"], _blob(layout, part, base, goal, what))
        config = media.parse(layout.read(manifest["config"]["digest"], media.MAX_CONFIG), what)
        names = ("architecture", "os", "variant")
        top["platform"] = {name: config[name] for name in names if name in config}
    else:
        raise PatchsetError(f"{what} is neither an image nor an index of some")
    found.manifests[top["digest"]] = (kind, content)
    return top


def _blob(layout: Layout, part: dict[str, Any], base: Repository | None, goal: Reference, what: str) -> Blob:
    digest, size = part["digest"], part["size"]
    if digest in layout:
        return Blob(digest, size, lambda start: layout.open(digest, start))
    if base is None:
        raise PatchsetError(f"{what} lacks its part {digest}", "build the image again")
    homes = (base.reference.name,) if base.reference.host == goal.host else ()
    return Blob(digest, size, lambda start: base.open_blob(digest, size, start), homes)
