# SPDX-License-Identifier: Apache-2.0
"""A release with its series: what wheels and images are built from."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from patchset.release import Release
from patchset.series import patched_files
from patchset.series.apply import changes
from patchset.series.mail import Patch
from patchset.series.patched_files import Change
from patchset.series.read import entries, entry_file, read


class PatchedRelease:
    """A pin and its series, each part read once."""

    def __init__(self, pin: Release) -> None:
        self.pin = pin

    @cached_property
    def patches(self) -> list[Patch]:
        """The diffs of the series, in order."""
        return read(self.pin).patches

    @property
    def files(self) -> list[Path]:
        """The files of the series, in order: own modules and diffs."""
        return [entry_file(self.pin, entry) for entry in entries(self.pin)]

    @cached_property
    def digest(self) -> str:
        """The sha256 of the source and of what the series makes."""
        return patched_files.sha256(self.pin)

    @cached_property
    def changes(self) -> list[Change]:
        """The files that the series changes, sorted by path."""
        return changes(self.pin)
