# SPDX-License-Identifier: Apache-2.0
"""The receipt's file: the lane, the patched files and their sums, and the model."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import results
from patchset import files, paths
from patchset.errors import PatchsetError
from patchset.series import patched_files
from patchset.series.apply import PatchedRelease
from patchset.wheel.overlay import inside_wheel, sha256
from server import model as small
from server import overlay

#: The file may be attached to an issue, or sent by mail.
MOST_BYTES = 25 << 20
#: What is carried of the lanes and of the tool; ``tests/lanes/server/receipt.py`` runs.
_LANES = (
    "conformance/__init__.py",
    "conformance/case.py",
    "conformance/check.py",
    "conformance/reading.py",
    "conformance/tokens.py",
    "conformance/cases/*.json",
    "conformance/surfaces/*.py",
    "kernels/*.py",
    "server/*.py",
    "server/prompts.json",
    "server/site/*.py",
)
_TOOL = ("__init__.py", "console.py", "errors.py", "files.py", "paths.py")
_START = '''\
"""Unpack the file that this is in, and run the lane."""
import os, sys, tempfile, zipfile
os.environ["RECEIPT_FILE"] = os.path.abspath(sys.argv[0])
with tempfile.TemporaryDirectory(prefix="receipt-") as folder:
    zipfile.ZipFile(sys.argv[0]).extractall(folder)
    sys.path[0] = folder
    sys.argv[0] = os.path.basename(sys.argv[0])
    try:
        from server.receipt import command
    except ModuleNotFoundError as error:
        sys.exit(f"paste this: no vLLM is in {sys.executable}: it has no {error.name}")
    command()
'''


def file(release: str) -> Path:
    return paths.build_dir() / "receipt" / f"receipt-{release}.pyz"


def write(patched: PatchedRelease) -> Path:
    """Write the file; the same bytes from the same commit, series and checkpoint."""
    path = file(patched.pin.name)
    with files.lock(path), files.atomic_file(path) as unfinished:
        with zipfile.ZipFile(unfinished, "w") as archive:
            for name, content in sorted(_members(patched)):
                # Of 1980, by default: the same bytes are wanted from any clone.
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        if (size := unfinished.stat().st_size) > MOST_BYTES:
            raise PatchsetError(f"{path.name} has {size} bytes; {MOST_BYTES} may be")
    return path


def _members(patched: PatchedRelease) -> Iterator[tuple[str, bytes]]:
    pin = patched.pin
    yield "__main__.py", _START.encode()
    for folder, patterns, below in (
        (Path(__file__).parents[1], _LANES, ""),
        (Path(files.__file__).parent, _TOOL, "patchset/"),
    ):
        for pattern in patterns:
            for path in folder.glob(pattern):
                yield below + path.relative_to(folder).as_posix(), path.read_bytes()
    for change in patched.changes:
        if inside_wheel(change.path) and change.content is not None:
            yield f"patched/{change.path}", change.content
    model = small.checkpoint()
    for path in model.iterdir():
        yield f"checkpoint/{path.name}", path.read_bytes()
    receipt = {
        "release": pin.name,
        "version": pin.version,
        "image": pin.image,
        "commit": results.record(0, pin.name, "stock")["commit"],
        "series": files.sha256_file(patched_files.file(pin)),
        "checkpoint": files.sha256_file(model / "model.safetensors"),
        "files": sums(patched),
    }
    yield "receipt.json", json.dumps(receipt, indent=1, sort_keys=True).encode()


def sums(patched: PatchedRelease) -> overlay.Sums:
    """Return the files of the series that are part of an installed vLLM, before and
    after.
    """
    return {
        change.path: {"stock": sha256(change.stock), "patched": sha256(change.content)}
        for change in patched.changes
        if inside_wheel(change.path)
    }
