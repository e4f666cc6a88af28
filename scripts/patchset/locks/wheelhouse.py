# SPDX-License-Identifier: Apache-2.0
"""What an image installs: the wheels that a lock names, chosen for the image's Python and machine, and verified."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from unearth import Link

from patchset.base import console, paths
from patchset.base.errors import PatchsetError, UnavailableError
from patchset.base.release import Arch, Artifact
from patchset.downloads import fetch, wheel_metadata
from patchset.downloads.index import Index, sha256

#: Python of the image's base, Debian 12.
PYTHON = (3, 11)
#: glibc of Debian 12: the newest manylinux tag that its wheels may carry.
GLIBC_MINOR = 36

#: Questions to the index at a time.
_LOOKUPS = 8

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)")


@dataclass(frozen=True)
class Locked:
    """One line of a lock: ``requirement`` (``name==version``) and the sha256 sums its file may have."""

    requirement: Requirement
    sha256: frozenset[str]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> Version:
        (only,) = self.requirement.specifier
        return Version(only.version)


def read_lock(text: str, arch: Arch, *, origin: str) -> list[Locked]:
    """The requirements of a lock file (pip's format with hashes) that hold for an image of this architecture."""
    environment = {
        "python_version": "{}.{}".format(*PYTHON),
        "python_full_version": "{}.{}.2".format(*PYTHON),
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": arch,
    }
    found = []
    lines = (line.partition(" #")[0] for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
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
            found.append(Locked(requirement, hashes))
    return found


_FIX = "nox -s lock writes the file again"


def image_tags(arch: Arch) -> list[Tag]:
    """The wheel tags that the image's Python takes, best first (PEP 425, PEP 600)."""
    legacy = (
        {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
        if arch == "x86_64"
        else {17: "manylinux2014"}
    )
    platforms = []
    for minor in range(GLIBC_MINOR, 4 if arch == "x86_64" else 16, -1):
        platforms.append(f"manylinux_2_{minor}_{arch}")
        if minor in legacy:
            platforms.append(f"{legacy[minor]}_{arch}")
    platforms.append(f"linux_{arch}")
    interpreter = "cp{}{}".format(*PYTHON)
    return [
        *cpython_tags(PYTHON, platforms=platforms),
        *compatible_tags(PYTHON, interpreter=interpreter, platforms=platforms),
    ]


def choose(locked: Locked, links: Iterable[Link], tags: list[Tag]) -> tuple[Link, str] | None:
    """The best wheel among ``links`` with an allowed sha256, and that sum; none when there is none."""
    rank = {tag: place for place, tag in enumerate(tags)}
    best: tuple[int, str, Link, str] | None = None
    for link in links:
        try:
            _, version, _, wheel_tags = parse_wheel_filename(link.filename)
        except InvalidWheelFilename:
            continue
        places = [rank[tag] for tag in wheel_tags if tag in rank]
        if not places or not locked.requirement.specifier.contains(version, prereleases=True):
            continue
        digest = sha256(link)
        if digest not in locked.sha256:
            continue
        if best is None or (min(places), link.filename) < best[:2]:
            best = (min(places), link.filename, link, digest)
    return best and best[2:]


def dependencies(lock: Path, arch: Arch) -> tuple[list[Locked], list[Path]]:
    """What an image installs by a lock, and the verified files.

    Beside ``requirements.cpu.lock``, whose torch is the package index's and brings CUDA's libraries, may stand
    ``requirements.cpu.cpu-torch.lock``: it is taken where its CPU build of torch is available.
    """
    small = lock.with_name(lock.name.replace(".lock", ".cpu-torch.lock"))
    if small.is_file():
        locks = read_lock(small.read_text(encoding="utf-8"), arch, origin=str(small))
        torch = [locked for locked in locks if locked.name == "torch"]
        if torch and _offered(torch[0], arch):
            console.note(f"a CPU build of torch {torch[0].version} is available: {small.name} is taken")
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
    torch_is_cpu = any(locked.name == "torch" and locked.version.local == "cpu" for locked in locks)
    if not torch_is_cpu:
        return locks
    return [
        locked
        for locked in locks
        if locked.name not in ("torchaudio", "torchcodec") or locked.version.local == "cpu"
    ]


def _offered(locked: Locked, arch: Arch) -> bool:
    return choose(locked, _links(Index(), locked), image_tags(arch)) is not None


def gather(locks: list[Locked], arch: Arch) -> list[Path]:
    """Download what is missing of the locked wheels; all of them, verified, in the lock's order."""
    index = Index()
    tags = image_tags(arch)
    with (
        console.step(f"look up {len(locks)} locked wheels"),
        console.progress("wheels", len(locks), unit="wheels") as advance,
    ):
        pins = []
        with ThreadPoolExecutor(_LOOKUPS) as pool:
            for pin in pool.map(lambda locked: _pin(index, locked, tags), locks):
                pins.append(pin)
                advance(1)
    size = sum(pin.size for pin in pins)
    with (
        console.step(f"fetch {len(pins)} wheels, {size / 1e9:.2f} GB, into {paths.downloads_dir()}"),
        console.progress("fetched and checked", size) as advance,
    ):
        return [fetch.artifact(pin, advance) for pin in pins]


def _pin(index: Index, locked: Locked, tags: list[Tag]) -> Artifact:
    chosen = choose(locked, _links(index, locked), tags)
    if chosen is None:
        raise UnavailableError(
            f"{paths.from_dir() or 'no configured package index'} has no wheel of {locked.requirement} with a locked sha256",
            "'pip config list' shows which indexes are asked; nox -s lock writes the lock again",
        )
    link, digest = chosen
    return Artifact(
        project=locked.name, file=link.filename, sha256=digest, size=wheel_metadata.size(index, link)
    )


def _links(index: Index, locked: Locked) -> list[Link]:
    if (folder := paths.from_dir()) is None:
        return list(index.files(locked.name))
    return [Link.from_path(str(path)) for path in sorted(folder.glob("*.whl")) if _is_of(path, locked.name)]


def _is_of(path: Path, name: str) -> bool:
    return canonicalize_name(path.name.partition("-")[0]) == name
