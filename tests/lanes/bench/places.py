# SPDX-License-Identifier: Apache-2.0
"""Where the measured code comes from: trees of a release, of an earlier revision's patches, and peers' wheels."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

from bench.peer_parsers import PEERS
from bench.subjects import SHORT, SHORT_TOKENS, Place, Subject
from patchset import console, files, git, paths, release
from patchset.errors import PatchsetError, UsageError
from patchset.inputs import fetch, unpack
from patchset.release import Artifact, Release
from patchset.series.apply import patched_tree

#: Bounds of a peer's wheel. SGLang 0.5.23's has 6 400 members.
_MAX_MEMBERS = 50_000
_MAX_BYTES = 1 << 30


def folder() -> Path:
    """What the bench makes beside its results."""
    return paths.build_dir() / "bench"


def of_release(
    pinned: Release, against: str | None, peers: bool
) -> tuple[list[Subject], dict[str, Place]]:
    """The subjects of one release, the measured one first, and their processes.

    Raises:
        UsageError: ``against`` names no revision, or one without this release.
    """
    patched = patched_tree(pinned)
    places = {
        "patched": Place(patched),
        "stock": Place(paths.trees_dir(pinned.name) / "stock"),
    }
    short = Subject(SHORT, "patched", tokens=SHORT_TOKENS)
    subjects = [Subject("patched", "patched"), short, Subject("stock", "stock")]
    if against:
        places["previous"] = Place(previous(pinned, against))
        subjects.append(Subject("previous", "previous"))
    subjects.append(Subject("nothing", "patched", "nothing"))
    if peers:
        subjects.append(Subject("qwen3_xml", "stock", "qwen3_xml"))
        for name in PEERS:
            places[name] = Place(peer=name, folder=peer(name))
            subjects.append(Subject(name, name, name))
    return subjects, places


def previous(pinned: Release, revision: str) -> Path:
    """The tree of a release as another revision of this project patches it.

    Raises:
        UsageError: there is no such revision, or it does not have the release.
    """
    root = paths.project_root()
    found = git.attempt(
        root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"
    )
    if found.returncode or revision.startswith("-"):
        raise UsageError(
            f"{revision} is no revision of this checkout",
            "name a commit, tag or branch",
        )
    commit = git.text(root, "rev-parse", "--verify", f"{revision}^{{commit}}")
    export = folder() / "against" / commit[:12]
    if not export.is_dir():
        with files.atomic_folder(export) as unfinished:
            content = git.run(
                root,
                "archive",
                "--format=tar",
                "--prefix=all/",
                commit,
                "patches",
                "noxfile.py",
            )
            with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
                archive.write(content)
                archive.flush()
                unpack.sdist(Path(archive.name), unfinished)
    if not (export / "patches" / pinned.name / "release.toml").is_file():
        raise UsageError(
            f"{revision} has no {pinned.name}", "leave --against away for this release"
        )
    environment = {
        **os.environ,
        "PATCHSET_ROOT": str(export),
        "PATCHSET_BUILD_DIR": str(export / "build"),
        "PATCHSET_DOWNLOADS": str(paths.downloads_dir()),
    }
    done = subprocess.run(
        [sys.executable, "-m", "patchset", "apply", pinned.name],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PatchsetError(
            f"the patches of {revision} could not be applied to {pinned.name}"
        )
    return Path(done.stdout.strip().splitlines()[-1])


def pinned_peers() -> dict[str, Artifact]:
    """The peers' wheels, by name."""
    listed = tomllib.loads(
        (Path(__file__).parent / "peers.toml").read_text(encoding="utf-8")
    )
    return {
        name: Artifact.model_validate(fields)
        for name, fields in listed["wheels"].items()
    }


def peer(name: str) -> Path:
    """A folder with the Python files of a peer's wheel.

    Raises:
        PatchsetError: the wheel is larger than the bounds, or a member leads outside the folder.
    """
    wheel = pinned_peers()[name]
    place = folder() / "peers" / wheel.file.removesuffix(".whl")
    if place.is_dir():
        return place
    archive = fetch.artifact(wheel)
    with console.step(f"unpack {wheel.file}"), files.atomic_folder(place) as unfinished:
        unpack_python(archive, unfinished)
    return place


def unpack_python(archive: Path, target: Path) -> None:
    """Unpack the ``.py`` files of a wheel.

    Raises:
        PatchsetError: the wheel is larger than the bounds, or a member leads outside ``target``.
    """
    with zipfile.ZipFile(archive) as wheel:
        members = [
            member for member in wheel.infolist() if member.filename.endswith(".py")
        ]
        if (
            len(members) > _MAX_MEMBERS
            or sum(member.file_size for member in members) > _MAX_BYTES
        ):
            raise PatchsetError(
                f"{archive.name} is larger than {_MAX_MEMBERS} files or {_MAX_BYTES} bytes"
            )
        for member in members:
            if member.filename.startswith("/") or ".." in Path(member.filename).parts:
                raise PatchsetError(
                    f"{archive.name}: the member {member.filename!r} leads outside the folder"
                )
            wheel.extract(member, target)


def chosen(names: tuple[str, ...]) -> list[Release]:
    """The named releases, all without a name, the newest first.

    Raises:
        UsageError: one is unknown.
    """
    return (
        [release.load(name) for name in names]
        if names
        else list(reversed(release.releases()))
    )
