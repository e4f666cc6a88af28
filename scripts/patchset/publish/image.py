# SPDX-License-Identifier: Apache-2.0
"""What is to be published: the manifests of one or several archives, and where each of their parts comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchset.attest import attestation
from patchset.attest.attestation import Contents
from patchset.base.errors import PatchsetError, UsageError
from patchset.image.thin import BASE
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.registry.layout import Layout
from patchset.registry.reference import Reference, parse
from patchset.registry.upload import Blob

#: Layers that may not be passed on come from where their ``urls`` say (OCI: nondistributable, docker: foreign).
_NOT_PASSED_ON = ("nondistributable", "foreign")


@dataclass
class Image:
    """``top`` is the descriptor of what tags name; ``manifests`` has every manifest, children first, with its kind."""

    top: dict[str, Any]
    manifests: list[tuple[str, str, bytes]] = field(default_factory=list)
    blobs: dict[str, Blob] = field(default_factory=dict)
    attestations: list[Contents] = field(default_factory=list)

    @property
    def size(self) -> int:
        """All parts together, in bytes."""
        return sum(blob.size for blob in self.blobs.values())


@contextlib.contextmanager
def opened(archives: list[Path], goal: Reference) -> Iterator[Image]:
    """Read what archives hold; several of one architecture each become one index.

    Parts that stand at ``goal`` 's registry in the base's repository are named to be mounted from there, those at
    another are read from there when they are needed.
    """
    with contextlib.ExitStack() as stack:
        found = Image({})
        tops = []
        for path in archives:
            layout = Layout(path)
            found.attestations.append(attestation.read(layout))
            entry = layout.index["manifests"][0]
            base_text = (entry.get("annotations") or {}).get(BASE)
            base = None
            if isinstance(base_text, str):
                base = stack.enter_context(Repository(parse(base_text)))
            tops.append(_add(found, layout, entry, base, goal))
        found.top = tops[0] if len(tops) == 1 else _joined(found, tops)
        yield found


def _add(
    found: Image, layout: Layout, entry: dict[str, Any], base: Repository | None, goal: Reference
) -> dict[str, Any]:
    """Take a manifest and all below it; its descriptor, with the platform."""
    content = layout.read(entry["digest"], media.MAX_MANIFEST)
    what = f"{layout.path}: {entry['digest']}"
    manifest = media.parse(content, what)
    kind = str(entry.get("mediaType") or manifest.get("mediaType") or "")
    top = {"mediaType": kind, "digest": entry["digest"], "size": len(content)}
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
    found.manifests.append((entry["digest"], kind, content))
    return top


def _blob(layout: Layout, part: dict[str, Any], base: Repository | None, goal: Reference, what: str) -> Blob:
    digest, size = part["digest"], part["size"]
    if digest in layout:
        return Blob(digest, size, lambda start: layout.open(digest, start))
    if base is None:
        raise PatchsetError(f"{what} lacks its part {digest}", "build the image again")
    homes = (base.reference.name,) if base.reference.host == goal.host else ()
    return Blob(digest, size, lambda start: base.open_blob(digest, size, start), homes)


def _joined(found: Image, tops: list[dict[str, Any]]) -> dict[str, Any]:
    """One index over images of different architectures."""
    platforms = [(top.get("platform") or {}).get("architecture") for top in tops]
    if None in platforms or len(set(platforms)) != len(platforms):
        raise UsageError("several archives must be of one architecture each, and of different ones")
    entries = sorted(tops, key=lambda top: str(top["platform"]["architecture"]))
    content = media.dump({"schemaVersion": 2, "mediaType": media.INDEX, "manifests": entries})
    found.manifests.append((media.digest(content), media.INDEX, content))
    return media.descriptor(content, media.INDEX)
