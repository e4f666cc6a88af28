# SPDX-License-Identifier: Apache-2.0
"""``patchset.json`` in the metadata folder: where everything in the wheel comes from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from patchset import series
from patchset.apply import Change
from patchset.errors import PatchsetError
from patchset.release import Arch, Release, Target
from patchset.wheel import modes

#: Counts the shape of the file; a reader refuses one that it does not know.
FORMAT = 1

#: A larger one is not read; v0.33.0's has some kilobytes.
MAX_BYTES = 4_000_000


def render(release: Release, target: Target, arch: Arch, mode: str, changes: list[Change]) -> bytes:
    """The file for a wheel that carries ``changes``; nothing in it depends on when or where it was built."""
    official = release.wheel(target, arch)
    told = {
        "format": FORMAT,
        "release": release.name,
        "version": release.built_version(target),
        "commit": release.commit,
        "target": target,
        "arch": arch,
        "mode": mode,
        "official": {"project": official.project, "file": official.file, "sha256": official.sha256},
        "series": {
            "sha256": series.sha256(release),
            "patches": [
                {
                    "name": patch.name,
                    "subject": patch.subject,
                    "sha256": hashlib.sha256(patch.file.read_bytes()).hexdigest(),
                }
                for patch in series.read(release)
            ],
        },
        # null stands for no file: added by the series, or deleted by it.
        "files": [
            {"path": change.path, "stock": _sha256(change.stock), "patched": _sha256(change.content)}
            for change in changes
            if modes.in_wheel(change.path)
        ],
    }
    return (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class Claim:
    """What a wheel says of itself. It is a claim: ``verify`` holds it against pin and series."""

    release: str
    target: str
    arch: str
    mode: str


def read(content: bytes) -> Claim:
    """What a ``patchset.json`` says.

    Raises:
        PatchsetError: it cannot be read.
    """
    if len(content) > MAX_BYTES:
        raise PatchsetError(f"patchset.json has {len(content)} bytes; more than {MAX_BYTES} are not read")
    try:
        told = json.loads(content)
        if told["format"] != FORMAT:
            raise PatchsetError(f"patchset.json has the format {told['format']}; this version reads {FORMAT}")
        return Claim(*(str(told[key]) for key in ("release", "target", "arch", "mode")))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PatchsetError(f"patchset.json cannot be read: {error!r}") from error


def _sha256(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()
