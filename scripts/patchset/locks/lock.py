# SPDX-License-Identifier: Apache-2.0
"""The locked, hashed set of packages that an image installs beside vLLM: ``requirements.<target>.lock``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from unearth import Link

from patchset.base import console, files, paths
from patchset.base.errors import PatchsetError, UnavailableError
from patchset.base.release import Arch, Artifact, Release, Target
from patchset.downloads import fetch, index, wheel_metadata
from patchset.locks import uv

#: Debian 12's.
PYTHON = "3.11"

_PINNED = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s;\\]+)(?P<marker> ; [^\\]*?)? \\$", re.M
)


@dataclass
class Entry:
    """A package at one version: the architectures it is for, and the sha256 of its wheels."""

    name: str
    version: str
    archs: list[Arch] = field(default_factory=list)
    hashes: set[str] = field(default_factory=set)


def lock_file(release: Release, target: Target) -> Path:
    """``patches/<release>/requirements.<target>.lock``."""
    return release.folder / f"requirements.{target}.lock"


def cpu_torch_file(release: Release) -> Path:
    """The CPU lock with the CPU build of torch: small, for machines that can get that build."""
    return release.folder / "requirements.cpu.cpu-torch.lock"


def overrides_file(release: Release, target: Target) -> Path:
    """``patches/<release>/overrides.<target>.txt``: what replaces a requirement that no index can meet."""
    return release.folder / f"overrides.{target}.txt"


def constraints_file(release: Release, target: Target) -> Path:
    """``patches/<release>/constraints.<target>.txt``: what upstream's requirements leave open and must not."""
    return release.folder / f"constraints.{target}.txt"


def make(
    release: Release,
    target: Target,
    *,
    python: str = PYTHON,
    upgrade: bool = False,
) -> list[Path]:
    """Resolve the official wheel's requirements and write the lock: the files written, the lock first.

    For ``cpu`` a second lock holds the same with the CPU build of torch, where one is available. Without
    ``upgrade`` the versions of a lock that stands there are kept as far as the requirements allow.

    Raises:
        UsageError: the release has no wheel for ``target``.
        NoSolutionError: the index cannot meet the requirements; the message names which.
    """
    place = lock_file(release, target)
    archs: list[Arch] = sorted(release.wheels.get(target, {}))
    if not archs:
        release.wheel(target, "x86_64")
    old = place.read_text(encoding="utf-8") if place.is_file() and not upgrade else ""
    overrides = read_overrides(overrides_file(release, target))
    constraints = read_overrides(constraints_file(release, target))
    held = {canonicalize_name(Requirement(text).name) for text in constraints}
    entries: dict[tuple[str, str], Entry] = {}
    needed: dict[str, bool] = dict.fromkeys(overrides, False)
    for arch in archs:
        with console.step(f"resolve {release.name} {target} {arch}, Python {python}"):
            wanted = _without_local(wheel_requirements(release.wheel(target, arch), python, arch))
            wanted += constraints
            kept = [pin for pin in kept_versions(old, entries) if Requirement(pin).name not in held]
            found = resolve(wanted, python, arch, overrides, kept)
        for package in found:
            add(entries, package, arch)
        for override in overrides:
            needed[override] = needed[override] or not _resolves(wanted, python, arch, overrides, override)
    _say_overrides(overrides_file(release, target), needed)
    header = _header(release, target, python, archs, overrides, constraints)
    everything = list(entries.values())
    if target != "cpu":
        files.write_text(place, header + body(everything, archs))
        return [place]
    files.write_text(place, header + _words(_INDEX_TORCH, release) + body(everything, archs))
    builds = _cpu_builds(everything, python, archs)
    second = cpu_torch_file(release)
    if not builds:
        console.note(
            f"  no CPU build of torch {release.torch} is available here: {second.name} is not written"
        )
        return [place]
    covered: list[Arch] = [
        arch for arch in archs if any(link.filename.endswith(f"{arch}.whl") for link in builds)
    ]
    small: dict[tuple[str, str], Entry] = {}
    for arch in covered:
        with console.step(f"resolve the same with the CPU build of torch, {arch}"):
            build = next(link for link in builds if link.filename.endswith(f"{arch}.whl"))
            wanted = wheel_requirements(release.wheel(target, arch), python, arch)
            for package in _with_cpu_torch(
                wanted, build, python, arch, overrides, kept_versions("", entries)
            ):
                add(small, package, arch)
    words = _words(_CPU_TORCH, release) + "".join(f"#   {link.filename}\n" for link in builds)
    files.write_text(
        second,
        _header(release, target, python, covered, overrides, constraints)
        + words
        + body(list(small.values()), covered),
    )
    return [place, second]


