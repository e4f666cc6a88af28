# SPDX-License-Identifier: Apache-2.0
"""Patching an installed vLLM in place, and taking the patches out again, for people who cannot rebuild.

Every file that the series touches is, by its hash, either the release's or the patched one; anything else
is refused before the first byte is written. Files are replaced by renaming, so that an interruption leaves
each of them whole; the next run then completes what was begun, in either direction.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from patchset import files
from patchset.errors import PatchsetError, UsageError
from patchset.release import load
from patchset.series.patched_release import PatchedRelease
from patchset.series.replay import Change
from patchset.wheel import record
from patchset.wheel.overlay import PROVENANCE, inside_wheel

#: In ``.dist-info`` while patches are in: the RECORD as the wheel brought it.
RECORD_BACKUP = "RECORD.patchset-stock"

#: A place, its new content (None where there is to be no file), and the mode of a file that is new.
_Write = tuple[Path, bytes | None, int]

_ASK = (
    "import importlib.metadata as m, sys\n"
    "try: d = m.distribution('vllm')\n"
    "except m.PackageNotFoundError: sys.exit(3)\n"
    "print(d.locate_file(''))"
)


@dataclass(frozen=True)
class Installed:
    """An installed vLLM: the ``site`` folder, its ``.dist-info``, the release, and what the series changes there."""

    site: Path
    dist_info: Path
    patched: PatchedRelease
    changed: tuple[Change, ...]

    def kinds(self) -> dict[str, str]:
        """What each file that the series touches is, by its content: ``stock``, ``patched`` or ``foreign``."""
        found: dict[str, str] = {}
        for change in self.changed:
            known = {change.stock: "stock", change.content: "patched"}
            found[change.path] = known.get(_content(self.site / change.path), "foreign")
        return found

    @property
    def live(self) -> bool:
        """Whether the whole series is in."""
        return set(self.kinds().values()) == {"patched"}

    @property
    def stock(self) -> bool:
        """Whether nothing of the series is in."""
        return not (self.dist_info / RECORD_BACKUP).exists() and set(self.kinds().values()) <= {"stock"}

    @property
    def bring_back(self) -> str:
        """The command that installs the release's own files again."""
        return f"pip install --force-reinstall --no-deps vllm=={self.patched.pin.version}"


