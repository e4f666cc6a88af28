# SPDX-License-Identifier: Apache-2.0
"""What goes into a bundle besides wheels: the lane's own files, and what the series changes in vLLM's."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from gpu.bundle.parts import SCRIPT
from patchset import paths

#: Below the project's root; what imports nothing but the standard library, the lane's packages, and each other.
_LANE = (
    "tests/lanes/cpu/*.py", "tests/lanes/cpu/*.json", "tests/lanes/cpu/*.jinja", "tests/lanes/cpu/site/*.py", "tests/lanes/cpu/surfaces/*.py",
    "tests/lanes/cpu/transcripts/*.json", "tests/lanes/gpu/*.py", "tests/lanes/gpu/*.json", "tests/lanes/gpu/host/*.py",
    "scripts/patchset/__init__.py",
    "scripts/patchset/console.py", "scripts/patchset/run_command.py",
    "scripts/patchset/errors.py", "scripts/patchset/files.py", "scripts/patchset/paths.py",
    "scripts/patchset/process.py", "scripts/patchset/guard.py", "scripts/patchset/release.py",
)  # fmt: skip


def lane() -> dict[str, Path]:
    """The lane's files, by their paths below the project's root; its tests are not among them."""
    root = paths.project_root()
    return {
        str(file.relative_to(root)): file
        for pattern in _LANE
        for file in sorted(root.glob(pattern))
        if not file.name.startswith("test_")
    }


def overlay(official: Path, patched: Path, out: Path) -> list[str]:
    """Write what differs between two wheels as a tar archive, and return the members that are gone."""
    with (
        zipfile.ZipFile(official) as old,
        zipfile.ZipFile(patched) as new,
        tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        before = {info.filename: (info.CRC, info.file_size) for info in old.infolist() if not info.is_dir()}
        after = {info.filename: (info.CRC, info.file_size) for info in new.infolist() if not info.is_dir()}
        for name in sorted(after):
            if before.get(name) == after[name]:
                continue
            content = new.read(name)
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            archive.addfile(info, io.BytesIO(content))
    return sorted(name for name in before if name not in after and ".dist-info/" not in name)


def folded(names: list[str]) -> list[str]:
    """File names, of which many in one folder are told as a count."""
    by_folder: dict[str, list[str]] = {}
    for name in names:
        top = "/".join(name.split("/")[:3])
        by_folder.setdefault(top, []).append(name)
    return [
        found[0] if len(found) == 1 else f"{top} ({len(found)} files)" for top, found in by_folder.items()
    ]


def readme(manifest: dict[str, Any]) -> str:
    """How to use the bundle, in a few lines beside it."""
    rows = "\n".join(f"| {p['name']} | {p['size']} | {p['sha256']} |" for p in manifest["parts"])
    host = ", ".join(f"{name} {version}".strip() for name, version in manifest["host"].items())
    left = "\n".join(
        f"- {name}: {', '.join(said['bundle']['left_out'])}" for name, said in manifest["releases"].items()
    )
    return f"""# The gpu lane for {", ".join(manifest["releases"])}

For a host with one GPU of sm_90, without a network, that has: {host}.

    python3 {SCRIPT} FOLDER-WITH-PARTS... --store STORE --out OUT --seconds 480

Run it once for each delivery of parts, in any order, and then until it says that all cells are done. STORE must stay
the same; OUT receives `results.json` (all results), `lane.log` and `failed.txt`. On a host that has lost STORE, deliver
`results.json` beside the parts. Exit status: 0 done and right; 1 wrong; 3 parts are missing; 4 the time was up.

`kernel-cells.pyz` needs none of it: one minute, `python3 kernel-cells.pyz --out OUT`.

| part | bytes | sha256 |
|---|---|---|
{rows}

Not in it, of vLLM's own files:

{left}
"""
