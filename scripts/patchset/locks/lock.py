# SPDX-License-Identifier: Apache-2.0
"""The locked, hashed set of packages that an image installs beside vLLM: ``requirements.<target>.lock``."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable
from email.message import Message
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from patchset import console, files, paths
from patchset.downloads import fetch, index, wheel_metadata
from patchset.errors import PatchsetError
from patchset.locks import uv, wheelhouse
from patchset.release import Arch, Artifact, Release, Target

#: Debian 12's.
PYTHON = "3.11"

_PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)(?: ; [^\\]*?)? \\$", re.MULTILINE)
_INDEX_TORCH = """\
# torch: upstream asks for its CPU build ({torch}+cpu), which the package index does not have. This lock takes
# the index's CUDA build, which computes on the CPU too and brings its CUDA libraries. Where a CPU build can be
# had (find-links, extra index), requirements.cpu.cpu-torch.lock is to be preferred.
"""
_CPU_TORCH = """\
# torch: the CPU build ({torch}+cpu) that upstream asks for. It is not on the package index but has to be found
# through find-links or an extra index; requirements.cpu.lock is for where it is not. Its wheels:
"""

#: Packages by name and version: the sha256 of the wheels for each architecture that takes this version.
Entries = dict[tuple[str, str], dict[Arch, frozenset[str]]]


def lock_file(release: Release, target: Target) -> Path:
    """``patches/<release>/requirements.<target>.lock``."""
    return release.folder / f"requirements.{target}.lock"


def make(release: Release, target: Target, *, python: str = PYTHON, upgrade: bool = False) -> list[Path]:
    """Resolve the official wheel's requirements and write the lock: the files written, the lock first.

    Beside it ``overrides.<target>.txt`` replaces requirements that no index can meet, and ``constraints.<target>.txt``
    says what upstream's requirements leave open and must not. For ``cpu`` a second lock holds the same with the CPU
    build of torch, where one is available: small, for machines that can get that build. Without ``upgrade`` the versions
    of a lock that stands there are kept as far as the requirements allow.

    Raises:
        UsageError: the release has no wheel for ``target``.
        NoSolutionError: the index cannot meet the requirements; the message names which.
    """
    place = lock_file(release, target)
    archs: list[Arch] = sorted(release.wheels.get(target, {}))
    if not archs:
        release.wheel(target, "x86_64")
    overrides = read_requirements(release.folder / f"overrides.{target}.txt", reasons=True)
    constraints = read_requirements(release.folder / f"constraints.{target}.txt", reasons=True)
    held = {canonicalize_name(Requirement(text).name) for text in constraints}
    old = old_versions(place, upgrade=upgrade)
    entries: Entries = {}
    needed = set()
    for arch in archs:
        with console.step(f"resolve {release.name} {target} {arch}, Python {python}"):
            wanted = _without_local(wheel_requirements(release.wheel(target, arch), python, arch))
            wanted += constraints
            resolve(entries, arch, wanted, python, overrides, old, held)
        for override in [override for override in overrides if override not in needed]:
            others = [other for other in overrides if other != override]
            try:
                uv.resolve(wanted, python=python, arch=arch, overrides=others, constraints=[])
            except uv.NoSolutionError:
                needed.add(override)
    for override in overrides:
        no_more = f"no longer needed, delete it from overrides.{target}.txt and lock again"
        console.note(f"  override {override}: {'still needed' if override in needed else no_more}")

    def header(archs: Iterable[Arch]) -> str:
        wheels = [release.wheel(target, arch) for arch in archs]
        return head(
            f"What an image of vLLM {release.name} for {target} installs beside vLLM itself",
            "nox -s lock",
            python,
            archs,
            "From the official wheel's own requirements, without extras:",
            *(f"  {wheel.file} sha256:{wheel.sha256}" for wheel in wheels),
            *(f"Overridden, with the reasons in overrides.{target}.txt: {text}" for text in overrides),
            *(f"Constrained, with the reasons in constraints.{target}.txt: {text}" for text in constraints),
        )

    if target != "cpu":
        files.write_text(place, header(archs) + body(entries, archs))
        return [place]
    files.write_text(place, header(archs) + _INDEX_TORCH.format(torch=release.torch) + body(entries, archs))
    second = release.folder / "requirements.cpu.cpu-torch.lock"
    builds, small = _with_cpu_torch(release, python, overrides, entries)
    if not builds:
        console.note(
            f"  no CPU build of torch {release.torch} is available here: {second.name} is not written"
        )
        return [place]
    words = _CPU_TORCH.format(torch=release.torch)
    words += "".join(f"#   {build.file}\n" for build in builds.values())
    files.write_text(second, header(builds) + words + body(small, list(builds)))
    return [place, second]


def _with_cpu_torch(
    release: Release, python: str, overrides: list[str], whole: Entries
) -> tuple[dict[Arch, Artifact], Entries]:
    """The CPU builds of the locked torch that pip's locations offer, and the packages with them in place of the index's
    build, without those that only that build needs."""
    major, minor = map(int, python.split("."))
    versions = {Version(f"{version}+cpu") for name, version in whole if name == "torch"}
    kept = [f"{name}=={version}" for name, version in sorted(whole)]
    source = index.Index()
    offered = list(index.wheels(source.files("torch")))
    builds: dict[Arch, Artifact] = {}
    entries: Entries = {}
    for arch in sorted(release.wheels["cpu"]):
        fitting = set(wheelhouse.image_tags(arch, (major, minor)))
        found = [
            (link, version) for link, version, _, tags in offered if version in versions and tags & fitting
        ]
        if not found:
            continue
        link, version = found[0]
        builds[arch] = build = wheel_metadata.pin(source, "torch", link)
        with console.step(f"resolve the same with the CPU build of torch, {arch}"):
            wanted = wheel_requirements(release.wheel("cpu", arch), python, arch)
            wanted = [text for text in wanted if canonicalize_name(Requirement(text).name) != "torch"]
            metadata = wheel_metadata.wheel_metadata(source, link, build)
            wanted += requirements(metadata, build.file, python, arch)
            others = [*overrides, "torch ; python_version < '3'"]
            rest = uv.resolve(wanted, python=python, arch=arch, overrides=others, constraints=kept)
        _add(entries, arch, [*rest, uv.Locked("torch", str(version), ((build.file, build.sha256),))])
    return builds, entries


def wheel_requirements(pinned: Artifact, python: str, arch: Arch) -> list[str]:
    """The Requires-Dist of an official wheel that hold on Linux without extras.

    Read from the verified file where it is available, else from the index without downloading the wheel.
    """
    if paths.from_dir() is not None or (paths.downloads_dir() / pinned.file).is_file():
        metadata = wheel_metadata.read_metadata(fetch.artifact(pinned))
    else:
        source = index.Index()
        link = source.link(pinned.project, pinned.file)
        if (found := index.sha256(link)) not in (None, pinned.sha256):
            raise PatchsetError(f"{pinned.file}: the index offers sha256 {found}, pinned is {pinned.sha256}")
        metadata = wheel_metadata.wheel_metadata(source, link, pinned)
    return requirements(metadata, pinned.file, python, arch)


def requirements(metadata: Message, file: str, python: str, arch: Arch) -> list[str]:
    """The Requires-Dist of a wheel's METADATA that hold on Linux without extras, markers resolved."""
    where = uv.markers(python, arch)
    result = []
    for text in metadata.get_all("Requires-Dist", []):
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise PatchsetError(f"{file}: Requires-Dist {text!r}: {error}") from error
        if requirement.url is not None:
            raise PatchsetError(
                f"{file} requires a direct URL, which cannot be locked: {text}",
                "name a version of that package in patches/RELEASE/overrides.TARGET.txt",
            )
        if requirement.marker is None or requirement.marker.evaluate(where):
            requirement.marker = None
            result.append(str(requirement))
    return result


