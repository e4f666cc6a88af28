# SPDX-License-Identifier: Apache-2.0
"""The papers of an image as files beside its archive: ``ARCHIVE.inputs.lock``, ``.sbom.json``, ``.provenance.json``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patchset import files
from patchset.image.wheelhouse import Locked
from patchset.release import Arch, Release
from patchset.supply import provenance as provenances
from patchset.supply import sbom as sboms
from patchset.supply.inputs import Inputs

INPUTS_TYPE = "application/vnd.vllm-mtp-patches.inputs+json"


@dataclass(frozen=True)
class Paper:
    """One kind of paper: its ``suffix`` beside an archive, its media type, and what it is called in messages."""

    suffix: str
    media_type: str
    title: str


INPUTS = Paper(".inputs.lock", INPUTS_TYPE, "inputs.lock")
SBOM = Paper(".sbom.json", sboms.MEDIA_TYPE, "bill of materials")
PROVENANCE = Paper(".provenance.json", provenances.MEDIA_TYPE, "provenance")
ALL = (INPUTS, SBOM, PROVENANCE)


def beside(archive: Path, paper: Paper) -> Path:
    """Where a paper of an archive stands."""
    return archive.with_name(archive.name.removesuffix(".oci.tar") + paper.suffix)


def write(
    archive: Path,
    made: Inputs,
    release: Release,
    wheels: dict[Arch, Path],
    *,
    locks: Iterable[Locked] = (),
    rootfs: Path | None = None,
) -> None:
    """Write all papers of an image that was made."""
    contents = {
        INPUTS: made.text().encode(),
        SBOM: sboms.sbom(made, release, wheels, locks=locks, rootfs=rootfs),
        PROVENANCE: provenances.provenance(made, release),
    }
    for paper, content in contents.items():
        with files.whole_file(beside(archive, paper)) as unfinished:
            unfinished.write_bytes(content)
