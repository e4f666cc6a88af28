# SPDX-License-Identifier: Apache-2.0
"""What wheels and the folders in them are called (PEP 427, PEP 440, PEP 503)."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from patchset import paths
from patchset.errors import PatchsetError
from patchset.release import Arch, Release, Target

#: What is built is a distribution of this name, whatever the official wheel's is called.
DISTRIBUTION = "vllm"


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name; ``tags`` is its last three, as in ``cp38-abi3-manylinux_2_28_x86_64``."""

    distribution: str
    version: str
    tags: str

    @property
    def tag_lines(self) -> list[str]:
        """The tags, one by one, as WHEEL lists them: a file name may compress several (PEP 425)."""
        python, abi, platform = self.tags.split("-")
        return [
            f"{p}-{a}-{m}" for p in python.split(".") for a in abi.split(".") for m in platform.split(".")
        ]


def parse(file: str) -> WheelName:
    """Take a wheel's file name apart.

    Raises:
        PatchsetError: it is none.
    """
    try:
        parse_wheel_filename(file)
    except InvalidWheelFilename as error:
        raise PatchsetError(f"{file} is not a wheel's file name: {error}") from error
    parts = file.removesuffix(".whl").split("-")
    return WheelName(parts[0], parts[1], "-".join(parts[-3:]))


def built_name(release: Release, target: Target, arch: Arch) -> str:
    """The file name of what is built: the tags are the official wheel's."""
    tags = parse(release.wheel(target, arch).file).tags
    return f"{escape(DISTRIBUTION)}-{escape(release.built_version(target))}-{tags}.whl"


def built_file(release: Release, target: Target, arch: Arch, mode: str = "overlay") -> Path:
    """Where it goes. Wheels of different modes have the same name, so each has its folder."""
    folder = paths.wheels_dir() / release.name / target
    if mode != "overlay":
        folder /= mode
    return folder / built_name(release, target, arch)


def escape(text: str) -> str:
    """A distribution name or version as file names take it (PEP 427, escaping)."""
    return re.sub(r"[^\w\d.+]+", "_", text)


def dist_info(release: Release, target: Target) -> str:
    """The metadata folder of what is built, ``vllm-0.33.0+mtp.1.dist-info``."""
    return f"{escape(DISTRIBUTION)}-{escape(release.built_version(target))}.dist-info"


def find_dist_info(archive: zipfile.ZipFile, file: str) -> str:
    """The one ``.dist-info`` folder of a wheel.

    Raises:
        PatchsetError: there is none, or more than one.
    """
    found = sorted({name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name})
    found = [folder for folder in found if folder.endswith(".dist-info")]
    if len(found) != 1:
        raise PatchsetError(f"{file} has {len(found)} .dist-info folders, not one: {', '.join(found)}")
    return found[0]


def renamed(member: str, old_dist_info: str, new_dist_info: str) -> str:
    """Where a member of the official wheel stands in what is built: only the folders with the version move."""
    top, slash, rest = member.partition("/")
    stem = old_dist_info.removesuffix(".dist-info")
    if slash and top in (old_dist_info, f"{stem}.data"):
        top = new_dist_info.removesuffix(".dist-info") + top.removeprefix(stem)
    return top + slash + rest
