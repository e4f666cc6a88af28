# SPDX-License-Identifier: Apache-2.0
"""``python -m kernels.pack``: the kernel cells as one script for a host that has torch and triton, and nothing of ours."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import click

from kernels.__main__ import KNOWN, TRITON
from patchset import console, files, paths, release, run_command
from patchset.errors import PatchsetError
from patchset.series import apply
from patchset.series.stock_tree import stock_tree

SCRIPT = "kernel-cells.pyz"
#: The most that it may have.
MOST = 20 << 20
_OURS = ("__init__.py", "imports.py", "batches.py", "cell.py")
#: Of a tree: the kernels, what launches them, and upstream's own tests of them.
_THEIRS = (
    "vllm/v1/worker/gpu/sample/**/*.py", "vllm/v1/worker/gpu/states.py", "vllm/sampling_params.py",
    "tests/v1/worker/test_gpu_thinking_budget.py",
)  # fmt: skip
_MAIN = """\
import os, pathlib, subprocess, sys, tempfile, zipfile
with tempfile.TemporaryDirectory() as folder:
    zipfile.ZipFile(sys.argv[0]).extractall(folder)
    cell = [sys.executable, os.path.join(folder, "kernels", "cell.py"), os.path.join(folder, "versions")]
    seen = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    sys.exit(subprocess.run([*cell, *sys.argv[1:]], env=os.environ | {"PYTHONPATH": seen}).returncode)
"""


def pack(out: Path) -> list[dict[str, Any]]:
    """Write the script; returns the versions in it: of each file with kernels that some release has, once.

    Raises:
        PatchsetError: it became too large.
    """
    versions: dict[str, dict[str, Any]] = {}
    trees: dict[str, Path] = {}
    for pinned in reversed(release.releases()):
        if pinned.torch not in TRITON:
            continue  # no release with an older torch has a kernel in a file that its series touches
        for variant, tree in (("patched", apply.patched_tree(pinned)), ("stock", stock_tree(pinned))):
            if not (tree / KNOWN[0]).is_file():
                continue
            digest = hashlib.sha256((tree / KNOWN[0]).read_bytes()).hexdigest()
            name = f"{variant}-{digest[:12]}"
            trees.setdefault(name, tree)
            found = versions.setdefault(name, {"name": name, "sha256": digest, "releases": []})
            found["releases"].append(pinned.name)
    with files.atomic_file(out) as place, zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        _write(archive, "__main__.py", _MAIN.encode())
        for file in _OURS:
            _write(archive, f"kernels/{file}", Path(__file__).with_name(file).read_bytes())
        for name, tree in trees.items():
            for pattern in _THEIRS:
                for source in sorted(tree.glob(pattern)):
                    _write(archive, f"versions/{name}/{source.relative_to(tree)}", source.read_bytes())
        _write(archive, "versions/versions.json", json.dumps(list(versions.values()), indent=1).encode())
    if out.stat().st_size > MOST:
        raise PatchsetError(f"{out} has {out.stat().st_size} bytes, more than {MOST}")
    return list(versions.values())


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="[default: build/kernels/kernel-cells.pyz]"
)
def command(out: Path | None) -> None:
    """Pack every kernel that a series touches, stock and patched, with the tests that a GPU is to run."""
    place = (out or paths.build_dir() / "kernels" / SCRIPT).resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    versions = pack(place)
    for version in versions:
        console.note(f"  {version['name']}: {', '.join(version['releases'])}")
    console.result(f"{place} ({place.stat().st_size / 1e6:.2f} MB)")


if __name__ == "__main__":
    run_command.run(command)
