# SPDX-License-Identifier: Apache-2.0
"""The base of a thin image: which one it is today, and whether its files are right.

A base is looked at by its manifests, and taken by digest. Its layers are fetched once,
to hash vLLM's files in them; the sums are kept in ``build/images/bases``.
"""

import hashlib
import re
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from patchset import console, files, paths
from patchset.errors import PatchsetError, UsageError
from patchset.image import labels, skopeo, thin
from patchset.image.layout import Part
from patchset.release import GOARCH
from patchset.series import patched_files
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay

#: Bounds of what a layer may unpack to, and of a file that is hashed, in bytes.
_MAX_UNPACKED = 64 << 30
_MAX_FILE = 64 << 20
#: Bound of the files whose sums are kept, and of links on the way to one.
_MAX_FILES, _MAX_LINKS = 100_000, 40
_NO_PLAIN_FILE = "-" * 64
_SUM = re.compile(r"(?m)^([0-9a-f-]{64})  (.+)$")


@dataclass(frozen=True)
class Base:
    """An image that patches are put on; ``name`` has the digest of its index."""

    name: skopeo.Reference
    parts: tuple[Part, ...]


def official(patched: PatchedRelease) -> skopeo.Reference:
    """Return the official image's reference, by digest if the pin has one."""
    if patched.target != "cuda":
        raise UsageError(
            f"no official image is pinned for {patched.target}",
            "name one that has the release, --base REF, or take --base debian",
        )
    return skopeo.parse(patched.pin.image)


def find(patched: PatchedRelease, reference: skopeo.Reference) -> Base:
    """Ask a registry for the base, and its digest; no layer is fetched.

    Its parts are those for processors that the release has an official wheel for.
    """
    with console.step(f"look at {reference}"):
        image = skopeo.look(reference)
    if not reference.digest:
        console.note(f"  {reference} is a tag; today it is {image.digest}")
    if any(labels.RELEASE in part.labels for part in image.parts):
        raise PatchsetError(
            "the base has patches of this project already",
            "name the image that it was made from",
        )
    release = patched.pin
    pinned = release.wheels.get(patched.target, {})
    parts = tuple(part for part in image.parts if part.arch in pinned)
    if not parts:
        raise UsageError(
            f"the base is for no processor that {release.name} has a "
            f"{patched.target} wheel for",
            f"it has: {', '.join(pinned) or 'none'}; choose another base",
        )
    return Base(replace(reference, digest=image.digest), parts)


def size(part: Part) -> int:
    """Return the bytes of a base's layers, as they are fetched."""
    return sum(int(entry["size"]) for entry in part.manifest["layers"])


def fetch(base: Base, part: Part, folder: Path) -> Path:
    """Fetch a base into ``folder``; the folder of its blobs, which digests name."""
    files.need_space({folder: size(part)})
    title = f"fetch {base.name} for {GOARCH[part.arch]}, {size(part) / 1e9:.1f} GB"
    with console.step(title):
        skopeo.copy(base.name.at(part.digest), "dir:base", cwd=folder)
    return folder / "base"


def known(patched: PatchedRelease, part: Part) -> bool:
    """Return whether a base was fetched and hashed before."""
    return _kept(patched, part).is_file()