def read_requirements(file: Path, *, reasons: bool) -> list[str]:
    """The requirements of a file, none where it is not there; with ``reasons`` each stands below or beside a comment that
    says why."""
    result, reason = [], False
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for number, line in enumerate(lines, start=1):
        text, mark, comment = (part.strip() for part in line.partition("#"))
        if not text:
            reason = bool(mark and (comment or reason))
            continue
        try:
            Requirement(text)
        except InvalidRequirement as error:
            raise PatchsetError(
                f"{file}: {text!r}, line {number}: {error}", "one requirement a line"
            ) from error
        if reasons and not (reason or comment):
            raise PatchsetError(
                f"{file}: {text!r}, line {number}, has no reason", "write it above as # comment"
            )
        result.append(text)
        reason = False
    return result


def old_versions(place: Path, *, upgrade: bool) -> dict[str, str]:
    """The versions of the packages of which the lock at ``place`` has one; with ``upgrade`` they do not count."""
    found: dict[str, set[str]] = {}
    for name, version in _PINNED.findall(place.read_text(encoding="utf-8") if place.is_file() else ""):
        found.setdefault(name, set()).add(version.partition("+")[0])
    return {name: min(versions) for name, versions in found.items() if len(versions) == 1 and not upgrade}


def resolve(
    entries: Entries,
    arch: Arch,
    wanted: list[str],
    python: str,
    overrides: list[str],
    old: dict[str, str],
    held: Collection[str] = (),
) -> None:
    """Resolve for one architecture and add what is found to ``entries``: in the versions of the architectures before it
    and of the old lock where they fit together, but for those of the packages ``held``.

    Raises:
        NoSolutionError: the index cannot meet the requirements.
    """
    ask = functools.partial(uv.resolve, wanted, python=python, arch=arch, overrides=overrides)
    versions = old | dict(entries.keys())
    kept = [f"{name}=={version}" for name, version in sorted(versions.items()) if name not in held]
    try:
        try:
            found = ask(constraints=kept)
        except uv.NoSolutionError:
            if not kept:
                raise
            console.note("  the versions locked before do not fit any more; resolved again")
            found = ask(constraints=[])
    except uv.NoSolutionError as error:
        raise uv.NoSolutionError(
            error.message,
            "where the index lacks a version that upstream asks for, name what to take instead in "
            "overrides.<target>.txt beside release.toml, with the reason as a comment",
        ) from error
    _add(entries, arch, found)


