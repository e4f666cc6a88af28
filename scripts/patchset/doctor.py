#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Say which patches of vllm-mtp-patches are live here, and what keeps them from it.

One file on the standard library alone: images carry it as vllm-mtp-doctor. It never
imports vllm. What the files must be is in the installed vllm-*.dist-info/patchset.json;
without one, as where the combined patch was applied, in a checkout's patches/.
Beside a stock vLLM, it says whether the plugin vllm-qwen-tools is live.
Exit status: 0 all is well; 1 something is wrong, each named; 2 there is no vLLM; 3 it
is a stock one without the plugin.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

OK, NOTE, WRONG = "ok", "note", "wrong"
#: In ``.dist-info``: what the wheel was made of.
MANIFEST = "patchset.json"
#: The plugin's package, whose ``v*.sha256`` list the files that it wraps.
PLUGIN = "vllm_qwen_tools"
#: Exit statuses: no vLLM; one without patches and plugin.
NO_VLLM, STOCK = 2, 3
#: Largest file that is read, in bytes.
_LIMIT = 64 << 20
_TOP = Path("vllm/__init__.py")


class Series(NamedTuple):
    """What is installed: sums of files (None: deleted), and each patch's files."""

    digest: str
    sums: dict[str, str | None]
    patches: dict[str, set[str]]


class Doctor:
    """Looks at one installed vLLM; ``checks`` collects (check, status, text)."""

    def __init__(self, info: Path) -> None:
        self.site, self.release = info.parent, _release(info)
        self.checks: list[tuple[str, str, str]] = []

    def say(self, check: str, status: str, text: str) -> None:
        """Note the outcome of a check."""
        self.checks.append((check, status, text))

    def patches(self, series: Series) -> None:
        """Hash the files of the series, and judge each patch by all its files."""
        others = {
            path
            for path, digest in series.sums.items()
            if _hash(self.site / path) != digest
        }
        for path in sorted(others):
            self.say("files", WRONG, f"{path} is not the patched file")
        live = sum(others.isdisjoint(paths) for paths in series.patches.values())
        count = f"{live} of {len(series.patches)} patches of {self.release} are live"
        text = f"{count} (series {series.digest[:12]})"
        self.say("patches", WRONG if others else OK, text)

    def plugin(self, info: Path) -> dict[str, str]:
        """Check what the plugin checks at its start; the files that it wraps."""
        name = info.name.removesuffix(".dist-info").replace("_", "-")
        lists = sorted((info.parent / PLUGIN).glob("v*.sha256"))
        known = {file.stem: _sums(file) for file in lists}
        sums = known.get(self.release, {})
        faults = [
            f"{path} is not the file of {self.release}"
            for path, digest in sorted(sums.items())
            if _hash(self.site / path) != digest
        ]
        if not sums:
            faults.append(f"it knows {', '.join(known)}, not {self.release}")
        if (self.site / "vllm/parser/qwen_tool_reader.py").exists():
            faults.append("this vLLM is patched")
        if self._reader_is_off():
            faults.append("VLLM_QWEN_TOOL_READER=0")
        chosen = os.environ.get("VLLM_PLUGINS", "qwen_tools")
        if "qwen_tools" not in chosen.split(","):
            faults.append("VLLM_PLUGINS does not name qwen_tools")
        for fault in faults:
            self.say("plugin", WRONG, f"{name} does nothing: {fault}")
        if not faults:
            self.say("plugin", OK, f"{name} is live: the files are {self.release}'s")
        return sums

    def shadowed(self, files: Iterable[str]) -> None:
        """Find what Python imports in place of files: other folders, packages, .so."""
        modules = {_TOP}
        for path in map(Path, files):
            if path.suffix == ".py":
                packages = (up / _TOP.name for up in path.parents if up.name)
                modules |= {path, *packages}
        for module in sorted(modules):
            place = module.parent if module.stem == "__init__" else module
            if module == _TOP:
                spec = importlib.util.find_spec("vllm")
            else:
                folder = str((self.site / place).parent)
                spec = PathFinder.find_spec(place.stem, [folder])
            origin = spec and spec.origin
            if origin and Path(origin).resolve() != (self.site / module).resolve():
                text = f"Python imports {origin} instead of {self.site / module}"
                self.say("shadow", WRONG, text)

    def rust_frontend(self) -> None:
        """vllm-rs parses tool calls itself, in code that no Python diff reaches."""
        value = os.environ.get("VLLM_USE_RUST_FRONTEND", "0").strip()
        if value in ("", "0"):
            return
        launcher = _text(self.site / "vllm/entrypoints/cli/serve.py")
        if "_leave_rust_frontend" in launcher and not self._reader_is_off():
            text = "servers of the patched parsers start the Python frontend, "
            self.say("rust-frontend", NOTE, f"{text}others the Rust frontend")
        else:
            text = f"VLLM_USE_RUST_FRONTEND={value}: its parsers are its own and not "
            self.say("rust-frontend", WRONG, f"{text}patched; unset it")

    def _reader_is_off(self) -> bool:
        return os.environ.get("VLLM_QWEN_TOOL_READER", "1").strip() == "0"


