# SPDX-License-Identifier: Apache-2.0
"""The attestations of an image. They are blobs of its archive, so that the two are written together or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchset.attest import inputs
from patchset.attest import provenance as provenances
from patchset.attest import sbom as sboms
from patchset.attest.inputs import Inputs
from patchset.attest.labels import OWN
from patchset.errors import PatchsetError
from patchset.registry import media
from patchset.registry.layout import Layout
from patchset.release import Arch
from patchset.series.patched_release import PatchedRelease

#: Bound of one attestation in bytes; the bill of a full image has half a megabyte.
MAX_BYTES = 16 << 20


@dataclass(frozen=True)
class Attestation:
    """One kind of attestation: its media type, what messages call it, and the annotation that names its blob."""

    media_type: str
    title: str
    annotation: str


INPUTS = Attestation("application/vnd.vllm-mtp-patches.inputs+json", "inputs.lock", OWN + "inputs")
SBOM = Attestation("application/vnd.cyclonedx+json", "bill of materials", OWN + "sbom")
PROVENANCE = Attestation("application/vnd.in-toto+json", "provenance", OWN + "provenance")
ALL = (INPUTS, SBOM, PROVENANCE)

Contents = Mapping[Attestation, bytes]


def write(
    made: Inputs,
    patched: PatchedRelease,
    wheels: dict[Arch, Path],
    *,
    installed: Iterable[Path] = (),
    rootfs: Path | None = None,
) -> Contents:
    """All attestations of an image that was made."""
    return {
        INPUTS: made.text().encode(),
        SBOM: sboms.sbom(made, patched, wheels, installed=installed, rootfs=rootfs),
        PROVENANCE: provenances.provenance(made, patched.pin),
    }


def by_annotation(contents: Contents) -> dict[str, bytes]:
    """The attestations by the annotations of an archive's index that name them."""
    return {kind.annotation: content for kind, content in contents.items()}


def read(layout: Layout) -> Contents:
    """The attestations that an archive holds."""
    entries = layout.index["manifests"]
    if len(entries) != 1:
        raise PatchsetError(f"{layout.path} holds {len(entries)} images, not one")
    digest = media.check_descriptor(entries[0], str(layout.path))["digest"]
    said = entries[0].get("annotations") or {}
    found = {}
    for kind in ALL:
        if not isinstance(blob := said.get(kind.annotation), str):
            raise PatchsetError(f"{layout.path} has no {kind.title}", "build the image again")
        found[kind] = layout.read(blob, MAX_BYTES)
        check_subject(kind, found[kind], {digest}, str(layout.path))
    return found


def check_subject(kind: Attestation, content: bytes, digests: Collection[str], where: str) -> None:
    """Refuse an attestation that is not about one of these images alone."""
    what = f"{where}: its {kind.title}"
    try:
        if kind == INPUTS:
            found = inputs.read(content, what).digest
        elif kind == SBOM:
            (entry,) = media.parse(content, what)["metadata"]["component"]["hashes"]
            found = f"{entry['alg']}:{entry['content']}".replace("SHA-256", "sha256")
        else:
            (subject,) = media.parse(content, what)["subject"]
            found = f"sha256:{subject['digest']['sha256']}"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PatchsetError(f"{what} names no image ({error!r})") from error
    if found not in digests:
        raise PatchsetError(
            f"{what} is of {found}, not of {' or '.join(sorted(digests))}",
            "build the image again; what stands in a registry is to be deleted there",
        )