def check(base: Base, part: Part, patched: PatchedRelease, folder: Path) -> Path | None:
    """Refuse a base in which a file to be replaced is not the release's.

    Unless it is ``known``, it is fetched into ``folder``. Returns the folder of its
    blobs, if it was.
    """
    site, info = thin.SITES[patched.target], thin.stock_info(patched)
    blobs = None
    if not known(patched, part):
        blobs = fetch(base, part, folder)
        advance = console.progress("looked through", size(part))
        tree = _Tree((f"{site}/vllm/", f"{info}/METADATA"), advance)
        with console.step(f"hash vLLM's files in the base for {GOARCH[part.arch]}"):
            for entry in part.manifest["layers"]:
                tree.add(blobs / entry["digest"].removeprefix("sha256:"))
        files.write_text(_kept(patched, part), patched_files.text(tree.found))
    found = {
        path: digest for digest, path in _SUM.findall(_kept(patched, part).read_text())
    }
    if f"{info}/METADATA" not in found:
        raise PatchsetError(
            f"the base has no /{info}", f"it is not vLLM {patched.pin.version}"
        )
    stock = {
        f"{site}/{change.path}": overlay.sha256(change.stock)
        for change in patched.changes
        if overlay.inside_wheel(change.path) and change.stock is not None
    }
    if wrong := [path for path, digest in stock.items() if found.get(path) != digest]:
        raise PatchsetError(
            "these files in the base image differ from vLLM "
            f"{patched.pin.name}: {', '.join(wrong[:5])}",
            "the patches were not made for them; use the release's official image",
        )
    return blobs


def _kept(patched: PatchedRelease, part: Part) -> Path:
    name = part.digest.removeprefix("sha256:")
    return paths.build_dir() / "images/bases" / f"{name}.{patched.target}.sha256"


@dataclass
class _Tree:
    """What the layers so far leave of the files that are asked for.

    ``found`` has their sha256, ``links`` the symbolic links of the whole image, and
    ``folders`` at least all that have one of either below them.
    """

    wanted: tuple[str, ...]
    advance: Callable[[int], None]
    found: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def add(self, layer: Path) -> None:
        """Follow one more layer, which may hide files, or put links before them."""
        before = 0
        try:
            with layer.open("rb") as packed, tarfile.open(fileobj=packed) as tar:
                for member in tar:
                    self.advance(packed.tell() - before)
                    before = packed.tell()
                    if tar.offset > _MAX_UNPACKED or len(self.found) > _MAX_FILES:
                        raise ValueError("it is larger than any image of vLLM")
                    self._member(tar, member)
        except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
            raise PatchsetError(
                f"a layer of the base cannot be read: {error}",
                "layers packed by zstd cannot be looked into",
            ) from error

    def _member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        place = self._place(member.name)
        if place.name == ".wh..wh..opq":
            return self._forget(place.parent)
        if place.name.startswith(".wh."):
            return self._forget(place.with_name(place.name.removeprefix(".wh.")))
        path = str(place)
        if member.isdir():  # a link in its place is replaced
            self.links.pop(path, None)
            return None
        self._forget(place)
        if member.issym():
            self.links[path] = member.linkname
        elif not path.startswith(self.wanted):
            return None
        else:
            small = member.isreg() and member.size <= _MAX_FILE
            data = tar.extractfile(member) if small else None
            digest = data and hashlib.sha256(data.read()).hexdigest()
            self.found[path] = digest or _NO_PLAIN_FILE
        self.folders.update(map(str, place.parents))
        return None

    def _forget(self, gone: PurePosixPath) -> None:
        """Take out a path, and all below it."""
        for known in (self.found, self.links):
            known.pop(str(gone), None)
            if str(gone) in self.folders:
                for path in [
                    path for path in known if gone in PurePosixPath(path).parents
                ]:
                    del known[path]

    def _place(self, name: str) -> PurePosixPath:
        """Return where an engine puts a member: behind links in its folder's path."""
        *folders, last = PurePosixPath(name.strip("/") or ".").parts or (".",)
        if ".." in (*folders, last):
            raise ValueError(f"{name[:200]!r} leads elsewhere")
        place, followed = PurePosixPath(), 0
        while folders:
            part = folders.pop(0)
            place = place.parent if part == ".." else place / part
            if (target := self.links.get(str(place))) is not None:
                followed += 1
                if followed > _MAX_LINKS:
                    raise ValueError(f"{name[:200]!r} is behind too many links")
                place = PurePosixPath() if target.startswith("/") else place.parent
                folders[:0] = PurePosixPath(target.strip("/")).parts
        return place / last
