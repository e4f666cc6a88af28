# SPDX-License-Identifier: Apache-2.0
"""Results of the cells: handed back in one file, and taken from such a file on a host that has none of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FILE = "results.json"
#: The most that is read of such a file, in bytes.
MOST = 16 << 20
_WORDS = ("release", "variant", "cell")
_PLAIN = re.compile(r"[a-z0-9.]{1,20}")


def write(folder: Path, out: Path) -> None:
    """Write the results of ``folder`` as one file; replaced whole, so that a run cut off leaves the one before."""
    found = [_read(file) for file in sorted(folder.glob("cells/*.json"))]
    text = json.dumps([result for result in found if result], ensure_ascii=False, indent=1) + "\n"
    unfinished = out / f".{FILE}.unfinished"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(out / FILE)


def carry(places: Sequence[Path], folder: Path) -> int:
    """Put results of an earlier host, delivered as ``results.json`` in one of ``places``, where this one keeps its own.

    Whether a result is of this bundle's wheels, the lane asks. Returns how many were taken.
    """
    taken = 0
    for place in places:
        file = place / FILE
        if not file.is_file() or file.stat().st_size > MOST:
            continue
        try:
            results = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            continue
        for result in results if isinstance(results, list) else ():
            words = [str(result.get(word)) for word in _WORDS] if isinstance(result, dict) else []
            if not words or not all(map(_PLAIN.fullmatch, words)) or not isinstance(result.get("mtp"), int):
                continue
            kept = folder / "cells" / f"{'-'.join(words)}-k{result['mtp']}.json"
            if not kept.is_file():
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")
                taken += 1
    return taken


def _read(file: Path) -> dict[str, Any] | None:
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None  # another process is writing it
    return result if isinstance(result, dict) else None
