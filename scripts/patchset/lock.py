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

from patchset import console, fetch, files, index, paths, remote, uv
from patchset.errors import PatchsetError, UnavailableError
from patchset.release import Arch, Artifact, Release, Target

#: Debian 12's.
PYTHON = "3.11"

#: What only the CUDA build of torch needs, by the beginning of the name.
_CUDA_ONLY = ("nvidia-", "cuda-", "triton")
_CPU_BUILD = re.compile(r"^#   (?P<file>\S+\.whl) sha256:(?P<sha256>[0-9a-f]{64})$", re.M)
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


def cuda_torch_file(release: Release) -> Path:
    """What a CPU image installs besides when only the CUDA build of torch can be had."""
    return release.folder / "requirements.cpu.cuda-torch.lock"


def overrides_file(release: Release, target: Target) -> Path:
    """``patches/<release>/overrides.<target>.txt``: what replaces a requirement that no index can meet."""
    return release.folder / f"overrides.{target}.txt"


def make(
    release: Release,
    target: Target,
    *,
    python: str = PYTHON,
    upgrade: bool = False,
    from_dir: Path | None = None,
) -> list[Path]:
    """Resolve the official wheel's requirements and write the lock: the files written, the lock first.

    Without ``upgrade`` the versions of a lock that stands there are kept as far as the requirements allow.

    Raises:
        UsageError: the release has no wheel for ``target``.
        NoSolutionError: the index cannot meet the requirements; the message names which.
    """
    place = lock_file(release, target)
    archs: list[Arch] = sorted(release.wheels.get(target, {}))
    if not archs:
        release.wheel(target, "x86_64")
    old = "" if upgrade else _old_text(release, target)
    overrides = read_overrides(overrides_file(release, target))
    entries: dict[tuple[str, str], Entry] = {}
    needed: dict[str, bool] = dict.fromkeys(overrides, False)
    for arch in archs:
        with console.step(f"resolve {release.name} {target} {arch}, Python {python}"):
            wanted = _without_local(wheel_requirements(release.wheel(target, arch), python, arch, from_dir))
            kept = _kept(old, entries)
            found = _resolve(wanted, python, arch, overrides, kept)
        for package in found:
            entry = entries.setdefault((package.name, package.version), Entry(package.name, package.version))
            entry.archs.append(arch)
            entry.hashes |= package.hashes
        for override in overrides:
            needed[override] = needed[override] or not _resolves(wanted, python, arch, overrides, override)
    _say_overrides(overrides_file(release, target), needed)
    header = _header(release, target, python, archs, overrides)
    everything = list(entries.values())
    if target != "cpu":
        files.write_text(place, header + _body(everything, archs))
        return [place]
    builds = _cpu_builds(everything, python, archs, _old_text(release, target))
    cuda_only = [entry for entry in everything if entry.name.startswith(_CUDA_ONLY)]
    rest = [entry for entry in everything if entry not in cuda_only]
    _add_cpu_builds(rest, builds)
    files.write_text(place, header + _cpu_words(release, builds) + _body(rest, archs))
    second = cuda_torch_file(release)
    files.write_text(second, header + _CUDA_TORCH_WORDS + _body(cuda_only, archs))
    return [place, second]


def wheel_requirements(pinned: Artifact, python: str, arch: Arch, from_dir: Path | None = None) -> list[str]:
    """The Requires-Dist of an official wheel that hold on Linux without extras.

    Read from the verified file where it is at hand, else from the index without downloading the wheel.
    """
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
    for text in _metadata(pinned, from_dir).get_all("Requires-Dist", []):
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise PatchsetError(f"{pinned.file}: Requires-Dist {text!r}: {error}") from error
        if requirement.url is not None:
            raise PatchsetError(
                f"{pinned.file} requires a file from elsewhere: {text}", "such cannot be locked"
            )
        if requirement.marker is None or requirement.marker.evaluate(where):
            requirement.marker = None
            result.append(str(requirement))
    return result


def read_overrides(file: Path) -> list[str]:
    """The requirements of an override file; each stands below or beside a comment that says why.

    Raises:
        PatchsetError: a line is no requirement, or has no reason.
    """
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
            raise PatchsetError(f"{file}:{number}: the override has no reason", "write it above as # comment")
        result.append(text.strip())
        reason = False
    return result


