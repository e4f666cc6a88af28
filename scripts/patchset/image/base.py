# SPDX-License-Identifier: Apache-2.0
"""The image below a thin one: the official one by its pin, or any that has the release.

A base that is not the release's official image is looked into: its layers are fetched,
and the files that the patches replace must be the release's.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

import tomlkit

from patchset import console, files, paths
from patchset.errors import (
    MissingToolError,
    PatchsetError,
    UnavailableError,
    UsageError,
)
from patchset.image import layout, skopeo, space
from patchset.image.layer import Place
from patchset.image.layout import Image
from patchset.image.skopeo import Reference
from patchset.release import GOARCH, Arch, Release, Target
from patchset.wheel.archive import Wheel
from patchset.wheel.overlay import changed_files

#: Bounds of what one layer may unpack to, in bytes, and of a file that is hashed.
_MAX_UNPACKED = 64 << 30
_MAX_FILE = 64 << 20
_INFO = re.compile(r"(?P<site>.+)/vllm-(?P<version>[^/]+)\.dist-info/METADATA")


def official(release: Release, target: Target) -> Reference:
    """Return the official image's reference, by digest if the pin has one."""
    if target != "cuda":
        raise UsageError(
            f"no official image is pinned for {target}",
            "name one that has the release, --base REF, or take --base debian",
        )
    return skopeo.parse(release.image)


def pin_digest(pin: Path) -> str | None:
    """Write the official image's digest into a pin that has a tag alone.

    Returns the digest; None if the pin has one, or no registry can be asked.
    """
    document = tomlkit.parse(pin.read_text(encoding="utf-8"))
    reference = skopeo.parse(str(document["image"]))
    if reference.digest:
        return None
    try:
        digest = layout.digest(skopeo.raw(reference))
    except (UnavailableError, MissingToolError) as error:
        console.note(f"  the image's digest is not pinned: {error.message}")
        return None
    document["image"] = f"{reference}@{digest}"
    files.write_text(pin, tomlkit.dumps(document))
    return digest


def check(
    reference: Reference, base: Image, where: Place, wheels: Mapping[Arch, Path]
) -> None:
    """Refuse a base whose files are not the release's where the patches replace them."""
    for part in base.parts:
        if part.arch not in wheels:
            continue
        place = paths.build_dir()
        place.mkdir(parents=True, exist_ok=True)
        space.check({place: sum(entry["size"] for entry in part.manifest["layers"])})
        with (
            console.step(f"look into {reference} for {GOARCH[part.arch]}"),
            files.scratch(place) as folder,
        ):
            skopeo.copy(reference.at(part.digest), "dir:base", cwd=folder)
            layers = [
                folder / "base" / entry["digest"].removeprefix("sha256:")
                for entry in part.manifest["layers"]
            ]
            look(layers, where, wheels[part.arch])


def look(layers: list[Path], where: Place, wheel_file: Path) -> None:
    """Look through the layers of a base, the uppermost first."""
    root = where.site.strip("/")
    info = f"{root}/vllm-{where.version}.dist-info/METADATA"
    with Wheel(wheel_file) as wheel:
        changed = changed_files(wheel).items()
    stock = {f"{root}/{path}": sums["stock"] for path, sums in changed if sums["stock"]}
    wanted = {info, *stock}
    found: dict[str, str | None] = {}
    others: set[str] = set()
    for file in reversed(layers):
        found |= _look(file, wanted - found.keys(), others)
        if wanted <= found.keys():
            break
    if found.get(info) is None:
        said = ", ".join(sorted(others))
        raise PatchsetError(
            f"the base has no /{info}",
            f"it has: {said}" if said else "it has no vLLM at all",
        )
    if wrong := [path for path, sha256 in stock.items() if found.get(path) != sha256]:
        raise PatchsetError(
            f"the base has other files than the release: {', '.join(wrong[:5])}",
            "the patches were not made for them; use the release's official image",
        )


def _look(file: Path, wanted: set[str], others: set[str]) -> dict[str, str | None]:
    """Return the sha256 of each wanted file of a layer, None for one that it hides.

    ``others`` gets the options that name what vLLM the layer has.
    """
    found: dict[str, str | None] = {}
    hidden: list[PurePosixPath] = []
    folders = {parent for name in wanted for parent in PurePosixPath(name).parents}
    try:
        with (
            _unpacked(file) as content,
            tarfile.open(fileobj=content, mode="r|") as tar,
        ):
            for member in tar:
                if tar.offset > _MAX_UNPACKED:
                    raise PatchsetError(
                        f"a layer of the base has more than {_MAX_UNPACKED} bytes"
                    )
                path = PurePosixPath(member.name.removeprefix("./").strip("/"))
                if path.name == ".wh..wh..opq":
                    hidden.append(path.parent)
                elif path.name.startswith(".wh."):
                    hidden.append(path.with_name(path.name.removeprefix(".wh.")))
                elif path in folders and not member.isdir():
                    hidden.append(path)  # a link or file in a folder's place
                elif match := _INFO.fullmatch(str(path)):
                    version = match["version"]
                    others.add(f"--site /{match['site']} --base-version {version}")
                if str(path) in wanted:
                    small = member.isreg() and member.size <= _MAX_FILE
                    data = tar.extractfile(member) if small else None
                    found[str(path)] = (
                        hashlib.sha256(data.read()).hexdigest() if data else None
                    )
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise PatchsetError(
            f"a layer of the base cannot be read: {error}",
            "layers packed by zstd cannot be looked into",
        ) from error
    for name in wanted - found.keys():
        if any(PurePosixPath(name).is_relative_to(gone) for gone in hidden):
            found[name] = None
    return found


def _unpacked(file: Path) -> BinaryIO:
    """Open a layer; a gzip file may have several members, as engines read them."""
    with file.open("rb") as opened:
        packed = opened.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(file) if packed else file.open("rb"))
