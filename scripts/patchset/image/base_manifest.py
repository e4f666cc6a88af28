# SPDX-License-Identifier: Apache-2.0
"""The image that a thin one stands on, known by its manifest and configuration alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from patchset.attest.labels import OWN
from patchset.base import console
from patchset.base.errors import PatchsetError, UsageError
from patchset.base.release import GOARCH, Arch
from patchset.registry import media
from patchset.registry.client import Repository
from patchset.registry.reference import Reference, parse

_MAX_LAYERS = 500


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
        pinned = reference.at(digest)
        if not (is_index := kind in media.INDEXES or "manifests" in top):
            manifests = [_base_manifest(repository, digest, kind, top, str(pinned), None)]
        else:
            manifests = [
                _from_index(repository, media.check_descriptor(entry, str(pinned)))
                for arch in archs
                for entry in _entries(top, arch, str(pinned))
            ]
    manifests = [origin for origin in manifests if origin.arch in archs]
    if not manifests:
        raise UsageError(
            f"{reference} is not for {' or '.join(GOARCH[arch] for arch in archs)}", "choose another --arch"
        )
    return Base(reference, digest, is_index, tuple(manifests))


def _entries(index: dict[str, Any], arch: Arch, what: str) -> list[dict[str, Any]]:
    entries = index.get("manifests")
    if not isinstance(entries, list):
        raise PatchsetError(f"{what} is neither an image nor an index of some")
    wanted = {"os": "linux", "architecture": GOARCH[arch]}
    found = [
        entry
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(platform := entry.get("platform"), dict)
        and all(platform.get(name) == value for name, value in wanted.items())
    ]
    return found[:1]


def _from_index(repository: Repository, entry: dict[str, Any]) -> BaseManifest:
    digest, kind, content = repository.manifest(entry["digest"])
    what = str(repository.reference.at(digest))
    return _base_manifest(repository, digest, kind, media.parse(content, what), what, entry["platform"])


def _base_manifest(
    repository: Repository,
    digest: str,
    kind: str,
    manifest: dict[str, Any],
    what: str,
    platform: dict[str, Any] | None,
) -> BaseManifest:
    config_entry, *layers = media.parts(manifest, what)
    content = repository.blob(config_entry["digest"], config_entry["size"], media.MAX_CONFIG)
    config = media.parse(content, f"the configuration of {what}")
    try:
        _Config.model_validate(config)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise PatchsetError(f"the configuration of {what} is malformed: {place}: {fault['msg']}") from error
    made_for = str(config.get("architecture"))
    arch = next((arch for arch, name in GOARCH.items() if name == made_for), None)
    diff_ids = (config.get("rootfs") or {}).get("diff_ids")
    if arch is None or config.get("os") != "linux":
        raise UsageError(f"{what} is for {config.get('os')}/{made_for}", "choose another base")
    if not isinstance(diff_ids, list) or len(diff_ids) != len(layers) or len(layers) > _MAX_LAYERS:
        raise PatchsetError(f"{what}: manifest and configuration disagree about its layers")
    if OWN + "release" in ((config.get("config") or {}).get("Labels") or {}):
        raise PatchsetError(
            f"{what} has patches of this project already", "name the image that it was made from"
        )
    variant = {"variant": config["variant"]} if "variant" in config else {}
    kind = str(manifest.get("mediaType") or kind)
    if kind not in media.MANIFESTS:
        raise PatchsetError(f"{what} is of a kind that is not known here: {kind[:100]}")
    return BaseManifest(
        arch,
        platform or {"os": "linux", "architecture": made_for, **variant},
        digest,
        kind,
        manifest,
        config,
    )
