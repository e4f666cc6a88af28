# SPDX-License-Identifier: Apache-2.0
"""Publish a layout by skopeo and cosign; build a published image again and compare.

Everything goes by digest first, and the tags come last: an interruption leaves nothing
that can be pulled by tag, and the next run goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from patchset import console, files, paths, process
from patchset.errors import (
    MissingToolError,
    NotFoundError,
    PatchsetError,
    UnavailableError,
    UsageError,
)
from patchset.image import debian, engine, labels, layout, sbom, skopeo, thin
from patchset.image.layout import Image
from patchset.image.skopeo import Reference
from patchset.inputs import lock as locks
from patchset.release import Arch, Release, Target, load
from patchset.series.apply import PatchedRelease

_OURS = "only an image that nox -s publish pushed can be built again"


@dataclass(frozen=True)
class Published:
    """The digest behind the tags, and whether cosign signed it."""

    digest: str
    tags: list[str]
    signed: bool


@dataclass
class Report:
    """Both digests, and the differences; ``rebuilt`` is None if nothing was built."""

    published: str
    rebuilt: str | None = None
    differences: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether the rebuilt image is the published one."""
        return self.rebuilt == self.published


def tags(release: Release, target: Target) -> list[str]:
    """Return the tags of an image: ``v0.33.0-mtp.1``, ``v0.33.0``, perhaps ``latest``.

    The first never moves. A CPU image's end in ``-cpu``.
    """
    names = [f"{release.name}-mtp.{release.revision}", release.name]
    names += ["latest"] if release.default else []
    return [name + ("-cpu" if target == "cpu" else "") for name in names]


def built(release: Release, target: Target) -> Path:
    """Return the folder of a release's image in the build folder."""
    places = [thin.folder(release, target)]
    places += [debian.folder(release, target, arch) for arch in get_args(Arch)]
    found = [place for place in places if place.is_dir()]
    if not found:
        raise UsageError(
            f"no image of {release.name} for {target} was built here",
            f"nox -s build-image -- {release.name} --target {target} makes one",
        )
    if found[0] != places[0] and len(found) > 1:
        raise UsageError("images for two architectures were built", "name one: --image")
    return found[0]


def publish(
    goal: Reference,
    folder: Path,
    patched: PatchedRelease,
    target: Target,
    *,
    sign: bool = False,
    key: str | None = None,
) -> Published:
    """Publish the image in a folder under its tags. The first tag is never moved.

    Args:
        goal: The repository.
        folder: What ``build-image`` made.
        patched: The release that the image must be of.
        target: The target that the image must be for.
        sign: Sign with cosign, and attach the bill of materials and the provenance.
        key: What cosign signs with; by default, the identity of whoever runs it.
    """
    if goal.tag or goal.digest:
        raise UsageError(
            f"{goal} names a tag or digest",
            f"tags are given here; name {goal.repository}",
        )
    if sign and shutil.which("cosign") is None:
        raise MissingToolError(
            "cosign is not installed", "install it, or publish without --sign and --key"
        )
    image, name = layout.load(folder / "image")
    _check(image, folder, patched, target)
    fixed, *moved = tags(patched.pin, target)
    try:
        _check_fixed(goal.tagged(fixed), image.digest)
    except NotFoundError:
        pass
    except UnavailableError:  # some registries deny what does not exist yet
        console.note(f"  {goal.host} does not say whether {fixed} exists yet")
    with console.step(f"push {image.digest} to {goal.repository}"):
        for part in image.parts:
            if base := part.labels.get(labels.BASE_NAME):
                digest = part.labels[labels.BASE_DIGEST]
                _push(skopeo.parse(base).at(digest), goal.at(digest), None)
        _push(f"oci:image:{name}", goal.at(image.digest), folder)
    if sign:
        _sign(goal.at(image.digest), folder, key)
    for tag in (fixed, *moved):
        there = skopeo.digest(goal.tagged(tag))
        if tag == fixed and there is not None:
            _check_fixed(goal.tagged(tag), image.digest)
        if there != image.digest:
            skopeo.copy(goal.at(image.digest), goal.tagged(tag))
            _check_fixed(goal.tagged(tag), image.digest)
    return Published(image.digest, [fixed, *moved], sign)


def _push(source: Reference | str, goal: Reference, cwd: Path | None) -> None:
    """Copy an image by digest, unless it is there."""
    try:
        there = skopeo.digest(goal) is not None
    except UnavailableError:
        there = False  # the copy says why
    if not there:
        skopeo.copy(source, goal, cwd=cwd)


def _check(image: Image, folder: Path, patched: PatchedRelease, target: Target) -> None:
    """Refuse an image that is not of this release and checkout."""
    for part in image.parts:
        if found := _differing(part.labels, labels.inputs(patched, target)):
            raise PatchsetError(
                f"{folder.name} was not made from this checkout: {found[0]}",
                "build the image again",
            )
    for name in sbom.KINDS.values():
        if not (folder / name).is_file():
            raise PatchsetError(f"{folder} has no {name}", "build the image again")


