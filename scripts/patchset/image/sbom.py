# SPDX-License-Identifier: Apache-2.0
"""What goes beside an image: a bill of materials (CycloneDX) and a provenance (SLSA)."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property, XsUri
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

from patchset import console, files, git, paths
from patchset.errors import PatchsetError, UsageError
from patchset.image import labels
from patchset.image.layout import Part
from patchset.inputs.lock import Locked
from patchset.release import Arch, Release, Target
from patchset.series.apply import PatchedRelease
from patchset.wheel.archive import Wheel
from patchset.wheel.overlay import changed_files

#: The names of the files, by what cosign calls them.
SBOM, PROVENANCE = "sbom.cdx.json", "provenance.json"
KINDS = {"slsaprovenance1": PROVENANCE, "cyclonedx": SBOM}
#: Names the builder in the provenance.
BUILDER = "PATCHSET_BUILDER_ID"
_LOCAL = "urn:vllm-mtp-patches:builder:local"


def write(
    folder: Path,
    patched: PatchedRelease,
    target: Target,
    digest: str,
    wheels: Mapping[Arch, Path],
    *,
    bases: Sequence[Part] = (),
    packages: Iterable[Locked] = (),
    inputs: Mapping[str, str] | None = None,
) -> None:
    """Write both files of an image into a folder.

    Args:
        folder: Where they go.
        patched: The release.
        target: What vLLM computes on.
        digest: The image's.
        wheels: The patched wheels in it.
        bases: The parts of the image below, of a thin image.
        packages: What is installed beside vLLM, of a whole image.
        inputs: More that the image was made of: the sha256 by name.
    """
    bill = _bill(patched, digest, wheels, bases, packages)
    text = JsonV1Dot6(bill).output_as_string(indent=1)
    (folder / SBOM).write_text(text + "\n", encoding="utf-8")
    found = {**_pins(patched.pin, target, wheels), **(inputs or {})}
    found |= {f"base for {part.arch}": part.digest for part in bases}
    predicate = _provenance(patched, target, list(wheels), found)
    (folder / PROVENANCE).write_text(json.dumps(predicate, indent=1) + "\n")


def _bill(
    patched: PatchedRelease,
    digest: str,
    wheels: Mapping[Arch, Path],
    bases: Sequence[Part],
    packages: Iterable[Locked],
) -> Bom:
    release = patched.pin
    image = Component(
        name="vllm-mtp-patches",
        version=f"{release.name}-mtp.{release.revision}",
        type=ComponentType.CONTAINER,
        bom_ref="image",
        purl=PackageURL("oci", name="vllm-mtp-patches", version=digest),
        hashes=_sha256(digest),
    )
    components = [_vllm(patched, arch, wheel) for arch, wheel in wheels.items()]
    components += _files(next(iter(wheels.values())))
    components += [
        Component(
            name=part.labels.get("org.opencontainers.image.title", "base"),
            type=ComponentType.CONTAINER,
            version=part.digest,
            bom_ref=f"base-{part.arch}",
            description="the image below the layer; its publisher says what is in it",
            hashes=_sha256(part.digest),
        )
        for part in bases
    ]
    components += [
        Component(
            name=package.name,
            version=package.version,
            bom_ref=f"pypi-{package.name}",
            purl=PackageURL("pypi", name=package.name, version=package.version),
            hashes=_sha256(package.wheel.sha256),
        )
        for package in packages
    ]
    bill = Bom(
        components=components,
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest),
        metadata=BomMetaData(component=image, timestamp=labels.created(release)),
    )
    bill.register_dependency(image, components)
    return bill


def _sha256(digest: str) -> list[HashType]:
    content = digest.removeprefix("sha256:")
    return [HashType(alg=HashAlgorithm.SHA_256, content=content)]


def _vllm(patched: PatchedRelease, arch: Arch, wheel: Path) -> Component:
    """Return the patched vLLM, with its ancestor and each patch."""
    release, version = patched.pin, wheel.name.split("-")[1]
    official = release.wheel("cpu" if version.endswith(".cpu") else "cuda", arch)
    ancestor = Component(
        name=official.project,
        version=release.version,
        purl=PackageURL("pypi", name=official.project, version=release.version),
        hashes=_sha256(official.sha256),
    )
    diffs = [file.relative_to(paths.project_root()) for file in patched.files]
    return Component(
        name="vllm",
        version=version,
        bom_ref=f"vllm-{arch}",
        hashes=_sha256(files.sha256_file(wheel)),
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
        pedigree=Pedigree(
            ancestors=[ancestor],
            patches=[
                Patch(
                    type=PatchClassification.UNOFFICIAL,
                    diff=Diff(url=XsUri(diff.as_posix())),
                )
                for diff in diffs
            ],
        ),
    )


def _files(wheel_file: Path) -> list[Component]:
    """Return the files of vLLM that the series changes."""
    with Wheel(wheel_file) as wheel:
        changed = changed_files(wheel)
    return [
        Component(
            name=path,
            type=ComponentType.FILE,
            bom_ref=f"file-{path}",
            hashes=_sha256(sums["patched"]) if sums["patched"] else None,
            properties=[Property(name="stock-sha256", value=str(sums["stock"]))],
        )
        for path, sums in sorted(changed.items())
    ]


def _pins(release: Release, target: Target, archs: Iterable[Arch]) -> dict[str, str]:
    """Return the sha256 of what a release's patched wheels are made of."""
    pins = [release.sdist, *(release.wheel(target, arch) for arch in archs)]
    return {pin.file: pin.sha256 for pin in pins}


def _provenance(
    patched: PatchedRelease, target: Target, archs: list[Arch], inputs: dict[str, str]
) -> dict[str, Any]:
    """Return the predicate of https://slsa.dev/provenance/v1."""
    builder = os.environ.get(BUILDER) or _LOCAL
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+", builder):
        raise UsageError(f"{BUILDER} is not a URI: {builder[:200]!r}")
    commit, state = _checkout()
    if state != "clean":
        console.note(f"  provenance: checkout {state}; no commit can be named for it")
    found: list[dict[str, Any]] = [
        {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}
        for name, digest in inputs.items()
    ]
    found.append({"name": "series", "digest": {"sha256": patched.digest}})
    if commit:
        found.append({"uri": "git+file:.", "digest": {"gitCommit": commit}})
    return {
        "buildDefinition": {
            "buildType": "urn:vllm-mtp-patches:build-image:2",
            "externalParameters": {
                "release": patched.pin.name,
                "target": target,
                "architectures": archs,
            },
            "internalParameters": {
                "source-date-epoch": patched.pin.source_date_epoch,
                "checkout": state,
            },
            "resolvedDependencies": found,
        },
        "runDetails": {"builder": {"id": builder}},
    }


def _checkout() -> tuple[str, str]:
    """Return the checkout's commit, and "clean", "dirty" or "no commit"."""
    root = paths.project_root()
    try:
        if Path(git.text(root, "rev-parse", "--show-toplevel")).resolve() != root:
            return "", "no commit"
        state = "dirty" if git.text(root, "status", "--porcelain") else "clean"
        return git.text(root, "rev-parse", "HEAD"), state
    except PatchsetError:
        return "", "no commit"