def find(python: Path) -> Installed:
    """The vLLM that a Python interpreter would import, as installed by pip or uv."""
    try:
        asked = subprocess.run(
            [str(python), "-I", "-c", _ASK], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        raise UsageError(
            f"{python} cannot be run: {error.strerror}", "--python names an interpreter"
        ) from error
    if asked.returncode != 0:
        raise UsageError(
            f"{python} has no vLLM installed", "--python names the interpreter of the environment that serves"
        )
    return look(Path(asked.stdout.strip()))


def look(site: Path) -> Installed:
    """The vLLM in a ``site-packages`` folder."""
    found = sorted(site.glob("vllm-*.dist-info"))
    if len(found) != 1:
        raise UsageError(f"{site} has {len(found)} vllm-*.dist-info folders, not one", "reinstall vLLM there")
    version = found[0].name.removeprefix("vllm-").removesuffix(".dist-info")
    try:
        public = Version(version).public
    except InvalidVersion as error:
        raise UsageError(f"{found[0].name} names no version") from error
    patched = PatchedRelease(load(public))
    touched = tuple(change for change in patched.changes if inside_wheel(change.path))
    return Installed(site, found[0], patched, touched)


def put_in(installed: Installed) -> None:
    """Bring the series into the installed files, and into RECORD, so that an uninstall takes all of them along."""
    with _alone(installed):
        info = installed.dist_info
        stock = _stock_record(installed)
        new = {change.path: change.content for change in installed.changed}
        lines = [line for line in record.parse(stock) if line.name not in new]
        lines += [record.line(path, content) for path, content in new.items() if content is not None]
        lines.append(record.Line(f"{info.name}/{RECORD_BACKUP}", "", ""))
        writes: list[_Write] = [(info / RECORD_BACKUP, stock, 0o644)]
        writes += [
            (installed.site / change.path, change.content, change.mode) for change in installed.changed
        ]
        _write(installed, [*writes, (info / "RECORD", record.render(lines), 0o644)])


def take_out(installed: Installed) -> None:
    """Bring the release's own files back, RECORD included."""
    with _alone(installed):
        _write(
            installed,
            [(installed.site / change.path, change.stock, change.mode) for change in installed.changed],
        )
        backup = installed.dist_info / RECORD_BACKUP
        if backup.exists():
            backup.replace(installed.dist_info / "RECORD")


@contextlib.contextmanager
def _alone(installed: Installed) -> Iterator[None]:
    """One run at a time, without a lock file that pip's uninstall would not know; what a killed run left goes, and where
    a file is somebody's own nothing is done."""
    if (installed.dist_info / PROVENANCE).exists():
        raise UsageError(
            f"{installed.site} has the patched wheel of {installed.patched.pin.name}",
            "it needs no patching in place; for stock, install the official wheel over it",
        )
    folder = os.open(installed.dist_info, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        for change in installed.changed:
            _beside(installed.site / change.path).unlink(missing_ok=True)
        for name in ("RECORD", RECORD_BACKUP):
            _beside(installed.dist_info / name).unlink(missing_ok=True)
        if foreign := [path for path, kind in installed.kinds().items() if kind == "foreign"]:
            raise PatchsetError(
                f"installed files are not those of {installed.patched.pin.name}: {', '.join(foreign)}",
                f"nothing was changed; bring them back first: {installed.bring_back}",
            )
        yield
    finally:
        os.close(folder)


def _stock_record(installed: Installed) -> bytes:
    """RECORD as the wheel brought it, which must name the files that are to be replaced."""
    backup = installed.dist_info / RECORD_BACKUP
    place = backup if backup.exists() else installed.dist_info / "RECORD"
    hint = f"bring it back first: {installed.bring_back}"
    try:
        content = place.read_bytes()
        listed = {line.name for line in record.parse(content)}
    except (OSError, PatchsetError) as error:
        raise PatchsetError(f"{place} is damaged: {error}", hint) from error
    needed = {change.path for change in installed.changed if change.stock is not None}
    if missing := sorted({*needed, f"{installed.dist_info.name}/RECORD"} - listed):
        raise PatchsetError(f"{place} does not list {', '.join(missing[:5])}", hint)
    return content


def _content(place: Path) -> bytes | None:
    return place.read_bytes() if place.is_file() else None


def _beside(place: Path) -> Path:
    return place.with_name(f"{files.TEMP_PREFIX}{place.name}")


def _write(installed: Installed, writes: list[_Write]) -> None:
    """Write all new contents beside their places first, so that a full disk or a missing right stops it early."""
    writes = [write for write in writes if _content(write[0]) != write[1]]
    try:
        for place, content, mode in writes:
            if content is not None:
                _make_folders(place.parent)
                _write_beside(_beside(place), content, place, mode)
        for place, content, _ in writes:
            if content is None:
                place.unlink()
            else:
                _beside(place).replace(place)
    except OSError as error:
        if error.errno in files.NO_SPACE:
            raise files.full_disk(installed.site) from error
        raise PatchsetError(
            f"{installed.site} could not be written: {error}",
            "every file there is whole; run the same command again, or the other way round, when the cause is gone",
        ) from error
    finally:
        for place, *_ in writes:
            _beside(place).unlink(missing_ok=True)
    _remove_bytecode(installed)


def _write_beside(beside: Path, content: bytes, place: Path, mode: int) -> None:
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    model = place if place.exists() else place.parent
    beside.chmod(place.stat().st_mode & 0o777 if place.exists() else mode)
    _give_to_owner_of(model, beside)


def _make_folders(folder: Path) -> None:
    """As an installer makes them, whatever the umask, and for whoever owns the folder above."""
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)
        _give_to_owner_of(folder.parent, folder)


def _give_to_owner_of(model: Path, place: Path) -> None:
    """Root patches an environment of somebody else, who must still be able to uninstall it."""
    if os.geteuid() == 0:
        os.chown(place, model.stat().st_uid, model.stat().st_gid)


def _remove_bytecode(installed: Installed) -> None:
    """A .pyc holds for a source of the same second and size; what was compiled from the other text must go."""
    for change in installed.changed:
        source = installed.site / change.path
        for stale in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
            stale.unlink(missing_ok=True)
        if source.exists():
            continue
        for folder in (source.parent / "__pycache__", *source.parents):
            if folder == installed.site or (folder.is_dir() and any(folder.iterdir())):
                break
            if folder.is_dir():
                folder.rmdir()