def wheel_requirements(pinned: Artifact, python: str, arch: Arch) -> list[str]:
    """The Requires-Dist of an official wheel that hold on Linux without extras.

    Read from the verified file where it is available, else from the index without downloading the wheel.
    """
    return requirements(_metadata(pinned), pinned.file, python, arch)


def requirements(metadata: Message, file: str, python: str, arch: Arch) -> list[str]:
    """The Requires-Dist of a wheel's METADATA that hold on Linux without extras, markers resolved."""
    where = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": arch,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
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


def read_overrides(file: Path) -> list[str]:
    """The requirements of an override or constraint file; each stands below or beside a comment that says why."""
    if not file.is_file():
        return []
    result = []
    reason = False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        text, mark, comment = line.partition("#")
        if not text.strip():
            reason = bool(mark and comment.strip()) or (reason and bool(mark))
            continue
        try:
            Requirement(text.strip())
        except InvalidRequirement as error:
            raise PatchsetError(f"{file}:{number}: {error}", "one requirement a line") from error
        if not (reason or comment.strip()):
            raise PatchsetError(f"{file}:{number}: the line has no reason", "write it above as # comment")
        result.append(text.strip())
        reason = False
    return result


def _metadata(pinned: Artifact) -> Message:
    if paths.from_dir() is not None or (paths.downloads_dir() / pinned.file).is_file():
        return wheel_metadata.read_metadata(fetch.artifact(pinned))
    source = index.Index()
    link = source.link(pinned.project, pinned.file)
    offered = (link.hash_option or {}).get("sha256", [pinned.sha256])
    if pinned.sha256 not in offered:
        raise PatchsetError(f"{pinned.file}: the index offers sha256 {offered[0]}, pinned is {pinned.sha256}")
    return wheel_metadata.wheel_metadata(source, link, lambda: fetch.artifact(pinned))


def _without_local(requirements: list[str]) -> list[str]:
    """``torch==2.13.0+cpu`` as ``torch==2.13.0``: no package index keeps local versions (PEP 440)."""
    return [re.sub(r"(==[^+,;\s]+)\+[A-Za-z0-9.]+", r"\1", text) for text in requirements]


def kept_versions(old: str, entries: dict[tuple[str, str], Entry]) -> list[str]:
    """Versions to keep: those of the architecture resolved before, then those of the old lock."""
    now = {name: version for name, version in entries}
    before: dict[str, set[str]] = {}
    for found in _PINNED.finditer(old):
        before.setdefault(found["name"], set()).add(found["version"].partition("+")[0])
    now = {name: min(versions) for name, versions in before.items() if len(versions) == 1} | now
    return [f"{name}=={version}" for name, version in sorted(now.items())]


def resolve(
    wanted: list[str], python: str, arch: Arch, overrides: list[str], kept: list[str]
) -> list[uv.Locked]:
    """Resolve for one architecture, in the versions ``kept`` (``name==version``) where they fit together.

    Raises:
        NoSolutionError: the index cannot meet the requirements.
    """
    if kept:
        try:
            return uv.resolve(wanted, python=python, arch=arch, overrides=overrides, constraints=kept)
        except uv.NoSolutionError:
            console.note("  the versions locked before do not fit any more; resolved again")
    try:
        return uv.resolve(wanted, python=python, arch=arch, overrides=overrides, constraints=[])
    except uv.NoSolutionError as error:
        raise uv.NoSolutionError(
            error.message,
            "where the index lacks a version that upstream asks for, name what to take instead in "
            "overrides.<target>.txt beside release.toml, with the reason as a comment",
        ) from error


def _resolves(wanted: list[str], python: str, arch: Arch, overrides: list[str], left_out: str) -> bool:
    others = [override for override in overrides if override != left_out]
    try:
        uv.resolve(wanted, python=python, arch=arch, overrides=others, constraints=[])
    except uv.NoSolutionError:
        return False
    return True


def _say_overrides(file: Path, needed: dict[str, bool]) -> None:
    for override, still in needed.items():
        console.note(
            f"  override {override}: still needed"
            if still
            else f"  override {override}: no longer needed, delete it from {file.name} and lock again"
        )


