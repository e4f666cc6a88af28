# SPDX-License-Identifier: Apache-2.0
"""Publish an image by skopeo and cosign; reproduce a published thin image.

Everything goes by digest first, and the tags come last: an interruption leaves nothing
that can be pulled by tag, and the next run goes on.
"""

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

from packaging.version import InvalidVersion, Version

from patchset import console, files, paths, process
from patchset.errors import MissingToolError, PatchsetError, UsageError
from patchset.image import base as bases
from patchset.image import labels, layout, sbom, skopeo, thin
from patchset.release import Target, load
from patchset.series.apply import PatchedRelease

_OURS = "only a thin image that nox -s publish pushed can be built again"


def publish(
    goal: skopeo.Reference, patched: PatchedRelease, *, sign: bool = False
) -> tuple[skopeo.Reference, list[skopeo.Reference]]:
    """Publish an image; return it by digest, and its tags.

    A whole image is the one that was built last. A thin one is built again, from its
    base's digest and for all processors, and holds the very image that was built here.
    A tag of a newer version stays, as when an old checkout publishes. ``sign`` has
    cosign sign it before it has any, and attach the bill of materials.
    """
    if goal.tag or goal.digest:
        raise UsageError(
            f"{goal} names a tag or digest",
            f"tags are given here; name {goal.tagged(None)}",
        )
    if sign and shutil.which("cosign") is None:
        raise MissingToolError(
            "cosign is not installed", "install it, or publish without --sign"
        )
    return _push(goal, patched, _complete(patched), sign=sign)


def _complete(patched: PatchedRelease) -> Path:
    """Return the folder of the image to publish, which is from this checkout.

    That of a thin one is made here: ``build/images/<release>-<target>-published``.
    """
    folder, built = layout.folder(patched), None
    if folder.is_dir():
        built = layout.load(folder / "image")
        for part in built.parts:
            if found := _differing(part.labels, labels.inputs(patched)):
                raise _foreign(folder, found[0])
        if any(labels.ROOTFS_SHA256 in part.labels for part in built.parts):
            return folder
        reference = skopeo.parse(built.parts[0].labels.get(labels.BASE_NAME, ""))
    else:
        reference = bases.official(patched)
    base = bases.find(patched, reference)
    for part in base.parts:
        with files.scratch(paths.build_dir()) as scratch:
            bases.check(base, part, patched, scratch)
    whole = folder.with_name(f"{folder.name}-published")
    thin.build(patched, base.parts, str(base.name), whole)
    made = {part.digest for part in layout.load(whole / "image").parts}
    if built and not made.issuperset(part.digest for part in built.parts):
        raise _foreign(folder, "what is built from it is another image")
    return whole


def _foreign(folder: Path, why: str) -> PatchsetError:
    return PatchsetError(
        f"{folder} was not made from this checkout: {why}", "build the image again"
    )


def _push(
    goal: skopeo.Reference, patched: PatchedRelease, folder: Path, *, sign: bool
) -> tuple[skopeo.Reference, list[skopeo.Reference]]:
    image = layout.load(folder / "image")
    fixed, *_ = names = labels.tags(patched)
    there = {name: skopeo.digest(goal.tagged(name)) for name in names}
    if there[fixed] not in (None, image.digest):
        raise PatchsetError(
            f"{goal.tagged(fixed)} is {there[fixed]}; this image is {image.digest}",
            "a published tag never moves: raise revision in release.toml; "
            "nox -s reproduce says what differs",
        )
    version = Version(patched.version)
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
                skopeo.copy(
                    skopeo.parse(part.labels[labels.BASE_NAME]).at(digest),
                    goal.at(digest),
                )
        skopeo.copy("oci:image", goal.at(image.digest), cwd=folder)
    if sign:
        bill = ["--type", "cyclonedx", "--predicate", str(folder / sbom.FILE)]
        for words in (["sign", "--recursive"], ["attest", *bill]):
            process.run(
                ["cosign", *words, "--yes", str(goal.at(image.digest))], prefix="cosign"
            )
    for name in names:
        if there[name] != image.digest:
            skopeo.copy(goal.at(image.digest), goal.tagged(name))
    return goal.at(image.digest), [goal.tagged(name) for name in names]


def _version(tag: skopeo.Reference) -> Version | None:
    with contextlib.suppress(PatchsetError, InvalidVersion):
        for part in skopeo.look(tag).parts:
            if labels.RELEASE in part.labels:
                return Version(part.labels.get(labels.VERSION, ""))
    return None


def reproduce(reference: skopeo.Reference) -> tuple[str, list[str]]:
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
    patched = PatchedRelease(
        load(said[labels.RELEASE]), cast(Target, said[labels.TARGET])
    )
    here = labels.inputs(patched)
    for part in image.parts:
        if found := _differing(part.labels, here):
            return image.digest, [*found, "not built: its inputs differ here"]
    # Other tools compress a layer that they push: with it, digests are no longer ours.
    types = [str(part.manifest["layers"][-1].get("mediaType")) for part in image.parts]
    if any(kind != layout.LAYER for kind in types):
        return image.digest, [
            "pushed by another tool: it compressed the top layer, which changes every "
            "digest. Copy with nox -s publish, or skopeo copy --all --preserve-digests"
        ]
    below = [_base(reference, part) for part in image.parts]
    with files.scratch(paths.build_dir()) as folder:
        out, name = folder / "again", said[labels.BASE_NAME]
        thin.build(patched, below, name, out)
        again = layout.load(out / "image")
    if again.digest == image.digest:
        return image.digest, []
    before = _facts(image)
    found = _differing(before, dict.fromkeys(before) | _facts(again))
    return image.digest, [*found, f"the digest: {again.digest} here"]


def _base(reference: skopeo.Reference, part: layout.Part) -> layout.Part:
    """Look at the base of a part, in the repository where publish brought it first."""
    for found in skopeo.look(reference.at(part.labels[labels.BASE_DIGEST])).parts:
        if found.arch == part.arch:
            return found
    raise PatchsetError(f"the base of {reference} is not for {part.arch}", _OURS)


def _facts(image: layout.Image) -> dict[str, str | None]:
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
