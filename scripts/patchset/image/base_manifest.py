# SPDX-License-Identifier: Apache-2.0
"""The image that a thin one stands on, known by its manifest and configuration alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from patchset import console
from patchset.attest.labels import OWN
from patchset.errors import PatchsetError, UsageError
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.registry.reference import Reference, parse
from patchset.release import GOARCH, Arch


class _Inner(BaseModel):
    labels: dict[str, str] | None = Field(default=None, alias="Labels")


class _Layers(BaseModel):
    diff_ids: list[str]


class _Config(BaseModel):
    """The parts of an image's configuration that are read or written here."""

    architecture: str
    os: str
    variant: str | None = None
    config: _Inner | None = None
    rootfs: _Layers
    history: list[dict[str, object]] | None = None


@dataclass(frozen=True)
class BaseManifest:
    """The base for one processor: ``digest`` and ``kind`` (media type) of its manifest, manifest and configuration."""

    arch: Arch
    platform: dict[str, Any]
    digest: str
    kind: str
    manifest: dict[str, Any]
    config: dict[str, Any]


@dataclass(frozen=True)
class Base:
    """A base by ``digest``; ``index`` says whether that names one image for several processors."""

    reference: Reference
    digest: str
    index: bool
    manifests: tuple[BaseManifest, ...]


def look(text: str, archs: Sequence[Arch]) -> Base:
    """Ask a registry what an image is made of, for those of ``archs`` that it is made for.

    No layer is fetched.
    """
    reference = parse(text)
    with console.step(f"look at {reference}"), Repository(reference) as repository:
        digest, kind, content = repository.manifest(reference.wanted)
        top = media.parse(content, str(reference))
        is_index = kind in media.INDEXES or "manifests" in top
        if is_index:
            entries = _entries(top, archs, str(reference.at(digest)))
            found = [_manifest(repository, *repository.manifest(e["digest"]), e["platform"]) for e in entries]
        else:
            found = [_manifest(repository, digest, kind, content, None)]
    manifests = tuple(origin for origin in found if origin.arch in archs)
    if not manifests:
        raise UsageError(
            f"{reference} is not for {' or '.join(GOARCH[arch] for arch in archs)}", "choose another --arch"
        )
    return Base(reference, digest, is_index, manifests)


def _entries(index: dict[str, Any], archs: Sequence[Arch], what: str) -> list[dict[str, Any]]:
    """An index's first entry for each processor."""
    if not isinstance(listed := index.get("manifests"), list):
        raise PatchsetError(f"{what} is neither an image nor an index of some")
    found: dict[str, dict[str, Any]] = {}
    for entry in listed:
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if isinstance(platform, dict) and platform.get("os") == "linux":
            found.setdefault(str(platform.get("architecture")), entry)
    wanted = [found[GOARCH[arch]] for arch in archs if GOARCH[arch] in found]
    return [media.check_descriptor(entry, what) for entry in wanted]


def _manifest(
    repository: Repository, digest: str, kind: str, content: bytes, platform: dict[str, Any] | None
) -> BaseManifest:
    what = str(repository.reference.at(digest))
    manifest = media.parse(content, what)
    config_entry, *layers = media.parts(manifest, what)
    stored = repository.blob(config_entry["digest"], config_entry["size"], media.MAX_CONFIG)
    config = media.parse(stored, f"the configuration of {what}")
    try:
        checked = _Config.model_validate(config)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise PatchsetError(f"the configuration of {what} is malformed: {place}: {fault['msg']}") from error
    arch = next((arch for arch, name in GOARCH.items() if name == checked.architecture), None)
    if arch is None or checked.os != "linux":
        raise UsageError(f"{what} is for {checked.os}/{checked.architecture}", "choose another base")
    if len(checked.rootfs.diff_ids) != len(layers) or len(layers) > 500:
        raise PatchsetError(f"{what}: manifest and configuration disagree about its layers")
    if checked.config and OWN + "release" in (checked.config.labels or {}):
        raise PatchsetError(
            f"{what} has patches of this project already", "name the image that it was made from"
        )
    kind = str(manifest.get("mediaType") or kind)
    if kind not in media.MANIFESTS:
        raise PatchsetError(f"{what} is of a kind that is not known here: {kind[:100]}")
    if platform is None:
        platform = {name: config[name] for name in ("os", "architecture", "variant") if name in config}
    return BaseManifest(arch, platform, digest, kind, manifest, config)
