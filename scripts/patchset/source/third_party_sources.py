# SPDX-License-Identifier: Apache-2.0
"""Third-party sources of a build, brought to where CMake is told to look."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from patchset import console, files, git, paths
from patchset.errors import PatchsetError, UnavailableError
from patchset.pins.cmake import Source
from patchset.wheel.archive import Wheel

#: Inside the official wheel: CUTLASS' headers, which stand in where its repository cannot be reached.
CUTLASS = "cutlass"
_CUTLASS_IN_WHEEL = re.compile(r"^(vllm/third_party/[^/]+/cutlass)/include/cutlass/version\.h$")
_CUTLASS_PARTS = ("include/", "tools/util/include/")

#: How long a git server is given to answer whether it has a revision, in seconds.
_ANSWER = 20
_MAX_HEADER = 1 << 20


@dataclass(frozen=True)
class Had:
    """A source that is available: its folder, and in words what it is."""

    source: Source
    folder: Path
    origin: str


def bring(sources: list[Source], official: Path, *, given: Path | None = None) -> list[Had]:
    """Each source as a folder: from ``given`` (by name), from an earlier run, else by git from its repository.

    All are asked for before the first is fetched. CUTLASS' headers are taken from the official wheel where git does not
    give it.
    """
    found: list[Had | None] = []
    missing: list[str] = []
    for source in sources:
        had = _given(source, given)
        if had is None and not _place(source).is_dir() and (fault := _unreachable(source)):
            had = _cutlass_of_wheel(source, official) if source.name == CUTLASS else None
            if had is None:
                missing.append(f"{source.name}: {source.repository} at {source.revision} ({fault})")
        found.append(had)
    if missing:
        names = ", ".join(line.partition(":")[0] for line in missing)
        raise UnavailableError(
            "third-party sources that the build needs are not available:\n  " + "\n  ".join(missing),
            f"put checkouts of these revisions into one folder, named {names}, and give it with --third-party DIR",
        )
    brought = [had or _fetched(source) for source, had in zip(sources, found, strict=True)]
    for had in brought:
        console.note(f"  {had.source.name}: {had.origin}")
    return brought


def _place(source: Source) -> Path:
    return paths.build_dir() / "third-party" / f"{source.name}-{source.revision[:16].replace('/', '-')}"


def _given(source: Source, given: Path | None) -> Had | None:
    if given is None or not (given / source.name).is_dir():
        return None
    folder = (given / source.name).resolve()
    revision = ""
    if (folder / ".git").exists():
        revision = git.text(folder, "rev-parse", "HEAD")
        if source.commit and revision != source.commit:
            raise PatchsetError(
                f"{folder} is at {revision[:12]}; the release builds {source.name} at {source.commit[:12]}",
                f"git -C {folder} checkout {source.commit}",
            )
    elif source.name == CUTLASS:
        revision = "v" + _cutlass_version(folder)
    return Had(source, folder, f"--third-party {folder}" + (f" at {revision}" if revision else ""))


def _fetched(source: Source) -> Had:
    folder = _place(source)
    with files.lock(folder):
        if not folder.is_dir():
            with (
                console.step(f"fetch {source.name} at {source.revision[:16]}"),
                files.atomic_folder(folder) as temp,
            ):
                _fetch(source, temp)
    return Had(source, folder, f"{source.repository} at {source.revision}")


def _fetch(source: Source, folder: Path) -> None:
    try:
        git.run(folder, "init", "--quiet")
        wanted = source.revision if source.commit else f"refs/tags/{source.revision}"
        git.name_remote(folder / ".git", source.repository)
        git.run(folder, "fetch", "--quiet", "--depth=1", "origin", wanted)
        git.run(folder, "checkout", "--quiet", "--force", "FETCH_HEAD")
        if source.submodules is None or source.submodules:
            update = ["submodule", "--quiet", "update", "--init", "--recursive", "--depth=1", "--"]
            # A relative address of a submodule is one beside "origin".
            git.run(folder, *update, *(source.submodules or ()))
    except git.GitError as error:
        raise UnavailableError(
            f"{source.repository} does not give {source.revision}: {error.stderr.strip()[-300:]}",
            f"put a checkout into a folder, named {source.name}, and give that folder with --third-party DIR",
        ) from error


def _unreachable(source: Source) -> str:
    """Why a server does not answer, in words; "" when it does. Asked before minutes of waiting for a download."""
    command = ["git", "-c", "credential.helper=", "ls-remote", "--exit-code", "--", source.repository, "HEAD"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {_ANSWER} s"
    words = (done.stderr.strip() or "no such repository").splitlines()[-1][-200:]
    return words if done.returncode else ""


def _cutlass_version(folder: Path) -> str:
    """The version of CUTLASS' headers in a folder with ``include``."""
    place = folder / "include" / "cutlass" / "version.h"
    try:
        with place.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_HEADER)
    except OSError as error:
        raise PatchsetError(f"{folder} holds no CUTLASS: {error}") from error
    return ".".join(re.findall(r"#define CUTLASS_(?:MAJOR|MINOR|PATCH)\s+(\d+)", text)[:3])


def _cutlass_of_wheel(source: Source, official: Path) -> Had | None:
    """CUTLASS' headers as the official wheel ships them for kernels that are compiled at run time."""
    with Wheel(official) as wheel:
        top = next((match[1] for name in wheel.members if (match := _CUTLASS_IN_WHEEL.match(name))), None)
        parts = [f"{top}/{part}" for part in _CUTLASS_PARTS]
        if top is None or not any(name.startswith(parts[1]) for name in wheel.members):
            return None
        folder = paths.build_dir() / "third-party" / f"{source.name}-of-{official.stem}"
        with files.lock(folder):
            if not folder.is_dir():
                with files.atomic_folder(folder) as temp:
                    for name in wheel.members:
                        if name.startswith(tuple(parts)):
                            place = temp / name.removeprefix(f"{top}/")
                            place.parent.mkdir(parents=True, exist_ok=True)
                            place.write_bytes(wheel.read(name))
    version = _cutlass_version(folder)
    asked = source.revision.removeprefix("v")
    differs = "" if version == asked else f", which is {version} where the release builds with {asked}"
    return Had(source, folder, f"the headers in {official.name}{differs}")
