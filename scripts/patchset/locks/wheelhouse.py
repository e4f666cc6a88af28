# SPDX-License-Identifier: Apache-2.0
"""What an image installs: the wheels that a lock names, chosen for the image's Python and machine, and verified."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name
from packaging.version import Version
from unearth import Link

from patchset import console, paths
from patchset.downloads import fetch, index, wheel_metadata
from patchset.errors import PatchsetError, UnavailableError
from patchset.locks import uv
from patchset.release import Arch, Artifact

#: Python of the image's base, Debian 12.
PYTHON = (3, 11)
#: The older names of manylinux tags, by the minor version of glibc (PEP 513, 571, 599).
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
#: Questions to the index at a time.
_LOOKUPS = 8

_COMMENT = re.compile(r"^\s*#.*(?:\n|\Z)|[ \t]#.*$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)")
_FIX = "nox -s lock writes the file again"


class Locked(NamedTuple):
    """One line of a lock: ``requirement`` (``name==version``) and the sha256 sums its file may have."""

    name: str
    version: Version
    requirement: Requirement
    sha256: frozenset[str]


def read_lock(text: str, arch: Arch, *, origin: str) -> list[Locked]:
    """The requirements of a lock file (pip's format with hashes) that hold for an image of this architecture."""
    environment = uv.markers("{}.{}".format(*PYTHON), arch)
    found = []
    for line in filter(str.strip, _COMMENT.sub("", text).replace("\\\n", " ").splitlines()):
        try:
            requirement = Requirement(line.partition("--hash")[0].strip())
        except InvalidRequirement as error:
            raise PatchsetError(
                f"{origin}: {line.strip()[:120]!r} is not a pinned requirement", _FIX
            ) from error
        pins = list(requirement.specifier)
        hashes = frozenset(_HASH.findall(line))
        if len(pins) != 1 or pins[0].operator != "==" or pins[0].version.endswith(".*") or not hashes:
            raise PatchsetError(f"{origin}: {requirement} is not pinned with == and a sha256", _FIX)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            version = Version(pins[0].version)
            found.append(Locked(canonicalize_name(requirement.name), version, requirement, hashes))
    return found


def image_tags(arch: Arch, python: tuple[int, int] = PYTHON) -> list[Tag]:
    """The wheel tags that the image's Python takes, best first (PEP 425, PEP 600)."""
    platforms = []
    for minor in range(uv.GLIBC[1], 4 if arch == "x86_64" else 16, -1):
        platforms.append(f"manylinux_2_{minor}_{arch}")
        if minor in _LEGACY:
            platforms.append(f"{_LEGACY[minor]}_{arch}")
    platforms.append(f"linux_{arch}")
    interpreter = "cp{}{}".format(*python)
    return [*cpython_tags(python, platforms=platforms), *compatible_tags(python, interpreter, platforms)]


def choose(locked: Locked, links: Iterable[Link], tags: list[Tag]) -> tuple[Link, str] | None:
    """The best wheel among ``links`` with an allowed sha256, and that sum; none when there is none."""
    rank = {tag: place for place, tag in enumerate(tags)}
    fitting = []
    for link, version, _, wheel_tags in index.wheels(links):
        places = [rank[tag] for tag in wheel_tags if tag in rank]
        if places and locked.requirement.specifier.contains(version, prereleases=True):
            fitting.append((min(places), link.filename, link))
    for _, _, link in sorted(fitting, key=lambda found: found[:2]):
        digest = index.sha256(link)
        if digest in locked.sha256:
            return link, digest
    return None


def dependencies(lock: Path, arch: Arch) -> tuple[list[Locked], list[Path]]:
    """What an image installs by a lock, and the verified files.

    Beside ``requirements.cpu.lock``, whose torch is the package index's and brings CUDA's libraries, may stand
    ``requirements.cpu.cpu-torch.lock``: it is taken where its CPU build of torch is available.
    """
    small = lock.with_name(lock.name.replace(".lock", ".cpu-torch.lock"))
    if small.is_file():
        locks = read_lock(small.read_text(encoding="utf-8"), arch, origin=str(small))
        torch = next((locked for locked in locks if locked.name == "torch"), None)
        if torch and choose(torch, _source().files("torch"), image_tags(arch)):
            console.note(f"a CPU build of torch {torch.version} is available: {small.name} is taken")
            locks = without_cuda_companions(locks)
            return locks, gather(locks, arch)
        console.note(f"no CPU build of torch is available for {arch}: {lock.name} is taken")
    locks = read_lock(lock.read_text(encoding="utf-8"), arch, origin=str(lock))
    return locks, gather(locks, arch)


def without_cuda_companions(locks: list[Locked]) -> list[Locked]:
    """The set without torch's CUDA-built companions that cannot be imported beside a CPU build of torch.

    vLLM and transformers do without torchaudio and torchcodec when they are absent, but not when their import
    fails. torchvision stays: a few models import it (docker/torchvision_without_cuda.py helps it).
    """
    cpu = {locked.name for locked in locks if locked.version.local == "cpu"}
    left_out = {"torchaudio", "torchcodec"} - cpu if "torch" in cpu else set()
    return [locked for locked in locks if locked.name not in left_out]


def gather(locks: list[Locked], arch: Arch) -> list[Path]:
    """Download what is missing of the locked wheels; all of them, verified, in the lock's order."""
    source, tags = _source(), image_tags(arch)
    with (
        console.step(f"look up {len(locks)} locked wheels"),
        console.progress("wheels", len(locks), unit="wheels") as advance,
        ThreadPoolExecutor(_LOOKUPS) as pool,
    ):
        pins = []
        for pin in pool.map(lambda locked: _pin(source, locked, tags), locks):
            pins.append(pin)
            advance(1)
    size = sum(pin.size for pin in pins)
    with (
        console.step(f"fetch {len(pins)} wheels, {size / 1e9:.2f} GB, into {paths.downloads_dir()}"),
        console.progress("fetched and checked", size) as advance,
    ):
        return [fetch.artifact(pin, advance) for pin in pins]


def _pin(source: index.Index, locked: Locked, tags: list[Tag]) -> Artifact:
    chosen = choose(locked, source.files(locked.name), tags)
    if chosen is None:
        raise UnavailableError(
            f"{paths.from_dir() or 'no configured package index'} has no wheel of {locked.requirement} with a locked sha256",
            "'pip config list' shows which indexes are asked; nox -s lock writes the lock again",
        )
    link, digest = chosen
    size = wheel_metadata.size(source, link)
    return Artifact(project=locked.name, file=link.filename, sha256=digest, size=size)


def _source() -> index.Index:
    """The folder of --from-dir, where there is one, else the configured indexes."""
    if (folder := paths.from_dir()) is None:
        return index.Index()
    return index.Index(index.pip_settings()._replace(index_urls=(), find_links=(str(folder),)))
