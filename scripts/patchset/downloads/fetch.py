# SPDX-License-Identifier: Apache-2.0
"""Inputs of a release, downloaded once and verified by sha256 before anybody reads them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from patchset import console, files, git, paths
from patchset.downloads import index
from patchset.errors import NoSpaceError, NotFoundError, PatchsetError, UnavailableError
from patchset.release import Arch, Artifact, GitSource, Release, Target
from patchset.steady import steady

#: How often a download is taken up again before it is given up, and the first pause in seconds (doubled each time).
TRIES = 5
FIRST_PAUSE = 1.0

#: A folder for a download must have this many bytes more than the file.
_SPARE = 64 << 20


def artifact(pinned: Artifact, advance: Callable[[int], None] | None = None) -> Path:
    """The verified file of a pin: from ``build/downloads``, else from ``--from-dir``, else from a package index.

    An interrupted download resumes where it stopped; it takes its name only when the whole file has the
    pinned sha256. Two runs at once wait for each other. ``advance`` hears of the bytes instead of a progress bar.
    """
    place, folder = paths.downloads_dir() / pinned.file, paths.from_dir()
    with files.lock(place):
        if place.is_file() and files.sha256_file(place) == pinned.sha256:
            if (size := place.stat().st_size) != pinned.size:
                raise PatchsetError(
                    f"{place} has the pinned sha256, but {size} bytes, where the pin says {pinned.size}",
                    "the size in release.toml is wrong; the file was kept",
                )
        else:
            if place.is_file():
                # It stays until the right one is there: the pin may be what is wrong.
                console.note(f"{place} is not the pinned file; that is fetched")
            if folder is None:
                return _download(pinned, place, advance)
            if not (folder / pinned.file).is_file():
                hint = f"put it there; its sha256 is {pinned.sha256}"
                raise UnavailableError(f"{folder} has no {pinned.file}", hint)
            _need_space(place.parent, pinned.size)
            with files.atomic_file(place) as temp:
                shutil.copyfile(folder / pinned.file, temp)
                _verify(temp, pinned, str(folder))
        if advance is not None:
            advance(pinned.size)
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


def _verify(file: Path, pinned: Artifact, origin: str) -> None:
    size, sha256 = file.stat().st_size, files.sha256_file(file)
    if (size, sha256) == (pinned.size, pinned.sha256):
        return
    what = f"{size} bytes, pinned are {pinned.size}"
    if size == pinned.size:
        what = f"sha256 {sha256}, pinned is {pinned.sha256}"
    raise PatchsetError(
        f"{pinned.file} from {origin} has {what}",
        "it was not kept; if the file was replaced upstream, that must be looked into: a pinned hash never changes",
    )


def _length(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _download(pinned: Artifact, place: Path, advance: Callable[[int], None] | None) -> Path:
    """Fetch into ``.NAME.part``, whose length says how far it came, and move it into place when it is right."""
    part = place.parent / f".{place.name}.part"
    # Others may be able to write to this folder, and a link may lead anywhere.
    if part.is_symlink() or _length(part) > pinned.size:
        part.unlink()
    done = _length(part)
    _need_space(place.parent, pinned.size - done)
    with files.explain_full_disk(place):
        with contextlib.ExitStack() as shown:
            bar = advance
            if bar is None:
                shown.enter_context(console.step(f"download {pinned.file} ({pinned.size / 1e6:.1f} MB)"))
                bar = shown.enter_context(console.progress(pinned.file, pinned.size))
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
            return _download(pinned, place, advance)
        part.chmod(0o644)
        return part.replace(place)


def _fill(source: index.Index, pinned: Artifact, part: Path, advance: Callable[[int], None]) -> None:
    """Bring ``part`` to the pinned size, taking it up again after a failure."""
    pause = FIRST_PAUSE
    advance(_length(part))
    for attempt in range(1, TRIES + 1):
        before = _length(part)
        try:
            url = source.link(pinned.project, pinned.file).url_without_fragment
            _stream(source, url, part, pinned.size, advance)
            if _length(part) >= pinned.size:
                return
            failure = f"the server closed after {_length(part)} of {pinned.size} bytes"
        except NotFoundError:
            raise
        except (UnavailableError, index.HTTP_ERROR) as error:
            failure = str(error) or type(error).__name__
        if attempt < TRIES:
            if _length(part) > before:
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
    have = _length(part)
    if have == size:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with source.client.get_stream(url, headers=headers) as response:
        if response.status_code in (401, 403, 404, 410):
            raise NotFoundError(
                f"{url} answers {response.status_code}", "check the index and its credentials"
            )
        response.raise_for_status()
        resumed, at = response.status_code == 206, response.headers.get("Content-Range", "")
        if resumed and not (have and at.startswith(f"bytes {have}-")):
            raise UnavailableError(f"{url} was asked for bytes from {have} and sends {at or 'no range'}")
        if not resumed:
            advance(-have)
        with part.open("ab" if resumed else "wb") as file:
            # As the pieces come: a larger size would be collected first, and lost when the connection breaks.
            for piece in steady(response.iter_raw(), url):
                if file.tell() + len(piece) > size:
                    part.unlink()
                    raise PatchsetError(
                        f"{url} sends more than the pinned {size} bytes", "the pin or the index is wrong"
                    )
                file.write(piece)
                advance(len(piece))


def _need_space(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + min(_SPARE, size):
        raise NoSpaceError(
            f"the disk of {folder} has {free / 1e6:.0f} MB free; {size / 1e6:.0f} MB are to be written",
            "free some space there, or set PATCHSET_DOWNLOADS to a folder on another disk",
        )
