# SPDX-License-Identifier: Apache-2.0
"""What a patched wheel says that the series changed in it."""

from __future__ import annotations

import json
from typing import Any

from patchset.wheel.archive import Wheel
from patchset.wheel.overlay import PROVENANCE


def changed_files(wheel: Wheel) -> dict[str, Any]:
    """What the series changes of a patched wheel: path to the sha256 of ``stock`` and ``patched``."""
    found: dict[str, Any] = json.loads(wheel.read(f"{wheel.dist_info}/{PROVENANCE}"))["files"]
    return found