def find(name: str) -> list[Path]:
    """The .dist-info folders of a distribution in the first folder that has one.

    The newest is last.
    """
    for folder in sys.path:
        found = Path(folder or ".").resolve().glob(f"{name}-*.dist-info")
        if infos := sorted(found, key=lambda info: info.stat().st_mtime):
            return infos
    return []


def _read(file: Path) -> bytes | None:
    """The start of a regular file; None for anything else, such as a fifo."""
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        return opened.read(_LIMIT)


def _text(file: Path) -> str:
    return (_read(file) or b"").decode("utf-8", errors="replace")


def _hash(file: Path) -> str | None:
    content = _read(file)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _sums(file: Path) -> dict[str, str]:
    """A list as sha256sum writes it: sums by path, below vllm/ alone."""
    found = re.findall(r"(?m)^([0-9a-f]{64})  (vllm/.+)$", _text(file))
    return {path: digest for digest, path in found}


def _release(info: Path) -> str:
    return f"v{info.name[len('vllm-') : -len('.dist-info')].partition('+')[0]}"


def read_manifest(info: Path) -> Series | None:
    """What a wheel says of itself; None if it names no files, or another release."""
    try:
        made = json.loads(_text(info / MANIFEST))
        sums = {path: both["patched"] for path, both in made["files"].items()}
        patches = {patch["name"]: set(patch["files"]) for patch in made["patches"]}
        known = sums and made["release"] == _release(info)
        return Series(str(made["series-sha256"]), sums, patches) if known else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def recognise(info: Path, patches: Path) -> Series | None:
    """The series of a vLLM without a manifest, from a checkout's sums for its version.

    None if no file is a patched one: a stock vLLM.
    """
    folder = patches / _release(info)
    place = folder / "patched-files.sha256"
    sums = _sums(place)
    if not any(_hash(info.parent / path) == digest for path, digest in sums.items()):
        return None
    diffs = re.findall(r"(?m)^.*\.diff$", _text(folder / "series"))
    return Series(_hash(place) or "", {**sums}, {diff: {*sums} for diff in diffs})


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; the exit status."""
    parser = argparse.ArgumentParser(
        prog="vllm-mtp-doctor", description=(__doc__ or "").partition("\n")[0]
    )
    option = parser.add_argument
    option("--patches", type=Path, help="the folder patches of a checkout")
    option("--quiet", action="store_true", help="print only what is wrong")
    options = parser.parse_args(arguments)
    infos = find("vllm")
    if not infos:
        text = f"no vllm is installed for {sys.executable}; name the Python that serves"
        print(text, file=sys.stderr)
        return NO_VLLM
    info = ([i for i in infos if (i / MANIFEST).is_file()] or infos)[-1]
    series = read_manifest(info)
    if series is None and options.patches:
        series = recognise(info, options.patches)
    plugins = find(PLUGIN)
    doctor = Doctor(info)
    if series:
        doctor.patches(series)
        doctor.shadowed(series.sums)
    elif plugins:
        doctor.shadowed(doctor.plugin(plugins[-1]))
    else:
        print(f"{info}: a stock vLLM, as far as can be told here", file=sys.stderr)
        return STOCK
    doctor.rust_frontend()
    for check, status, text in doctor.checks:
        if status == WRONG or not options.quiet:
            print(f"{status.upper() if status == WRONG else status:5} {check}: {text}")
    return int(any(status == WRONG for _, status, _ in doctor.checks))


if __name__ == "__main__":
    # A server that is a module does not search the folder of this script.
    if sys.path and sys.path[0] == str(Path(__file__).parent):
        del sys.path[0]
    sys.exit(main())
