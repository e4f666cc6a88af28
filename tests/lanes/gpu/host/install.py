# SPDX-License-Identifier: Apache-2.0
"""A release of the bundle, installed beside the host's torch: ``site`` with the stock vLLM, ``patched`` with ours."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from store import HostError  # type: ignore[import-not-found]  # beside this file in the script


def site(files: Path, name: str, release: dict[str, Any], folder: Path) -> Path:
    """Install the release's wheels with pip, without an index, into ``folder/site``; done once.

    Raises:
        HostError: pip failed, or a file of vLLM is not the bundle's.
    """
    place, mark = folder / "site", folder / "SITE"
    if mark.is_file() and mark.read_text(encoding="utf-8") == release["key"]:
        return place
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wheels = [str(files / "wheels" / wheel) for wheel in release["wheels"]]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    command += ["--no-input", "--disable-pip-version-check", "--no-warn-conflicts", "--target", str(place)]
    done = subprocess.run([*command, *wheels], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostError(f"pip could not install {name}: {done.stderr.strip()[-1500:]}")
    check_record(place, next(place.glob("vllm-*.dist-info")))
    mark.write_text(release["key"], encoding="utf-8")
    return place


def patched(files: Path, release: dict[str, Any], folder: Path) -> Path:
    """vLLM with the series, in ``folder/patched``: hard links to the stock files, and the changed ones; done once."""
    place, mark = folder / "patched", folder / "PATCHED"
    if mark.is_file() and mark.read_text(encoding="utf-8") == release["key"]:
        return place
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(
        folder / "site" / "vllm",
        place / "vllm",
        copy_function=os.link,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for gone in release["removed"]:
        (place / gone).unlink()
    with tarfile.open(files / release["overlay"]) as overlay:
        for member in overlay:
            tarfile.data_filter(member, str(place))  # raises when it leaves the folder
            (place / member.name).unlink(
                missing_ok=True
            )  # a link to the stock file, which must stay as it is
        overlay.extractall(place, filter="data")
    mark.write_text(release["key"], encoding="utf-8")
    return place


def program(folder: Path, paths: list[Path]) -> Path:
    """An environment's folder with ``bin/python`` and ``bin/vllm`` that see ``paths`` before the host's packages."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    seen = os.pathsep.join(str(path) for path in paths)
    # What the lane puts into a server's path (its tap) stays there; everything else begins with these alone.
    for name, rest, module in (
        ("python", "", ""),
        ("vllm", "${PYTHONPATH:+:$PYTHONPATH}", "-m vllm.entrypoints.cli.main "),
    ):
        script = folder / "bin" / name
        line = f"PYTHONPATH='{seen}'{rest} exec '{sys.executable}' {module}\"$@\""
        script.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        script.chmod(0o755)
    return folder


def check_record(place: Path, info: Path) -> int:
    """Hold the installed files against RECORD (PEP 376), and return how many there are.

    Raises:
        HostError: a file is not what RECORD says.
    """
    count = 0
    with (info / "RECORD").open(encoding="utf-8", newline="") as lines:
        for name, said, _ in csv.reader(lines):
            if not said or name.startswith(("..", "/")) or ".data/" in name:
                continue
            kind, _, digest = said.partition("=")
            found = hashlib.new(kind, (place / name).read_bytes()).digest()
            if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != digest:
                raise HostError(f"{name} is not what its wheel says")
            count += 1
    return count
