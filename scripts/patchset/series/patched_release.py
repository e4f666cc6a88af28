# SPDX-License-Identifier: Apache-2.0
"""A release with its series: what wheels and images are built from, and what is said of them."""

from __future__ import annotations

from functools import cached_property

from patchset.release import Release
from patchset.series import order, patched_files
from patchset.series.apply import changes
from patchset.series.patch import Patch
from patchset.series.replay import Change


class PatchedRelease:
    """A pin and its series. Each part is read once, when it is first asked for, so that all who are handed one agree."""

    def __init__(self, pin: Release) -> None:
        self.pin = pin

    @cached_property
    def patches(self) -> list[Patch]:
        """The series, in order."""
        return order.read(self.pin)

    @cached_property
    def digest(self) -> str:
        """The sha256 of what the series makes."""
        return patched_files.sha256(self.pin)

    @cached_property
    def changes(self) -> list[Change]:
        """The files that the series changes, sorted by path."""
        return changes(self.pin)