def head(what: str, command: str, python: str, archs: Iterable[Arch], *more: str) -> str:
    """The comment at the top of a lock: what it is for, and the command that makes it."""
    glibc = ".".join(map(str, uv.GLIBC))
    where = f"Python {python} on Linux, glibc {glibc} (Debian 12), {' and '.join(archs)}; wheels only."
    return "".join(f"# {line}\n" for line in (f"{what}. Made by {command}; do not edit.", where, *more))


def body(entries: Entries, archs: list[Arch]) -> str:
    """The lines of a lock below its comments, in pip's format with hashes."""
    lines = []
    for name, version in sorted(entries, key=lambda package: (package[0], Version(package[1]))):
        by_arch = entries[name, version]
        marker = "" if list(by_arch) == archs else f" ; platform_machine == '{next(iter(by_arch))}'"
        hashes = sorted(frozenset().union(*by_arch.values()))
        parts = [f"{name}=={version}{marker}", *(f"    --hash=sha256:{sha256}" for sha256 in hashes)]
        lines.append(" \\\n".join(parts) + "\n")
    return "".join(lines)


def _add(entries: Entries, arch: Arch, packages: Iterable[uv.Locked]) -> None:
    for package in packages:
        entries.setdefault((package.name, package.version), {})[arch] = package.hashes


def _without_local(requirements: list[str]) -> list[str]:
    """``torch==2.13.0+cpu`` as ``torch==2.13.0``: no package index keeps local versions (PEP 440)."""
    return [re.sub(r"(==[^+,;\s]+)\+[A-Za-z0-9.]+", r"\1", text) for text in requirements]
