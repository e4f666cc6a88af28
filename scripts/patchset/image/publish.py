# SPDX-License-Identifier: Apache-2.0
"""Publish an image by skopeo and cosign; reproduce a published thin image.

Everything goes by digest first, and the tags come last: an interruption leaves nothing
that can be pulled by tag, and the next run goes on.
"""

import contextlib
import shutil
from collections.abc import Mapping
from typing import cast, get_args

from packaging.version import InvalidVersion, Version

from patchset import console, files, paths, process
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.image import labels, layout, sbom, skopeo, thin
from patchset.image.layout import Image, Part
from patchset.image.skopeo import Reference
from patchset.release import Release, Target, load
from patchset.series.apply import PatchedRelease

_OURS = "only a thin image that nox -s publish pushed can be built again"


def tags(release: Release, target: Target) -> list[str]:
    """Return the tags of an image: ``v0.33.0-mtp.1``, ``v0.33.0``, perhaps ``latest``.

    The first never moves. A CPU image's end in ``-cpu``.
    """
    names = [f"{release.name}-mtp.{release.revision}", release.name]
    names += ["latest"] if release.default else []
    return [name + ("-cpu" if target == "cpu" else "") for name in names]


def publish(
    goal: Reference, patched: PatchedRelease, target: Target, *, sign: bool = False
) -> tuple[Reference, list[Reference]]:
    """Publish the image that was built last; return it by digest, and its tags.

    A tag of a newer version stays, as when an old checkout publishes.
    ``sign`` has cosign sign it before it has any, and attach the bill of materials.
    """
    if goal.tag or goal.digest:
        raise UsageError(
            f"{goal} names a tag or digest",
            f"tags are given here; name {goal.tagged(None)}",
        )
    folder = layout.folder(patched.pin, target)
    if not folder.is_dir():
        raise UsageError(
            f"no image of {patched.pin.name} for {target} was built here",
            f"nox -s build-image -- {patched.pin.name} --target {target} makes one",
        )
    if sign and shutil.which("cosign") is None:
        raise MissingToolError(
            "cosign is not installed", "install it, or publish without --sign"
        )
    image = layout.load(folder / "image")
    for part in image.parts:
        if found := _differing(part.labels, labels.inputs(patched, target)):
            raise PatchsetError(
                f"{folder} was not made from this checkout: {found[0]}",
                "build the image again",
            )
    fixed, *_ = names = tags(patched.pin, target)
    there = {name: skopeo.digest(goal.tagged(name)) for name in names}
    if there[fixed] not in (None, image.digest):
        raise PatchsetError(
            f"{goal.tagged(fixed)} is {there[fixed]}; this image is {image.digest}",
            "a published tag never moves: raise revision in release.toml; "
            "nox -s reproduce says what differs",
        )
    version = Version(patched.pin.built_version(target))
    for name in [name for name in names if there[name] not in (None, image.digest)]:
        if (theirs := _version(goal.tagged(name))) and theirs > version:
            console.note(
                f"{goal.tagged(name)} is not moved: {theirs} is newer than {version}"
            )
            names.remove(name)
    with console.step(f"push {image.digest} to {goal}"):
        for part in image.parts:
            if labels.BASE_DIGEST in part.labels:
                digest = part.labels[labels.BASE_DIGEST]
                base = skopeo.parse(part.labels[labels.BASE_NAME])
                skopeo.copy(base.at(digest), goal.at(digest))
        skopeo.copy("oci:image", goal.at(image.digest), cwd=folder)
    if sign:
        bill = ["--type", "cyclonedx", "--predicate", str(folder / sbom.FILE)]
        for words in (["sign", "--recursive"], ["attest", *bill]):
            argv = ["cosign", *words, "--yes", str(goal.at(image.digest))]
            process.run(argv, prefix="cosign")
    for name in names:
        if there[name] != image.digest:
            skopeo.copy(goal.at(image.digest), goal.tagged(name))
    return goal.at(image.digest), [goal.tagged(name) for name in names]


def _version(tag: Reference) -> Version | None:
    """The version of a published image of ours; None for anything else."""
    with contextlib.suppress(PatchsetError, InvalidVersion):
        for part in skopeo.look(tag).parts:
            if labels.RELEASE in part.labels:
                return Version(part.labels.get(labels.VERSION, ""))
    return None


def reproduce(reference: Reference) -> tuple[str, list[str]]:
    """Build again what a reference names, in a folder that is not kept.

    Returns the published digest, and what differs: nothing, if the digests are the
    same.
    """
    image = skopeo.look(reference)
    names = (labels.RELEASE, labels.TARGET, labels.BASE_NAME, labels.BASE_DIGEST)
    for part in image.parts:
        if missing := [name for name in names if name not in part.labels]:
            raise PatchsetError(f"{reference} has no label {missing[0]}", _OURS)
    said = image.parts[0].labels if image.parts else {}
    if said.get(labels.TARGET) not in get_args(Target):
        raise PatchsetError(f"{reference} is for an unknown target", _OURS)
    patched, target = PatchedRelease(load(said[labels.RELEASE])), said[labels.TARGET]
    here = labels.inputs(patched, cast(Target, target))
    for part in image.parts:
        if found := _differing(part.labels, here):
            return image.digest, [*found, "not built: its inputs differ here"]
    bases = [_base(reference, part) for part in image.parts]
    with files.scratch(paths.build_dir()) as folder:
        out, name = folder / "again", said[labels.BASE_NAME]
        thin.build(patched, cast(Target, target), bases, name, out)
        again = layout.load(out / "image")
    if again.digest == image.digest:
        return image.digest, []
    before = _facts(image)
    found = _differing(before, dict.fromkeys(before) | _facts(again))
    return image.digest, [*found, f"the digest: {again.digest} here"]


def _base(reference: Reference, part: Part) -> Part:
    """Look at the base of a part, in the repository where publish brought it first."""
    base = skopeo.look(reference.at(part.labels[labels.BASE_DIGEST]))
    for found in base.parts:
        if found.arch == part.arch:
            return found
    raise PatchsetError(f"the base of {reference} is not for {part.arch}", _OURS)


def _facts(image: Image) -> dict[str, str | None]:
    """Return labels and layers of each part, by name."""
    found: dict[str, str | None] = {}
    for part in image.parts:
        layers = enumerate(part.diff_ids, start=1)
        named = part.labels | {f"layer {number}": digest for number, digest in layers}
        found |= {f"{part.arch}: {name}": value for name, value in named.items()}
    return found


def _differing(
    published: Mapping[str, str | None], here: Mapping[str, str | None]
) -> list[str]:
    return [
        f"{name}: {value} here, {published.get(name)} in the published image"
        for name, value in here.items()
        if published.get(name) != value
    ]
