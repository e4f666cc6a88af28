# SPDX-License-Identifier: Apache-2.0
"""Building a published image again from what its labels say, and comparing digests."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field

from patchset import console, files, paths
from patchset.errors import NotFoundError, PatchsetError
from patchset.image import debian, engine, labels, layer, layout, skopeo, thin
from patchset.image.layout import Image
from patchset.image.skopeo import Reference
from patchset.inputs import lock as locks
from patchset.release import Target, load
from patchset.series.patched_release import PatchedRelease


@dataclass
class Report:
    """Both digests, and what differs; ``rebuilt`` is None where nothing was built."""

    published: str
    rebuilt: str | None = None
    differences: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether the rebuilt image is the published one."""
        return self.rebuilt == self.published


def reproduce(reference: Reference) -> Report:
    """Build again what a reference names."""
    image = skopeo.look(reference)
    report = Report(image.digest)
    said = _common(image, reference)
    patched = PatchedRelease(load(said[labels.RELEASE]))
    target = said[labels.TARGET]
    if target not in typing.get_args(Target):
        raise PatchsetError(f"{reference} is for {target[:50]!r}, which is no target")
    release, chosen = patched.pin, typing.cast(Target, target)
    here = {
        labels.VERSION: release.built_version(chosen),
        labels.REVISION: release.commit,
        labels.SERIES: patched.digest,
    }
    report.differences = _differing(said, here)
    if report.differences:
        return report
    if labels.BASE_DIGEST in said:
        _thin(reference, image, patched, chosen, report)
    else:
        _whole(image, patched, chosen, report)
    return report


def _common(image: Image, reference: Reference) -> dict[str, str]:
    """Return the labels of an image's first part; the others must agree on its input."""
    names = (labels.RELEASE, labels.TARGET, labels.VERSION, labels.SERIES, labels.SITE)
    first, *others = [part.labels for part in image.parts] or [{}]
    needed = [*names[:-1], *([labels.BASE_NAME] if labels.BASE_DIGEST in first else [])]
    if missing := [name for name in needed if name not in first]:
        raise PatchsetError(
            f"{reference} has no label {missing[0]}",
            "only an image that nox -s publish pushed can be built again",
        )
    for name in names:
        if any(other.get(name) != first.get(name) for other in others):
            raise PatchsetError(f"the architectures of {reference} differ in {name}")
    return first


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
    report: Report,
) -> None:
    said = image.parts[0].labels
    where = layer.place(
        patched.pin, target, said.get(labels.SITE), said.get(labels.BASE_VERSION)
    )
    bases = []
    for part in image.parts:
        digest = part.labels.get(labels.BASE_DIGEST, "")
        if not layout.DIGEST.fullmatch(digest):
            raise PatchsetError(f"{reference} has a label that names no base by digest")
        try:  # publish brought it there
            base = skopeo.look(reference.at(digest))
        except NotFoundError:
            base = skopeo.look(skopeo.parse(said[labels.BASE_NAME]).at(digest))
        bases += [found for found in base.parts if found.arch == part.arch]
    base = Image("", tuple(bases))
    wheels = thin.wheels(patched, target, base, [part.arch for part in bases])
    paths.build_dir().mkdir(parents=True, exist_ok=True)
    with files.scratch(paths.build_dir()) as folder:
        name = said[labels.BASE_NAME]
        out = folder / "again"
        report.rebuilt = thin.build(
            patched, target, wheels, base, name, where, out
        ).digest
        if not report.same:
            again, _ = layout.load(out / "image")
            _compare(image, again, report)


def _whole(
    image: Image, patched: PatchedRelease, target: Target, report: Report
) -> None:
    part = image.parts[0]
    said = part.labels
    if len(image.parts) > 1 or labels.ROOTFS not in said:
        raise PatchsetError(
            "the image's labels say neither on which image nor on which file it is based",
            "only an image that nox -s publish pushed can be built again",
        )
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
        return
    which = engine.find(said.get(labels.ENGINE), part.arch)
    again = debian.build(patched, target, part.arch, which, again=True)
    report.rebuilt = again.digest
    if not report.same:
        _compare(image, layout.load(again.folder / "image")[0], report)


def _compare(published: Image, again: Image, report: Report) -> None:
    """Say in which labels and layers two images differ."""
    here = {part.arch: part for part in again.parts}
    for part in published.parts:
        if part.arch not in here:
            report.differences.append(f"{part.arch} is not in the image built here")
            continue
        other = here[part.arch]
        report.differences += _differing(part.labels, other.labels)
        old, new = (each.config["rootfs"]["diff_ids"] for each in (part, other))
        report.differences += [
            f"{part.arch}: layer {number} differs"
            for number, pair in enumerate(zip(old, new, strict=False), start=1)
            if pair[0] != pair[1]
        ]
        if len(old) != len(new):
            report.differences.append(
                f"{part.arch}: {len(old)} layers, {len(new)} here"
            )
