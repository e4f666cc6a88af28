# SPDX-License-Identifier: Apache-2.0
"""A wheel of the bundle: stored, not deflated (parts are compressed as a whole), without what the host cannot use."""

from __future__ import annotations

import base64
import csv
import fnmatch
import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu.bundle import fatbin
from patchset.errors import PatchsetError

#: A member is read into memory; none of a wheel is larger than this many bytes.
_MOST_MEMBER = 1 << 30
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass
class Slimmed:
    """What is not in a slimmed wheel: files ``left_out``, and in ``thinned`` the bytes that went from each library."""

    left_out: list[str] = field(default_factory=list)
    thinned: dict[str, int] = field(default_factory=dict)


def wheel(source: Path, out: Path, left_out: Sequence[str], arch: int) -> Slimmed:
    """Write ``source`` without the members that match ``left_out`` and with native code for ``arch`` alone.

    RECORD (PEP 376) says of every file what it now is.

    Raises:
        PatchsetError: the file is no wheel, or a member is larger than any ought to be.
    """
    made = Slimmed()
    lines: list[tuple[str, str, str]] = []
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        records = [n for n in old.namelist() if n.count("/") == 1 and n.endswith(".dist-info/RECORD")]
        if len(records) != 1:
            raise PatchsetError(f"{source.name} has {len(records)} RECORD files, not one")
        for info in old.infolist():
            if info.is_dir() or info.filename == records[0]:
                continue
            if any(fnmatch.fnmatchcase(info.filename, pattern) for pattern in left_out):
                made.left_out.append(info.filename)
                continue
            if info.file_size > _MOST_MEMBER:
                raise PatchsetError(f"{source.name}: {info.filename} has {info.file_size} bytes")
            content = old.read(info)
            if info.filename.endswith(".so"):
                content, gone = _thinned(content, arch)
                if gone:
                    made.thinned[info.filename] = gone
            _put(new, info.filename, content, info.external_attr)
            lines.append((info.filename, _digest(content), str(len(content))))
        lines.append((records[0], "", ""))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        _put(new, records[0], text.getvalue().encode(), 0o644 << 16)
    return made


def _thinned(content: bytes, arch: int) -> tuple[bytes, int]:
    try:
        return fatbin.thinned(content, arch)
    except fatbin.LayoutError:
        return content, 0  # it travels as it is


def _put(archive: zipfile.ZipFile, name: str, content: bytes, attributes: int) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = attributes
    archive.writestr(info, content)


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
