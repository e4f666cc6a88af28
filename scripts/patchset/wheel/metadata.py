# SPDX-License-Identifier: Apache-2.0
"""The files of a wheel that name its version: METADATA, WHEEL, ``vllm/_version.py``."""

from __future__ import annotations

import re

from packaging.version import Version

from patchset.errors import PatchsetError

#: What ``vllm.__version__`` is read from.
VERSION_MODULE = "vllm/_version.py"

#: What this project adds to the metadata folder: where the wheel's content comes from.
PROVENANCE = "patchset.json"


def metadata(content: bytes, name: str, version: str) -> bytes:
    """METADATA with another ``Name`` and ``Version``; everything else stays as it is.

    Raises:
        PatchsetError: it does not have each of the two once.
    """
    head, blank, body = content.partition(b"\n\n")
    head = _replace_field(head, "Name", name, "METADATA")
    return _replace_field(head, "Version", version, "METADATA") + blank + body


def wheel(content: bytes, tags: list[str]) -> bytes:
    """WHEEL with these tags. Official files say ``linux_x86_64`` or one Python there, unlike their names."""
    lines = content.rstrip(b"\n").split(b"\n")
    first = next((at for at, line in enumerate(lines) if line.startswith(b"Tag:")), None)
    if first is None:
        raise PatchsetError("WHEEL has no Tag")
    kept = [line for line in lines if not line.startswith(b"Tag:")]
    kept[first:first] = [f"Tag: {tag}".encode() for tag in tags]
    return b"\n".join(kept) + b"\n"


def version_module(content: bytes, version: str) -> bytes:
    """``_version.py`` with another version, in the form that setuptools-scm writes.

    Raises:
        PatchsetError: it is not in that form.
    """
    content = _assign(content, "__version__ = version", repr(version))
    return _assign(content, "__version_tuple__ = version_tuple", repr(version_tuple(version)))


def version_tuple(version: str) -> tuple[int | str, ...]:
    """``(0, 33, 0, 'mtp.1')``, as setuptools-scm makes it of ``0.33.0+mtp.1``."""
    parsed = Version(version)
    return parsed.release + ((parsed.local,) if parsed.local else ())


def _assign(content: bytes, left: str, right: str) -> bytes:
    pattern = re.compile(rb"^" + re.escape(left.encode()) + rb" = .*$", re.MULTILINE)
    content, count = pattern.subn(lambda _: f"{left} = {right}".encode(), content)
    if count != 1:
        raise PatchsetError(f"{VERSION_MODULE} has {count} lines '{left} = ...', not one")
    return content


def _replace_field(content: bytes, field: str, value: str, where: str) -> bytes:
    pattern = re.compile(rb"^" + field.encode() + rb": .*$", re.MULTILINE)
    content, count = pattern.subn(f"{field}: {value}".encode(), content)
    if count != 1:
        raise PatchsetError(f"{where} has {count} fields {field}, not one")
    return content