def _check_fixed(reference: Reference, digest: str) -> None:
    there = layout.digest(skopeo.raw(reference))
    if there != digest:
        raise PatchsetError(
            f"{reference} is {there}; this image is {digest}",
            "a published tag never moves: raise revision in release.toml; "
            "nox -s reproduce says what differs",
        )


def _sign(image: Reference, folder: Path, key: str | None) -> None:
    options = ["--yes", *(["--key", key] if key else [])]
    options += ["--allow-http-registry"] if image.loopback else []
    work = [["sign", "--recursive"]]
    for kind, file in sbom.KINDS.items():
        work.append(["attest", "--type", kind, "--predicate", str(folder / file)])
    with console.step(f"sign {image}"):
        for words in work:
            argv = ["cosign", *words, *options, str(image)]
            process.run(argv, prefix="cosign")


def reproduce(reference: Reference) -> Report:
    """Build again what a reference names."""
    image = skopeo.look(reference)
    report = Report(image.digest)
    names = (labels.RELEASE, labels.TARGET, labels.VERSION, labels.SERIES)
    first, *others = [part.labels for part in image.parts] or [{}]
    for name in names:
        if name not in first:
            raise PatchsetError(f"{reference} has no label {name}", _OURS)
        if any(other.get(name) != first[name] for other in others):
            raise PatchsetError(f"the architectures of {reference} differ in {name}")
    patched = PatchedRelease(load(first[labels.RELEASE]))
    if first[labels.TARGET] not in get_args(Target):
        raise PatchsetError(f"{reference} is for an unknown target", _OURS)
    target = cast(Target, first[labels.TARGET])
    report.differences = _differing(first, labels.inputs(patched, target))
    if report.differences:
        return report
    paths.build_dir().mkdir(parents=True, exist_ok=True)
    with files.scratch(paths.build_dir()) as folder:
        again = None
        if labels.BASE_DIGEST in first:
            again = _thin(reference, image, patched, target, folder / "again")
        elif len(image.parts) == 1 and labels.ROOTFS in first:
            again = _whole(image, patched, target, report)
        else:
            raise PatchsetError(f"{reference} has no label that names its base", _OURS)
        if again:
            found, _ = layout.load(again / "image")
            report.rebuilt = found.digest
            report.differences += [] if report.same else _compare(image, found)
    return report


def _differing(published: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    return [
        f"{name}: {value} here, {published.get(name)} in the published image"
        for name, value in here.items()
        if published.get(name) != value
    ]


def _thin(
    reference: Reference,
    image: Image,
    patched: PatchedRelease,
    target: Target,
    out: Path,
) -> Path:
    """Build a thin image again in ``out``."""
    name, bases = image.parts[0].labels.get(labels.BASE_NAME, ""), []
    for part in image.parts:
        digest = part.labels.get(labels.BASE_DIGEST, "")
        if not name or not layout.DIGEST.fullmatch(digest):
            raise PatchsetError(f"{reference} names no base by digest", _OURS)
        try:  # publish brought it there
            base = skopeo.look(reference.at(digest))
        except NotFoundError:
            base = skopeo.look(skopeo.parse(name).at(digest))
        bases += [found for found in base.parts if found.arch == part.arch]
    base = Image("", tuple(bases))
    wheels = thin.wheels(patched, target, base, [part.arch for part in bases])
    return thin.build(patched, target, wheels, base, name, out).folder


def _whole(
    image: Image, patched: PatchedRelease, target: Target, report: Report
) -> Path | None:
    """Build a whole image again; None if its inputs differ here."""
    part = image.parts[0]
    said = part.labels
    lock = locks.lock_file(patched.pin, target, part.arch)
    here = {
        labels.LOCK_SHA256: files.sha256_file(lock) if lock.is_file() else "none",
        labels.SNAPSHOT: debian.snapshot() or "none",
    }
    report.differences = _differing(said, here)
    if not report.differences:
        rootfs = debian.rootfs(target, part.arch, patched.pin.source_date_epoch)
        sums = {labels.ROOTFS_SHA256: files.sha256_file(rootfs)}
        report.differences = _differing(said, sums)
    if report.differences:
        console.note(
            "  Debian's packages move on: keep build/images/base, or name a day"
        )
        return None
    which = engine.find(said.get(labels.ENGINE), part.arch)
    return debian.build(patched, target, part.arch, which, again=True).folder


def _compare(published: Image, again: Image) -> list[str]:
    """Say in which labels and layers two images differ."""
    here = {part.arch: part for part in again.parts}
    found: list[str] = []
    for part in published.parts:
        if part.arch not in here:
            found.append(f"{part.arch} is not in the image built here")
            continue
        other = here[part.arch]
        found += _differing(part.labels, other.labels)
        old, new = (each.config["rootfs"]["diff_ids"] for each in (part, other))
        if len(old) != len(new):
            found.append(f"{part.arch}: {len(old)} layers, {len(new)} here")
        for number, pair in enumerate(zip(old, new, strict=False), start=1):
            if pair[0] != pair[1]:
                found.append(f"{part.arch}: layer {number} differs")
    return found
