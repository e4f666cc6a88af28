# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an image (CycloneDX), with the patches in it."""

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import (
    Component,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from patchset import files, paths
from patchset.image import labels
from patchset.inputs.lock import Locked
from patchset.release import Arch
from patchset.series.apply import PatchedRelease
from patchset.series.read import REASON, read_series

#: The file's name, beside the layout.
FILE = "sbom.cdx.json"


def write(
    folder: Path,
    patched: PatchedRelease,
    digest: str,
    wheels: Mapping[Arch, Path],
    below: Mapping[str, str],
    packages: Iterable[Locked] = (),
) -> None:
    """Write the bill of materials of an image into a folder.

    Args:
        folder: Where it goes.
        patched: The release.
        digest: The image's.
        wheels: The patched wheels in it.
        below: The sha256 of each base, by name.
        packages: What is installed beside vLLM, of a whole image.
    """
    release = patched.pin
    image = Component(
        name="vllm-mtp-patches",
        version=f"{release.name}-mtp.{release.revision}",
        type=ComponentType.CONTAINER,
        bom_ref="image",
        purl=PackageURL("oci", name="vllm-mtp-patches", version=digest),
        hashes=_sha256(digest),
    )
    components = [_vllm(patched, *pair) for pair in wheels.items()]
    components += [
        Component(
            name=name,
            type=ComponentType.CONTAINER,
            bom_ref=name,
            description="below the layers made here; its publisher says what is in it",
            hashes=_sha256(sha256),
        )
        for name, sha256 in below.items()
    ]
    components += [
        _package(*package[:2], package.wheel.sha256, f"pypi-{package.name}")
        for package in packages
    ]
    bill = Bom(
        components=components,
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest),
        metadata=BomMetaData(component=image, timestamp=labels.created(release)),
    )
    bill.register_dependency(image, components)
    text = JsonV1Dot6(bill).output_as_string(indent=1)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def _sha256(digest: str) -> list[HashType]:
    content = digest.removeprefix("sha256:")
    return [HashType(alg=HashAlgorithm.SHA_256, content=content)]


def _package(name: str, version: str, sha256: str, ref: str | None = None) -> Component:
    """Return a package of the package index."""
    return Component(
        name=name,
        version=version,
        bom_ref=ref,
        purl=PackageURL("pypi", name=name, version=version),
        hashes=_sha256(sha256),
    )


def _vllm(patched: PatchedRelease, arch: Arch, wheel: Path) -> Component:
    """Return the patched vLLM, with its ancestor and each patch."""
    release, root = patched.pin, paths.patches_dir()
    official = patched.wheel(arch)
    ancestor = _package(official.project, release.version, official.sha256)
    patches = [
        Patch(
            type=PatchClassification.UNOFFICIAL,
            diff=Diff(url=XsUri(f"{root.name}/{name}")),
        )
        for name in read_series(release).inputs
        if not name.endswith(REASON)
    ]
    return Component(
        name="vllm",
        version=patched.version,
        bom_ref=f"vllm-{arch}",
        purl=PackageURL("pypi", name="vllm", version=patched.version),
        hashes=_sha256(files.sha256_file(wheel)),
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        pedigree=Pedigree(ancestors=[ancestor], patches=patches),
    )
