# SPDX-License-Identifier: Apache-2.0
"""Atomic writes: a file or folder is there as a whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from patchset import console, paths
from patchset.errors import NoSpaceError

#: What a full disk, or a full quota, is called.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

#: Temporary names start so.
TEMP_PREFIX = ".tmp-"
#: In a temporary folder, what its run holds.
_LOCK = ".lock"


def sha256_file(path: Path) -> str:
    """Return the sha256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_regular(path: Path, limit: int) -> bytes:
    """Return the content of a plain file of at most ``limit`` bytes.

    Raises:
        OSError: it is something else (a link, a pipe, a device), or larger.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"more than {limit} bytes", str(path))
    return content


#: Descriptors of the locks that this process holds.
locks_held: set[int] = set()


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold ``path`` for one run at a time; a second run says that it waits, and waits.

    The lock is a file ``.NAME.lock`` beside ``path``, released by the kernel when its
    holder has died, with all programs that ``process.run`` started for it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    place = path.with_name(f".{path.name}.lock")
    with contextlib.ExitStack() as held:
        try:
            handle = held.enter_context(_held(place))
        except BlockingIOError:
            console.note(f"another run works on {path.name}; waiting for it")
            handle = held.enter_context(_held(place, fcntl.LOCK_EX))
        locks_held.add(handle)
        held.callback(locks_held.discard, handle)
        yield


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """Yield a place for what shall be ``path``: of its name, in a temporary folder
    beside it.

    Deletes what killed runs left of the same name.
    """
    made = path.parent / f"{TEMP_PREFIX}{secrets.token_hex(4)}-{path.name}"
    with explain_full_disk(path), contextlib.ExitStack() as held:
        path.parent.mkdir(parents=True, exist_ok=True)
        held.callback(shutil.rmtree, made, ignore_errors=True)
        with _held(path.parent, fcntl.LOCK_EX):  # until others see that it is held
            for left in path.parent.glob(f"{TEMP_PREFIX}*-{path.name}"):
                with contextlib.suppress(OSError), _held(left / _LOCK):
                    shutil.rmtree(left, ignore_errors=True)
            made.mkdir()
            held.enter_context(_held(made / _LOCK))
        yield made / path.name


@contextlib.contextmanager
def _held(place: Path, how: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> Iterator[int]:
    """Hold a folder or file itself; BlockingIOError if another run holds it."""
    flags = os.O_RDONLY if place.is_dir() else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    handle = os.open(place, flags, 0o644)
    try:
        fcntl.flock(handle, how)
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Write a temporary file and rename it to ``path`` at the end, or leave nothing."""
    with _unfinished(path) as unfinished:
        unfinished.touch()
        yield unfinished
        _sync(unfinished)
        unfinished.chmod(0o644)
        unfinished.replace(path)


def remove_others(path: Path, pattern: str) -> None:
    """Delete the files beside ``path`` that a pattern names: earlier builds of it."""
    for other in path.parent.glob(pattern):
        if other != path:
            other.unlink()


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Fill a temporary folder and rename it to ``path`` at the end, or leave nothing.

    An existing folder is replaced, and kept when filling fails.
    """
    with _unfinished(path) as new:
        new.mkdir()
        new.chmod(0o755)
        yield new
        if path.exists():
            path.rename(new.with_name(f"old-{path.name}"))
        new.rename(path)


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder in ``folder``."""
    with _unfinished(folder / "scratch") as made:
        made.mkdir(mode=0o700)
        yield made


def write_text(path: Path, text: str) -> None:
    """Replace a text file's content in one step."""
    write_all({path: text})


def write_all(texts: Mapping[Path, str]) -> None:
    """Replace text files, once all of them are on the disk."""
    with contextlib.ExitStack() as done:
        for path, text in texts.items():
            unfinished = done.enter_context(atomic_file(path))
            unfinished.write_text(text, encoding="utf-8")
            _sync(unfinished)


def _sync(file: Path) -> None:
    """Have a file's content on the disk, so that a full one is noticed."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


@contextlib.contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Turn "no space left" into an error that says where and what to do."""
    try:
        yield
    except OSError as error:
        # What copytree raises has no errno, only the text of each file's error.
        if error.errno not in NO_SPACE and not (
            isinstance(error, shutil.Error) and tells_of_no_space(str(error))
        ):
            raise
        raise full_disk(path) from error


def tells_of_no_space(words: str) -> bool:
    """Return whether a program's words say that a disk is full."""
    # Go's programs, such as buildah, write it in small letters.
    return any(os.strerror(number).lower() in words.lower() for number in NO_SPACE)


def full_disk(path: object) -> NoSpaceError:
    """Return the error that says where."""
    return NoSpaceError(
        f"the disk is full: {path} could not be written",
        "free some space there, or set PATCHSET_BUILD_DIR or PATCHSET_DOWNLOADS to "
        "another disk; no file is half written",
    )


def need_space(needs: Mapping[Path, float]) -> None:
    """Refuse to start if a disk is too small for the bytes to be written to folders."""
    disks: dict[int, tuple[Path, str, float]] = {}
    for folder, size in needs.items():
        there = next(place for place in (folder, *folder.parents) if place.exists())
        disk = there.stat().st_dev
        first, way, before = disks.get(disk, (there, _moved_by(folder), 0))
        disks[disk] = (first, way, before + max(size, 0))
    for folder, way, size in disks.values():
        wanted = size + min(size, 64e6 + size / 10)  # other programs write too
        free = shutil.disk_usage(folder).free
        if free < wanted:
            raise NoSpaceError(
                f"{folder} has {free / 1e6:.0f} MB free; {wanted / 1e6:.0f} MB are "
                "needed, headroom included",
                f"free some space there, or {way}",
            )


def _moved_by(folder: Path) -> str:
    """Return how a folder gets to another disk."""
    if folder.is_relative_to(paths.downloads_dir()):
        return "set PATCHSET_DOWNLOADS to a folder on another disk"
    if folder.is_relative_to(paths.build_dir()):
        return "set PATCHSET_BUILD_DIR to a folder on another disk"
    return "move it (an engine's store: graphroot in its storage.conf)"
