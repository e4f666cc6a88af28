# SPDX-License-Identifier: Apache-2.0
"""Inputs of a release, downloaded once and verified by sha256 before anybody reads them."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from patchset.base import console, files, git, paths
from patchset.base.errors import NoSpaceError, NotFoundError, PatchsetError, UnavailableError
from patchset.base.release import Arch, Artifact, GitSource, Release, Target
from patchset.base.steady import steady
from patchset.downloads import index

#: How often a download is taken up again before it is given up, and the first pause in seconds (doubled each time).
TRIES = 5
FIRST_PAUSE = 1.0

_RETRIED: tuple[type[BaseException], ...] = (*index.HTTP_ERRORS, UnavailableError)
#: A folder for a download must have this many bytes more than the file.
_SPARE = 64 << 20


def artifact(pinned: Artifact, advance: Callable[[int], None] | None = None) -> Path:
    """The verified file of a pin: from ``build/downloads``, else from ``--from-dir``, else from a package index.

    An interrupted download resumes where it stopped; it takes its name only when the whole file has the
    pinned sha256. Two runs at once wait for each other. ``advance`` hears of the bytes instead of a progress bar.
    """
    place = paths.downloads_dir() / pinned.file
    with files.lock(place):
        if place.is_file():
            if _matches(place, pinned):
                if advance is not None:
                    advance(pinned.size)
                return place
            # It stays until the right one is there: the pin may be what is wrong.
            console.note(f"{place} is not the pinned file; that is fetched")
        if (folder := paths.from_dir()) is None:
            _download(pinned, place, advance)
        elif (folder / pinned.file).is_file():
            _copy(folder / pinned.file, place, pinned)
            if advance is not None:
                advance(pinned.size)
        else:
            raise UnavailableError(
                f"{folder} has no {pinned.file}", f"put it there; its sha256 is {pinned.sha256}"
            )
    return place


def release_inputs(release: Release, *, targets: Iterable[Target] = (), arch: Arch = "x86_64") -> list[Path]:
    """The source archive of a release and its official wheels for some targets."""
    pins = [release.sdist] if release.sdist else []
    pins += [release.wheel(target, arch) for target in targets]
    return [artifact(pin) for pin in pins]


def git_source(source: GitSource, folder: Path) -> None:
    """Export one commit of a git remote into an empty folder."""
    with (
        console.step(f"fetch {source.commit[:12]} from {source.remote}"),
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=files.TEMP_PREFIX) as name,
    ):
        bare = Path(name)
        git.run(bare, "init", "--quiet", "--bare")
        git.name_remote(bare, source.remote)
        try:
            git.run(bare, "fetch", "--quiet", "--depth=1", "origin", source.commit)
        except git.GitError as error:
            raise UnavailableError(
                f"{source.remote} does not give commit {source.commit}: {error.stderr.strip()[-300:]}",
                "check the remote and the commit in release.toml",
            ) from error
        git.run(bare, f"--work-tree={folder}", "checkout", "--quiet", "--force", source.commit, "--", ".")


def _matches(file: Path, pinned: Artifact) -> bool:
    size = file.stat().st_size
    if size != pinned.size and files.sha256_file(file) == pinned.sha256:
        raise PatchsetError(
            f"{file} has the pinned sha256, but {size} bytes, where the pin says {pinned.size}",
            "the size in release.toml is wrong; the file was kept",
        )
    return size == pinned.size and files.sha256_file(file) == pinned.sha256


def _verify(file: Path, pinned: Artifact, origin: str) -> None:
    size = file.stat().st_size
    if size == pinned.size and (found := files.sha256_file(file)) == pinned.sha256:
        return
    what = (
        f"sha256 {found}, pinned is {pinned.sha256}"
        if size == pinned.size
        else f"{size} bytes, pinned are {pinned.size}"
    )
    raise PatchsetError(
        f"{pinned.file} from {origin} has {what}",
        "it was not kept; if the file was replaced upstream, that must be looked into: a pinned hash never changes",
    )


def _copy(source: Path, place: Path, pinned: Artifact) -> None:
    _need_space(place.parent, pinned.size)
    with files.atomic_file(place) as temp:
        shutil.copyfile(source, temp)
        _verify(temp, pinned, str(source.parent))


def _download(pinned: Artifact, place: Path, advance: Callable[[int], None] | None) -> None:
    """Fetch into ``.NAME.part``, whose length says how far it came, and move it into place when it is right."""
    part = place.parent / f".{place.name}.part"
    if part.is_symlink():  # this folder may be everybody's, and the link lead anywhere
        part.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    if part.is_file() and part.stat().st_size > pinned.size:
        part.unlink()
    done = part.stat().st_size if part.is_file() else 0
    _need_space(place.parent, pinned.size - done)
    with files.explain_full_disk(place):
        if advance is not None:
            _fill(index.Index(), pinned, part, advance)
        else:
            with (
                console.step(f"download {pinned.file} ({pinned.size / 1e6:.1f} MB)"),
                console.progress(pinned.file, pinned.size) as bar,
            ):
                _fill(index.Index(), pinned, part, bar)
        try:
            _verify(part, pinned, "the package index")
        except PatchsetError:
            part.unlink()
            if not done:
                raise
            console.note(f"  what an earlier run left of {pinned.file} was wrong; once more from the start")
            if advance is not None:
                advance(-pinned.size)
            _download(pinned, place, advance)
            return
        part.chmod(0o644)
        part.replace(place)


def _fill(source: index.Index, pinned: Artifact, part: Path, advance: Callable[[int], None]) -> None:
    """Bring ``part`` to the pinned size, taking it up again after a failure."""
    pause = FIRST_PAUSE
    advance(part.stat().st_size if part.is_file() else 0)
    for attempt in range(1, TRIES + 1):
        before = part.stat().st_size if part.is_file() else 0
        try:
            url = source.link(pinned.project, pinned.file).url_without_fragment
            _stream(source, url, part, pinned.size, advance)
        except NotFoundError:
            raise
        except _RETRIED as error:
            if (
                isinstance(error, OSError)
                and error.errno is not None
                and not isinstance(error, ConnectionError)
            ):
                raise
            failure = str(error) or type(error).__name__
        else:
            if part.stat().st_size >= pinned.size:
                return
            failure = f"the server closed after {part.stat().st_size} of {pinned.size} bytes"
        if attempt == TRIES:
            break
        if part.is_file() and part.stat().st_size > before:
            pause = FIRST_PAUSE
        console.note(f"  {failure}; again in {pause:.0f} s ({attempt} of {TRIES})")
        time.sleep(pause)
        pause *= 2
    raise UnavailableError(
        f"{pinned.file} could not be downloaded: {failure}",
        "check the network, then run the same command again (it goes on where it was), or give the file with --from-dir DIR",
    )


def _stream(source: index.Index, url: str, part: Path, size: int, advance: Callable[[int], None]) -> None:
    """Append what is missing; a server that cannot resume starts the file over."""
    have = part.stat().st_size if part.is_file() else 0
    if have == size:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with source.client.get_stream(url, headers=headers) as response:
        if response.status_code in (401, 403, 404, 410):
            raise NotFoundError(
                f"{url} answers {response.status_code}", "check the index and its credentials"
            )
        response.raise_for_status()
        at = response.headers.get("Content-Range", "")
        resumed = have > 0 and response.status_code == 206 and at.startswith(f"bytes {have}-")
        if response.status_code == 206 and not resumed:
            raise UnavailableError(f"{url} was asked for bytes from {have} and sends {at or 'no range'}")
        if have and not resumed:
            advance(-have)
        with part.open("ab" if resumed else "wb") as file:
            # As the pieces come: a larger size would be collected first, and lost when the connection breaks.
            for piece in steady(response.iter_raw(), url):
                if file.tell() + len(piece) > size:
                    file.close()
                    part.unlink()
                    raise PatchsetError(
                        f"{url} sends more than the pinned {size} bytes", "the pin or the index is wrong"
                    )
                file.write(piece)
                advance(len(piece))


def _need_space(folder: Path, size: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < size + min(_SPARE, size):
        raise NoSpaceError(
            f"the disk of {folder} has {free / 1e6:.0f} MB free; {size / 1e6:.0f} MB are to be written",
            "free some space there, or set PATCHSET_DOWNLOADS to a folder on another disk",
        )
