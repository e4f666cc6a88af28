# SPDX-License-Identifier: Apache-2.0
"""From a layout to a registry that people pull from, by skopeo; signed by cosign.

Everything goes by digest first, and the tags come last: an interruption leaves nothing
that can be pulled by tag, and the next run goes on.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from patchset import console, process
from patchset.errors import (
    MissingToolError,
    NotFoundError,
    PatchsetError,
    UnavailableError,
    UsageError,
)
from patchset.image import debian, labels, layout, sbom, skopeo, thin
from patchset.image.layout import Image
from patchset.image.skopeo import Reference
from patchset.release import Arch, Release, Target
from patchset.series.patched_release import PatchedRelease


@dataclass(frozen=True)
class Published:
    """The digest behind the tags, and whether cosign signed it."""

    digest: str
    tags: list[str]
    signed: bool


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
        console.note(
            f"  {goal.host} does not say whether {fixed} exists; it is asked again"
        )
    with console.step(f"push {image.digest} to {goal.repository}"):
        for base, digest in _bases(image):
            if not _has(goal.at(digest)):
                skopeo.copy(base.at(digest), goal.at(digest))
        if not _has(goal.at(image.digest)):
            skopeo.copy(f"oci:image:{name}", goal.at(image.digest), cwd=folder)
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


def _has(reference: Reference) -> bool:
    try:
        return skopeo.digest(reference) is not None
    except UnavailableError:
        return False  # what comes next says why


def _bases(image: Image) -> list[tuple[Reference, str]]:
    """Return what a thin image stands on: the parts of its base."""
    return [
        (skopeo.parse(part.labels[labels.BASE_NAME]), part.labels[labels.BASE_DIGEST])
        for part in image.parts
        if labels.BASE_NAME in part.labels
    ]


def _check(image: Image, folder: Path, patched: PatchedRelease, target: Target) -> None:
    """Refuse an image that is not of this release and checkout."""
    wanted = {
        labels.VERSION: patched.pin.built_version(target),
        labels.TARGET: target,
        labels.SERIES: patched.digest,
    }
    for part in image.parts:
        for name, value in wanted.items():
            if (found := part.labels.get(name)) != value:
                raise PatchsetError(
                    f"{folder.name} was not made from this checkout: "
                    f"{name} is {found}, not {value}",
                    "build the image again",
                )
    if missing := [
        name for name in sbom.KINDS.values() if not (folder / name).is_file()
    ]:
        raise PatchsetError(
            f"{folder} has no {' and no '.join(missing)}", "build the image again"
        )


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
    with console.step(f"sign {image}"):
        process.run(
            ["cosign", "sign", "--recursive", *options, str(image)], prefix="cosign"
        )
        for kind, file in sbom.KINDS.items():
            argv = [
                "cosign",
                "attest",
                "--type",
                kind,
                "--predicate",
                str(folder / file),
            ]
            process.run([*argv, *options, str(image)], prefix="cosign")
