# SPDX-License-Identifier: Apache-2.0
"""OCI images by their manifests, and the layouts that hold them on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchset.errors import PatchsetError
from patchset.release import GOARCH, Arch

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
#: Docker's older names of the same things.
OCI_NAMES = {
    "application/vnd.docker.container.image.v1+json": CONFIG,
    "application/vnd.docker.image.rootfs.diff.tar": LAYER,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": f"{LAYER}+gzip",
}
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: Bound of a manifest and of a configuration in bytes, as in skopeo.
MAX_BYTES = 4 << 20
_ARCHS: dict[str, Arch] = {name: arch for arch, name in GOARCH.items()}

#: Fetches a manifest or a configuration: digests of the manifest and of the blob.
Fetch = Callable[[str, str], bytes]


@dataclass(frozen=True)
class Part:
    """The image for one architecture: the digest of its manifest, and what it says."""

    arch: Arch
    digest: str
    manifest: dict[str, Any]
    config: dict[str, Any]

    @property
    def platform(self) -> dict[str, str]:
        """The platform, as an index names it."""
        names = ("architecture", "os", "variant")
        return {name: self.config[name] for name in names if self.config.get(name)}

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the configuration."""
        return (self.config.get("config") or {}).get("Labels") or {}


@dataclass(frozen=True)
class Image:
    """An image: the digest of its manifest or index, a part for each architecture."""

    digest: str
    parts: tuple[Part, ...]


def digest(content: bytes) -> str:
    """Return the digest of a blob, ``sha256:…``."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def dump(value: object) -> bytes:
    """Write JSON in one form only, so that equal values have equal digests."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def descriptor(content: bytes, media_type: str, **more: object) -> dict[str, Any]:
    """Return the descriptor of a blob."""
    found = {"mediaType": media_type, "digest": digest(content), "size": len(content)}
    return {**found, **more}


def read(top: bytes, what: str, fetch: Fetch) -> Image:
    """Read an image from the bytes of its manifest or index, which a tag names.

    Args:
        top: The manifest or index.
        what: Names the image in messages.
        fetch: Fetches the rest.

    Raises:
        PatchsetError: Something is malformed, or two manifests are for one platform.
    """
    found = _parse(top, what)
    with _malformed(what):
        if "manifests" not in found:
            return Image(digest(top), (_part(top, what, fetch),))
        parts: dict[str, Part] = {}
        for entry in found["manifests"]:
            platform = entry.get("platform") or {}
            name = platform.get("architecture")
            if platform.get("os") != "linux" or name not in _ARCHS:
                continue
            if name in parts:
                raise PatchsetError(
                    f"{what} has two manifests for linux/{name}",
                    "an index that names one platform twice is not to be trusted",
                )
            wanted = _digest(entry)
            content = _checked(fetch(wanted, wanted), wanted, what)
            parts[name] = _part(content, f"{what}, linux/{name}", fetch)
            if parts[name].platform["architecture"] != name:
                raise PatchsetError(f"{what}: a manifest is not for linux/{name}")
        return Image(digest(top), tuple(part for _, part in sorted(parts.items())))


def _part(content: bytes, what: str, fetch: Fetch) -> Part:
    manifest, own = _parse(content, what), digest(content)
    wanted = _digest(manifest["config"])
    config = _parse(_checked(fetch(own, wanted), wanted, what), what)
    layers, diff_ids = manifest["layers"], config["rootfs"]["diff_ids"]
    for found in (layers, diff_ids, config.get("history") or []):
        if not isinstance(found, list):
            raise TypeError("something is no list")
    if len([_digest(entry) for entry in layers]) != len(diff_ids):
        raise ValueError("manifest and configuration differ in their layers")
    system, name = config["os"], config["architecture"]
    if system != "linux" or name not in _ARCHS:
        raise PatchsetError(f"{what} is for {system}/{name}", "choose another image")
    part = Part(_ARCHS[name], own, manifest, config)
    if not all(isinstance(text, str) for pair in part.labels.items() for text in pair):
        raise ValueError("a label is no text")
    return part


def _digest(entry: dict[str, Any]) -> str:
    """Return the digest of a descriptor."""
    if not DIGEST.fullmatch(entry["digest"]) or not isinstance(entry["size"], int):
        raise ValueError("a descriptor without a sha256 digest and a size")
    return str(entry["digest"])


@contextlib.contextmanager
def _malformed(what: str) -> Iterator[None]:
    """Turn the errors of reading JSON of another form into one that says so."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PatchsetError(f"{what} is malformed: {error!r}") from error


def load(folder: Path) -> tuple[Image, str]:
    """Read the one image of a layout, and the name that the layout gives to it."""

    def blob(_: str, wanted: str) -> bytes:
        place = folder / "blobs" / "sha256" / wanted.removeprefix("sha256:")
        return _checked(_read(place), wanted, str(folder))

    with _malformed(str(folder)):
        (entry,) = _parse(_read(folder / "index.json"), str(folder))["manifests"]
        name = str(entry["annotations"]["org.opencontainers.image.ref.name"])
        top = blob("", _digest(entry))
    return read(top, str(folder), blob), name


def write(folder: Path, top: dict[str, Any], name: str, blobs: Iterable[bytes]) -> None:
    """Write a layout into an empty folder.

    Blobs may be missing: those of a base that stays in its registry.
    """
    place = folder / "blobs" / "sha256"
    place.mkdir(parents=True)
    for content in blobs:
        (place / digest(content).removeprefix("sha256:")).write_bytes(content)
    named = {**top, "annotations": {"org.opencontainers.image.ref.name": name}}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}
    (folder / "index.json").write_bytes(dump(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def _read(place: Path) -> bytes:
    try:
        with place.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PatchsetError(
            f"{place} cannot be read: {error.strerror}", "build the image again"
        ) from error


def _checked(content: bytes, wanted: str, what: str) -> bytes:
    if digest(content) != wanted:
        raise PatchsetError(
            f"{what}: digest mismatch: got {digest(content)} for {wanted}",
            "try again; if it stays so, what holds the image is corrupt",
        )
    return content


def _parse(content: bytes, what: str) -> dict[str, Any]:
    if len(content) > MAX_BYTES:
        raise PatchsetError(f"{what} has a manifest of more than {MAX_BYTES} bytes")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PatchsetError(f"{what} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise PatchsetError(f"{what} is not a JSON object")
    return found
