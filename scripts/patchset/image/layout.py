# SPDX-License-Identifier: Apache-2.0
"""OCI images by their manifests, and the layouts that hold them on disk."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasPath, BaseModel, Field, ValidationError

from patchset import files, paths
from patchset.errors import PatchsetError
from patchset.release import GOARCH, Arch
from patchset.series.apply import PatchedRelease

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
DIGEST = "sha256:[0-9a-f]{64}"
#: Bound of a manifest and of a configuration in bytes, as in skopeo.
MAX_BYTES = 4 << 20
_BROKEN = "its publisher has to repair it; take another image"
_ARCHS: dict[str, Arch] = {name: arch for arch, name in GOARCH.items()}

#: Fetches a manifest or a configuration: digests of the manifest and of the blob.
Fetch = Callable[[str, str], bytes]


# The parts of the image specification that are relied on.
class _Descriptor(BaseModel):
    digest: Annotated[str, Field(pattern=f"^{DIGEST}$")]
    size: int
    platform: dict[str, Any] | None = None


class _Top(BaseModel):
    manifests: list[_Descriptor] | None = None


class _Manifest(BaseModel):
    config: _Descriptor
    layers: list[_Descriptor]


class _Config(BaseModel):
    os: Literal["linux"]
    architecture: Literal["amd64", "arm64"]
    diff_ids: list[str] = Field(validation_alias=AliasPath("rootfs", "diff_ids"))
    labels: dict[str, str] | None = Field(
        None, validation_alias=AliasPath("config", "Labels")
    )
    history: list[dict[str, Any]] | None = None


_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class Part:
    """The image for one architecture: the digest of its manifest, and what it says."""

    arch: Arch
    digest: str
    manifest: dict[str, Any]
    config: dict[str, Any]
    labels: dict[str, str]
    #: Digests of the layers, unpacked.
    diff_ids: list[str]


@dataclass(frozen=True)
class Image:
    """An image: the digest of its manifest or index, a part for each architecture."""

    digest: str
    parts: tuple[Part, ...]


def folder(patched: PatchedRelease) -> Path:
    """Return ``build/images/<release>-<target>``, where ``build-image`` puts an image.

    It has the layout ``image``, and beside it the bill of materials.
    """
    return paths.build_dir() / "images" / f"{patched.pin.name}-{patched.target}"


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
    named = _checked(_Top, top, what).manifests
    if named is None:
        return Image(digest(top), (_part(top, what, fetch),))
    parts: dict[Arch, Part] = {}
    for entry in named:
        platform = entry.platform or {}
        arch = _ARCHS.get(str(platform.get("architecture")))
        if platform.get("os") != "linux" or arch is None:
            continue
        if arch in parts:
            raise PatchsetError(
                f"{what} has two manifests for linux/{GOARCH[arch]}",
                "an index that names one platform twice is not to be trusted",
            )
        content = _verified(fetch(entry.digest, entry.digest), entry.digest, what)
        parts[arch] = _part(content, f"{what}, linux/{GOARCH[arch]}", fetch)
        if parts[arch].arch != arch:
            raise PatchsetError(
                f"{what}: a manifest is not for linux/{GOARCH[arch]}", _BROKEN
            )
    return Image(
        digest(top),
        tuple(parts[arch] for arch in sorted(parts, key=GOARCH.__getitem__)),
    )


def _part(content: bytes, what: str, fetch: Fetch) -> Part:
    manifest, own = _checked(_Manifest, content, what), digest(content)
    wanted = manifest.config.digest
    settings = _verified(fetch(own, wanted), wanted, what)
    config = _checked(_Config, settings, what)
    if len(config.diff_ids) != len(manifest.layers):
        raise PatchsetError(
            f"{what}: manifest and configuration differ in layers", _BROKEN
        )
    return Part(
        _ARCHS[config.architecture],
        own,
        json.loads(content),
        json.loads(settings),
        config.labels or {},
        config.diff_ids,
    )


def load(place: Path) -> Image:
    """Read the one image of a layout."""

    def blob(_: str, wanted: str) -> bytes:
        file = place / "blobs" / "sha256" / wanted.removeprefix("sha256:")
        return files.read_regular(file, MAX_BYTES)

    for file in (place / "blobs" / "sha256").glob("*"):
        if file.is_symlink() or not file.is_file():  # a fifo would be waited for
            raise PatchsetError(f"{file} is not a plain file", "build the image again")
    index = files.read_regular(place / "index.json", MAX_BYTES)
    entries = _checked(_Top, index, str(place)).manifests or []
    if len(entries) != 1:
        raise PatchsetError(f"{place} has {len(entries)} images", "build it again")
    top = _verified(blob("", entries[0].digest), entries[0].digest, str(place))
    return read(top, str(place), blob)


def write(place: Path, top: dict[str, Any], name: str, blobs: Iterable[bytes]) -> None:
    """Write a layout into an empty folder.

    Blobs may be missing: those of a base that stays in its registry.
    """
    folder = place / "blobs" / "sha256"
    folder.mkdir(parents=True)
    for content in blobs:
        (folder / digest(content).removeprefix("sha256:")).write_bytes(content)
    named = {**top, "annotations": {"org.opencontainers.image.ref.name": name}}
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}
    (place / "index.json").write_bytes(dump(index))
    (place / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def _verified(content: bytes, wanted: str, what: str) -> bytes:
    if digest(content) != wanted:
        raise PatchsetError(
            f"{what}: digest mismatch: got {digest(content)} for {wanted}",
            "try again; if it stays so, what holds the image is corrupt",
        )
    return content


def _checked(model: type[_Model], content: bytes, what: str) -> _Model:
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the manifest"
        raise PatchsetError(
            f"{what} is not a usable image: {where}: {first['msg']}",
            "choose another image",
        ) from error
