# SPDX-License-Identifier: Apache-2.0
"""Making a published image again from its inputs.lock, and saying what differs when it comes out otherwise."""

from __future__ import annotations

import gzip
import hashlib
import io
import platform
import tarfile
import zlib
from dataclasses import dataclass, field

from patchset import console, files, paths
from patchset.attest import attestation, inputs
from patchset.attest.inputs import Inputs
from patchset.errors import PatchsetError, UsageError
from patchset.image import build, debian_base, engine, thin
from patchset.publish import attached
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.registry.layout import Layout
from patchset.registry.reference import Reference, parse
from patchset.release import GOARCH, Arch, load
from patchset.series.patched_release import PatchedRelease

#: Bound of a thin layer that is unpacked to be compared, in bytes.
_MAX_UNPACKED = 64 << 20


@dataclass
class Report:
    """``published`` and ``rebuilt`` digests, and every difference; ``rebuilt`` None: other inputs, not built."""

    published: str
    rebuilt: str | None = None
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return self.rebuilt == self.published and not self.differences


def reproduce(what: str) -> list[Report]:
    """Make an image again: ``what`` is a reference in a registry, or a tag with a file in ``published/``."""
    if "/" not in what:
        found = sorted((paths.project_root() / "published").glob(f"{what}*.inputs.lock"))
        exact = [place for place in found if place.name.startswith(f"{what}.")]
        if not exact:
            raise UsageError(
                f"published/ has no inputs.lock of {what}",
                "name the image with its registry: REGISTRY/NAME:TAG",
            )
        locks, image = [inputs.read(place.read_bytes(), str(place)) for place in exact], None
    else:
        reference = parse(what)
        with Repository(reference) as repository:
            image = reference.at(attached.digest(repository))
            contents = attached.read(repository, image.wanted)[attestation.INPUTS]
        if not contents:
            raise UsageError(f"nothing with an inputs.lock refers to {reference}", "publish attaches one")
        locks = [inputs.read(content, f"inputs.lock of {reference}") for content in contents]
    return [_one(made, image) for made in locks]


def _one(made: Inputs, reference: Reference | None) -> Report:
    patched = PatchedRelease(load(made.release))
    wanted = {source.file: source.sha256 for source in made.sources if not source.file.endswith(".tar")}
    pinned = inputs.sources(patched.pin, made.target, made.archs)
    report = Report(made.digest, notes=inputs.differing(made.tool, inputs.tool_files()))
    report.differences += inputs.differing(made.files, inputs.checkout_files(patched, made.target, made.kind))
    report.differences += inputs.differing(wanted, {source.file: source.sha256 for source in pinned})
    if not report.differences:
        if made.kind == "thin":
            _thin(made, patched, reference, report)
        else:
            _full(made, patched, report)
    return report


def _thin(made: Inputs, patched: PatchedRelease, reference: Reference | None, report: Report) -> None:
    if made.base is None:
        raise PatchsetError("the inputs.lock of a thin image names no base")
    with files.scratch(paths.build_dir()) as folder:
        again = thin.build(
            patched,
            made.target,
            made.archs,
            str(parse(made.base.reference).at(made.base.digest)),
            site=made.base.site,
            version=made.base.version,
            out=folder / "again-thin.oci.tar",
        )
        report.rebuilt = again.digest
        if again.digest == made.digest or reference is None:
            return
        for arch, (digest, _) in again.layers.items():
            with console.step(f"compare the layers for {arch}"):
                here = _members(Layout(again.path).read(digest, thin.MAX_LAYER))
                there = _members(_published_layer(reference, arch))
            for name in sorted({*here, *there}):
                if name not in here:
                    report.differences.append(f"{arch} layer, {name}: is missing here")
                elif name not in there:
                    report.differences.append(f"{arch} layer, {name}: is missing in the published image")
                elif here[name] != there[name]:
                    report.differences.append(f"{arch} layer, {name}: differs")


def _published_layer(reference: Reference, arch: Arch) -> bytes:
    with Repository(reference) as repository:
        manifest = media.parse(repository.manifest(reference.wanted)[2], str(reference))
        for entry in manifest.get("manifests") or ():
            if (entry.get("platform") or {}).get("architecture") == GOARCH[arch]:
                manifest = media.parse(repository.manifest(entry["digest"])[2], str(reference))
        last = media.parts(manifest, str(reference))[-1]
        return repository.blob(last["digest"], last["size"], thin.MAX_LAYER)


def _members(packed: bytes) -> dict[str, tuple[int, str]]:
    """The mode and sha256 of each member of a layer."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(_MAX_UNPACKED + 1)
        if len(content) > _MAX_UNPACKED:
            raise PatchsetError(f"the layer unpacks to more than {_MAX_UNPACKED} bytes")
        found = {}
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            for member in tar:
                file_object = tar.extractfile(member) if member.isreg() else None
                text = file_object.read() if file_object else b""
                found[member.name] = (member.mode, hashlib.sha256(text).hexdigest())
        return found
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise PatchsetError(f"the published layer cannot be read: {error}") from error


def _full(made: Inputs, patched: PatchedRelease, report: Report) -> None:
    """Build anew with the engine that was used, on the same base: from the same snapshot, or a file that must be there."""
    found = [source for source in made.sources if source.file.endswith(".tar")]
    if len(found) != 1 or len(made.archs) != 1:
        raise PatchsetError("the inputs.lock of a full image must name one base and one architecture")
    (rootfs,), (arch,) = found, made.archs
    if debian_base.snapshot() != made.snapshot:
        with_it = f"with {debian_base.SNAPSHOT}={made.snapshot}"
        before = with_it if made.snapshot else f"without {debian_base.SNAPSHOT}"
        report.differences.append(f"the base: made {before} in the published image; do the same here")
        return
    if made.snapshot:
        debian_base.rootfs(made.target, arch, patched.pin.source_date_epoch)
    place = paths.images_dir() / "base" / rootfs.file
    if not place.is_file() or files.sha256_file(place) != rootfs.sha256:
        report.differences.append(
            f"{place}: not the base that the image was made on (sha256 {rootfs.sha256}); Debian's packages move on, "
            "keep that file to make the image again"
        )
        return
    which = engine.find(made.engine, arch=arch, machine=platform.machine())
    tag = f"vllm-mtp-patches-again:{made.release}-{made.target}"
    report.rebuilt = build.build(patched, made.target, arch, which, tag=tag, cached=False).archive.digest
