# SPDX-License-Identifier: Apache-2.0
"""Inputs of a release, downloaded once and verified by sha256 before they are read."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from patchset import console, files, paths
from patchset.errors import NotFoundError, PatchsetError, UnavailableError
from patchset.inputs.index import Index
from patchset.release import Artifact

#: How often an interrupted download is resumed, and the first pause in seconds, which
#: doubles each time.
TRIES = 5
FIRST_PAUSE = 1.0


def artifact(pinned: Artifact, advance: Callable[[int], None] | None = None) -> Path:
    """Return the verified file of a pin: one that is in the downloads, or an index's.

    The file gets its name once it has the pinned sha256. Two runs at once wait for each
    other. ``advance`` is told of its bytes, as one of many; else it is a step of its
    own.
    """
    place = paths.downloads_dir() / pinned.file
    with files.lock(place):
        if place.is_file():
            if files.sha256_file(place) == pinned.sha256:
                if advance is not None:
                    advance(pinned.size)
                return place
            raise PatchsetError(
                f"{place} is not the pinned file",
                "delete it to have it downloaded, or correct the pin",
            )
        files.need_space({place.parent: pinned.size})
        title = f"download {pinned.file} ({pinned.size / 1e6:.1f} MB)"
        step: contextlib.AbstractContextManager[None] = (
            contextlib.nullcontext() if advance else console.step(title)
        )
        with step, files.atomic_file(place) as part:
            told = advance or console.progress(pinned.file, pinned.size)
            _download(pinned, part, told)
    return place


def _download(pinned: Artifact, part: Path, advance: Callable[[int], None]) -> None:
    index = Index()
    failure = ""
    for attempt in range(TRIES):
        if attempt:
            pause = FIRST_PAUSE * 2 ** (attempt - 1)
            console.note(f"  {failure}; again in {pause:.0f} s ({attempt} of {TRIES})")
            time.sleep(pause)
        try:
            links = index.links(pinned.project, pinned.file)
            right = [link for link in links if link.sha256 in (None, pinned.sha256)]
            urls = dict.fromkeys(link.url for link in right or links)
            _append_first(index, urls, part, pinned.size, advance)
            break
        except NotFoundError:
            raise
        except UnavailableError as error:
            failure = error.message
    else:
        raise UnavailableError(
            f"{pinned.file} could not be downloaded: {failure}",
            "check the network, then run the same command again, or put the file into "
            f"{paths.downloads_dir()}",
        )
    if (sha256 := files.sha256_file(part)) != pinned.sha256:
        raise PatchsetError(
            f"{pinned.file} from the package index has sha256 {sha256}, pinned is "
            f"{pinned.sha256}",
            "it was not kept; a pinned hash never changes: if the file was replaced "
            "upstream, look into it",
        )


def _append_first(
    index: Index,
    urls: Iterable[str],
    part: Path,
    size: int,
    advance: Callable[[int], None],
) -> None:
    """Append what is missing, from the first address that gives anything."""
    failure: UnavailableError = NotFoundError(
        f"no package index has {part.name}", "'pip config list' shows which are asked"
    )
    for url in urls:
        before = part.stat().st_size
        try:
            return _append(index, url, part, size, advance)
        except UnavailableError as error:
            if isinstance(failure, NotFoundError):
                failure = error
            if part.stat().st_size != before:
                break  # it is resumed there
    raise failure


def _append(
    index: Index, url: str, part: Path, size: int, advance: Callable[[int], None]
) -> None:
    """Append what is missing; start over if the server cannot resume."""
    have = part.stat().st_size
    asked = {"Accept-Encoding": "identity"}
    if have:
        asked["Range"] = f"bytes={have}-"
    with index.get(url, **asked) as response:
        status = response.status_code
        if status in (401, 403, 404, 410):
            raise NotFoundError(
                f"{url} answers {status}", "check the index and its credentials"
            )
        said = response.headers.get("Content-Range", "")
        resumed = status == 206 and said.startswith(f"bytes {have}-")
        if have and not resumed and status in (200, 206, 416):
            os.truncate(part, 0)
            advance(-have)
        response.raise_for_status()
        with part.open("ab") as file:
            # As the pieces come: a larger size would be buffered, and lost when the
            # connection breaks.
            for piece in response.iter_raw():
                if file.tell() + len(piece) > size:
                    raise PatchsetError(
                        f"{url} sends more than the pinned {size} bytes",
                        "the pin or the index is wrong",
                    )
                file.write(piece)
                advance(len(piece))
    if (have := part.stat().st_size) < size:
        raise UnavailableError(
            f"the server sent {have} of {size} bytes",
            "run the command again: it goes on where this one stopped",
        )