def _header(
    release: Release,
    target: Target,
    python: str,
    archs: Iterable[Arch],
    overrides: list[str],
    constraints: list[str],
) -> str:
    lines = [
        f"What an image of vLLM {release.name} for {target} installs beside vLLM itself. Made by nox -s lock; do not edit.",
        f"Python {python} on Linux, glibc {uv.GLIBC} (Debian 12), {' and '.join(archs)}; wheels only.",
        "From the official wheel's own requirements, without extras:",
        *(
            f"  {release.wheel(target, arch).file} sha256:{release.wheel(target, arch).sha256}"
            for arch in archs
        ),
        *(f"Overridden, with the reasons in overrides.{target}.txt: {override}" for override in overrides),
        *(f"Constrained, with the reasons in constraints.{target}.txt: {text}" for text in constraints),
    ]
    return "".join(f"# {line}\n" for line in lines)


_INDEX_TORCH = (
    "torch: upstream asks for its CPU build ({torch}+cpu), which the package index does not have. This lock takes",
    "the index's CUDA build, which computes on the CPU too and brings its CUDA libraries. Where a CPU build can be",
    "had (find-links, extra index), requirements.cpu.cpu-torch.lock is to be preferred.",
)
_CPU_TORCH = (
    "torch: the CPU build ({torch}+cpu) that upstream asks for. It is not on the package index but has to be found",
    "through find-links or an extra index; requirements.cpu.lock is for where it is not. Its wheels:",
)


def _words(lines: tuple[str, ...], release: Release) -> str:
    return "".join(f"# {line.format(torch=release.torch)}\n" for line in lines)


def add(entries: dict[tuple[str, str], Entry], package: uv.Locked, arch: Arch) -> None:
    """Add a package that was resolved for one architecture."""
    entry = entries.setdefault((package.name, package.version), Entry(package.name, package.version))
    entry.archs.append(arch)
    entry.hashes |= package.hashes


def _with_cpu_torch(
    wanted: list[str], build: Link, python: str, arch: Arch, overrides: list[str], kept: list[str]
) -> list[uv.Locked]:
    """The same set with the CPU build of torch in place of the index's, and without what only that one needs."""

    def whole() -> Path:
        raise UnavailableError(f"the server of {build.filename} answers no range requests", "use a folder")

    own = requirements(
        wheel_metadata.wheel_metadata(index.Index(), build, whole), build.filename, python, arch
    )
    _, version, _, _ = parse_wheel_filename(build.filename)
    if (sha256 := index.sha256(build)) is None:
        raise PatchsetError(f"no sha256 is stated for {build.filename}", "use an index that states it")
    never = "torch ; python_version < '3'"
    wanted = [text for text in wanted if canonicalize_name(Requirement(text).name) != "torch"]
    rest = uv.resolve(
        [*wanted, *own], python=python, arch=arch, overrides=[*overrides, never], constraints=kept
    )
    return [*rest, uv.Locked("torch", str(version), ((build.filename, sha256),))]


def body(entries: list[Entry], archs: list[Arch]) -> str:
    """The lines of a lock below its comments, in pip's format with hashes."""
    lines = []
    for entry in sorted(entries, key=lambda entry: (entry.name, Version(entry.version))):
        marker = "" if entry.archs == archs else f" ; platform_machine == '{entry.archs[0]}'"
        hashes = [f"    --hash=sha256:{sha256}" for sha256 in sorted(entry.hashes)]
        lines += [f"{entry.name}=={entry.version}{marker} \\", *[h + " \\" for h in hashes[:-1]], hashes[-1]]
    return "".join(f"{line}\n" for line in lines)


def _cpu_builds(entries: Iterable[Entry], python: str, archs: list[Arch]) -> list[Link]:
    """The CPU builds of the locked torch that pip's locations offer, one an architecture."""
    version = next((entry.version for entry in entries if entry.name == "torch"), None)
    if version is None:
        return []
    found: dict[str, Link] = {}
    for link in index.Index().files("torch"):
        for arch in archs:
            if link.filename.endswith(f"{arch}.whl") and _is_cpu_build(link.filename, version, python):
                found.setdefault(arch, link)
    return list(found.values())


def _is_cpu_build(file: str, version: str, python: str) -> bool:
    try:
        name, found, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return False
    major, minor = map(int, python.split("."))
    wanted = {
        (tag.interpreter, tag.abi)
        for tag in (*cpython_tags((major, minor), platforms=["any"]), *compatible_tags((major, minor)))
    }
    return (
        canonicalize_name(name) == "torch"
        and found == Version(f"{version}+cpu")
        and any((tag.interpreter, tag.abi) in wanted for tag in tags)
    )
