# SPDX-License-Identifier: Apache-2.0
"""Inputs of a release, downloaded once and verified by sha256 before they are read."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx

from patchset import console, files, paths
from patchset.errors import (
    NotFoundError,
    PatchsetError,
    UnavailableError,
)
from patchset.inputs.index import Index, Link, steady
from patchset.release import Arch, Artifact, Release, Target

#: How often an interrupted download is resumed, and the first pause in seconds, which
#: doubles each time.
TRIES = 5
FIRST_PAUSE = 1.0


def artifact(pinned: Artifact, advance: Callable[[int], None] | None = None) -> Path:
    """The verified file of a pin: downloaded before, or from --from-dir, or an index.

    An interrupted download is resumed. The file gets its name once it has the pinned
    sha256. Two runs at once wait for each other. ``advance`` is told of bytes instead
    of a progress bar.
    """
    place, folder = paths.downloads_dir() / pinned.file, paths.from_dir()
    with files.lock(place):
        if place.is_file() and files.sha256_file(place) == pinned.sha256:
            if (size := place.stat().st_size) != pinned.size:
                raise PatchsetError(
                    f"{place} has the pinned sha256 and {size} bytes, pinned are "
                    f"{pinned.size}",
                    "correct the size in release.toml or the lock; the file was kept",
                )
        else:
            if place.is_dir():
                raise PatchsetError(f"{place} is a folder", "move it away")
            if place.is_file():  # kept until then: the pin may be what is wrong
                console.note(f"{place} is not the pinned file; fetching that")
            if folder is None:
                return _download(pinned, place, advance)
            if not (folder / pinned.file).is_file():
                raise UnavailableError(
                    f"{folder} has no {pinned.file}",
                    f"put it there; its sha256 is {pinned.sha256}",
                )
            files.need_space({place.parent: pinned.size})
            with files.atomic_file(place) as temp:
                shutil.copyfile(folder / pinned.file, temp)
                _verify(temp, pinned, str(folder))
        if advance is not None:
            advance(pinned.size)
    return place


def release_inputs(
    release: Release, *, targets: Iterable[Target] = (), arch: Arch = "x86_64"
) -> list[Path]:
    """Fetch the source archive of a release, and its official wheels for targets."""
    wheels = [release.wheel(target, arch) for target in targets]
    return [artifact(pin) for pin in (release.sdist, *wheels)]


def _verify(file: Path, pinned: Artifact, origin: str) -> None:
    size, sha256 = file.stat().st_size, files.sha256_file(file)
    if (size, sha256) == (pinned.size, pinned.sha256):
        return
    what = f"{size} bytes, pinned are {pinned.size}"
    if size == pinned.size:
        what = f"sha256 {sha256}, pinned is {pinned.sha256}"
    raise PatchsetError(
        f"{pinned.file} from {origin} has {what}",
        "it was not kept; a pinned hash never changes: if the file was replaced "
        "upstream, look into it",
    )


def _download(
    pinned: Artifact, place: Path, advance: Callable[[int], None] | None
) -> Path:
    """Fill ``.NAME.part``, whose length is the progress, and rename it when right."""
    part = place.parent / f".{place.name}.part"
    _discard_foreign(part, pinned.size)
    done = _length(part)
    files.need_space({place.parent: pinned.size - done})
    with files.explain_full_disk(place):
        with contextlib.ExitStack() as shown:
            bar = advance
            if bar is None:
                title = f"download {pinned.file} ({pinned.size / 1e6:.1f} MB)"
                shown.enter_context(console.step(title))
                bar = shown.enter_context(console.progress(pinned.file, pinned.size))
            _fill(Index(), pinned, part, bar)
        try:
            _verify(part, pinned, "the package index")
        except PatchsetError:
            part.unlink()
            if not done:
                raise
            console.note(f"  the partial {pinned.file} was wrong; starting over")
            if advance is not None:
                advance(-pinned.size)
            return _download(pinned, place, advance)
        part.chmod(0o644)
        return part.replace(place)


def _discard_foreign(part: Path, size: int) -> None:
    """Remove a partial file that no earlier run can have left.

    Others may be able to write to the folder: writing through a link, or to a second
    name of another file, would change that file; opening a fifo would wait for ever.
    """
    with contextlib.suppress(FileNotFoundError):
        if part.is_dir() and not part.is_symlink():
            raise PatchsetError(f"{part} is a folder", "move it away")
        status = part.lstat()
        plain = part.is_file() and not part.is_symlink() and status.st_nlink == 1
        if not plain or status.st_size > size:
            part.unlink()


def _length(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _fill(
    index: Index, pinned: Artifact, part: Path, advance: Callable[[int], None]
) -> None:
    """Bring ``part`` to the pinned size, resuming after a failure."""
    pause = FIRST_PAUSE
    advance(_length(part))
    for attempt in range(1, TRIES + 1):
        before = _length(part)
        try:
            link = index.link(pinned.project, pinned.file)
            _append(index, link, part, pinned.size, advance)
            if _length(part) >= pinned.size:
                return
            failure = f"the server sent {_length(part)} of {pinned.size} bytes"
        except NotFoundError:
            raise
        except (UnavailableError, httpx.HTTPError) as error:
            failure = str(error) or type(error).__name__
        if attempt < TRIES:
            if _length(part) > before:
                pause = FIRST_PAUSE
            again = f"again in {pause:.0f} s ({attempt} of {TRIES})"
            console.note(f"  {failure}; {again}")
            time.sleep(pause)
            pause *= 2
    raise UnavailableError(
        f"{pinned.file} could not be downloaded: {failure}",
        "check the network, then run the same command again (it resumes), or give the "
        "file with --from-dir DIR",
    )


def _append(
    index: Index, link: Link, part: Path, size: int, advance: Callable[[int], None]
) -> None:
    """Append what is missing; start over if the server cannot resume."""
    have = _length(part)
    if have == size:
        return
    asked = {"Accept-Encoding": "identity"}
    if have:
        asked["Range"] = f"bytes={have}-"
    with index.get(link.url, **asked) as response:
        if response.status_code in (401, 403, 404, 410):
            raise NotFoundError(
                f"{link.url} answers {response.status_code}",
                "check the index and its credentials",
            )
        if response.status_code == 416:  # what there is cannot be a part of the file
            part.unlink(missing_ok=True)
            advance(-have)
        response.raise_for_status()
        resumed = response.status_code == 206
        at = response.headers.get("Content-Range", "")
        if resumed and not (have and at.startswith(f"bytes {have}-")):
            raise UnavailableError(
                f"{link.url} was asked for bytes from {have} and sends "
                f"{at or 'no range'}"
            )
        if not resumed:
            advance(-have)
        # As the pieces come: a larger size would be buffered, and lost when the
        # connection breaks.
        pieces = steady(response.iter_raw(), link.url)
        _write(part, "ab" if resumed else "wb", pieces, size, link.url, advance)


def _write(
    part: Path,
    mode: str,
    pieces: Iterator[bytes],
    size: int,
    where: str,
    advance: Callable[[int], None],
) -> None:
    with part.open(mode) as file:
        for piece in pieces:
            if file.tell() + len(piece) > size:
                part.unlink()
                raise PatchsetError(
                    f"{where} sends more than the pinned {size} bytes",
                    "the pin or the index is wrong",
                )
            file.write(piece)
            advance(len(piece))