def _metadata(pinned: Artifact, from_dir: Path | None) -> Message:
    if from_dir is not None or (paths.downloads_dir() / pinned.file).is_file():
        return remote.read_metadata(fetch.artifact(pinned, from_dir=from_dir))
    source = index.Index()
    link = source.link(pinned.project, pinned.file)
    offered = (link.hash_option or {}).get("sha256", [pinned.sha256])
    if pinned.sha256 not in offered:
        raise PatchsetError(f"{pinned.file}: the index offers sha256 {offered[0]}, pinned is {pinned.sha256}")
    return remote.wheel_metadata(source, link, lambda: fetch.artifact(pinned))


def _without_local(requirements: list[str]) -> list[str]:
    """``torch==2.13.0+cpu`` as ``torch==2.13.0``: no package index keeps local versions (PEP 440)."""
    return [re.sub(r"(==[^+,;\s]+)\+[A-Za-z0-9.]+", r"\1", text) for text in requirements]


def _kept(old: str, entries: dict[tuple[str, str], Entry]) -> list[str]:
    """Versions to keep: those of the architecture resolved before, then those of the old lock."""
    now = {name: version for name, version in entries}
    before: dict[str, set[str]] = {}
    for found in _PINNED.finditer(old):
        before.setdefault(found["name"], set()).add(found["version"])
    now = {name: min(versions) for name, versions in before.items() if len(versions) == 1} | now
    return [f"{name}=={version}" for name, version in sorted(now.items())]


def _resolve(
    wanted: list[str], python: str, arch: Arch, overrides: list[str], kept: list[str]
) -> list[uv.Locked]:
    if kept:
        try:
            return uv.resolve(wanted, python=python, arch=arch, overrides=overrides, constraints=kept)
        except uv.NoSolutionError:
            console.note("  the versions locked before do not fit any more; resolved anew")
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
    release: Release, target: Target, python: str, archs: Iterable[Arch], overrides: list[str]
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
    ]
    return "".join(f"# {line}\n" for line in lines)


def _cpu_words(release: Release, builds: list[tuple[str, str]]) -> str:
    lines = [
        f"torch: upstream asks for its CPU build ({release.torch}+cpu), which the package index does not have.",
        "The hashes of torch here allow both builds, and pip and uv prefer the CPU build where they find it",
        "(find-links, extra index). Where only the index's CUDA build is found, it runs on the CPU too, and",
        f"{cuda_torch_file(release).name} has what it needs besides.",
        *(["CPU builds of torch that are allowed:"] if builds else []),
    ]
    return "".join(f"# {line}\n" for line in lines) + "".join(
        f"#   {file} sha256:{sha256}\n" for file, sha256 in builds
    )


_CUDA_TORCH_WORDS = (
    "# Only for the CUDA build of torch, where the CPU build cannot be had; install both locks together.\n"
)


def _body(entries: list[Entry], archs: list[Arch]) -> str:
    lines = []
    for entry in sorted(entries, key=lambda entry: (entry.name, Version(entry.version))):
        marker = "" if entry.archs == archs else f" ; platform_machine == '{entry.archs[0]}'"
        hashes = [f"    --hash=sha256:{sha256}" for sha256 in sorted(entry.hashes)]
        lines += [f"{entry.name}=={entry.version}{marker} \\", *[h + " \\" for h in hashes[:-1]], hashes[-1]]
    return "".join(f"{line}\n" for line in lines)


def _old_text(release: Release, target: Target) -> str:
    places = [lock_file(release, target), *([cuda_torch_file(release)] if target == "cpu" else [])]
    return "".join(place.read_text(encoding="utf-8") for place in places if place.is_file())


def _cpu_builds(entries: list[Entry], python: str, archs: list[Arch], old: str) -> list[tuple[str, str]]:
    """File names and sha256 of the CPU builds of the locked torch that pip's locations offer or the old lock allows."""
    version = next((entry.version for entry in entries if entry.name == "torch"), None)
    if version is None:
        return []
    found = {
        m["file"]: m["sha256"] for m in _CPU_BUILD.finditer(old) if _is_cpu_build(m["file"], version, python)
    }
    try:
        offered = list(index.Index().files("torch"))
    except UnavailableError as error:
        console.note(f"  {error.message}")
        offered = []
    for link in offered:
        if not _is_cpu_build(link.filename, version, python) or link.filename in found:
            continue
        if not any(link.filename.endswith(f"{arch}.whl") for arch in archs):
            continue
        sha256 = (link.hash_option or {}).get("sha256", [None])[0]
        if sha256 is None and link.is_file:
            sha256 = files.sha256_file(link.file_path)
        if sha256:
            found[link.filename] = sha256
    return sorted(found.items())


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


def _add_cpu_builds(entries: list[Entry], builds: list[tuple[str, str]]) -> None:
    for entry in entries:
        if entry.name == "torch":
            entry.hashes |= {sha256 for _, sha256 in builds}
