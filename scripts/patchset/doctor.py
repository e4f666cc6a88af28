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
import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

OK, NOTE, WRONG = "ok", "note", "wrong"
#: In ``.dist-info``: what the wheel was made of.
MANIFEST = "patchset.json"
#: The plugin's package, whose ``v*.sha256`` list the files that it wraps.
PLUGIN = "vllm_qwen_tools"
#: Exit statuses: no vLLM; one without patches and plugin.
NO_VLLM, STOCK = 2, 3
#: Largest file that is read, in bytes.
_LIMIT = 64 << 20


class Doctor:
    """Looks at one installed vLLM; ``checks`` collects (check, status, text)."""

    def __init__(self, info: Path, manifest: dict[str, Any]) -> None:
        self.site, self.info, self.manifest = info.parent, info, manifest
        self.checks: list[tuple[str, str, str]] = []
        self.kinds: dict[str, str] = {}
        self.live: dict[str, bool] = {}

    def say(self, check: str, status: str, text: str) -> None:
        """Note the outcome of a check."""
        self.checks.append((check, status, text))

    @property
    def healthy(self) -> bool:
        """Whether no check failed."""
        return all(status != WRONG for _, status, _ in self.checks)

    def patches(self) -> None:
        """Hash the files of the series, and judge each patch by all its files."""
        for path, expected in self.manifest["files"].items():
            known = {None: "missing", expected["stock"]: "stock"}
            known |= {expected["patched"]: "patched"}
            self.kinds[path] = known.get(_hash(self.site / path), "foreign")
            if self.kinds[path] != "patched":
                self.say("files", WRONG, f"{path} is {self.kinds[path]}, not patched")
        others = {path for path, kind in self.kinds.items() if kind != "patched"}
        for patch in self.manifest["patches"]:
            files = patch.get("files", self.kinds)
            self.live[patch["name"]] = others.isdisjoint(files)
        count = f"{sum(self.live.values())} of {len(self.live)}"
        release = self.manifest["release"]
        series = str(self.manifest["series-sha256"])[:12]
        text = f"{count} patches of {release} are live (series {series})"
        self.say("patches", WRONG if others else OK, text)

    def plugin(self, info: Path, *, here: bool) -> None:
        """Check what the plugin checks at its start, in all files at once.

        ``here`` tells if this interpreter would serve: its variables count.
        """
        name = info.name.removesuffix(".dist-info").replace("_", "-")
        lists = sorted((info.parent / PLUGIN).glob("v*.sha256"))
        known = {file.stem: _sums(file) for file in lists}
        release = str(self.manifest["release"])
        faults = []
        if (sums := known.get(release)) is None:
            faults.append(f"it knows {', '.join(known) or 'no release'}, not {release}")
            wrapped = {path for paths in known.values() for path in paths}
            recorded = _recorded(self.info)
            sums = {path: recorded[path] for path in wrapped & recorded.keys()}
        if (self.site / "vllm/parser/qwen_tool_reader.py").exists():
            faults.append("this vLLM is patched")
        for path, digest in sorted(sums.items()):
            if _hash(self.site / path) != digest:
                faults.append(f"{path} is not the file of {release}")
        for path, digest in _recorded(info).items():
            if _hash(info.parent / path) != digest:
                self.say("plugin", WRONG, f"{path} has changed; install it again")
        if here and os.environ.get("VLLM_QWEN_TOOL_READER", "1").strip() == "0":
            faults.append("VLLM_QWEN_TOOL_READER=0")
        plugins = os.environ.get("VLLM_PLUGINS") if here else None
        if plugins is not None and "qwen_tools" not in plugins.split(","):
            faults.append("VLLM_PLUGINS does not name qwen_tools")
        self.manifest["files"] = sums
        for fault in faults:
            self.say("plugin", WRONG, f"{name} does nothing: {fault}")
        if faults:
            return
        count = f"all {len(sums)} files that it wraps"
        self.say("plugin", OK, f"{name} is live: {count} are {release}'s")
        serving = _text(info.parent / PLUGIN / "serving.py")
        for text in re.findall(r'(?m)^NOT_COVERED = "(.*)"$', serving):
            self.say("plugin", NOTE, f"not covered: {text}")

    def release(self) -> None:
        """Compare what the wheel says of itself with its version."""
        release, version = str(self.manifest["release"]), _release(self.info)
        if release != version:
            self.say("release", WRONG, f"{MANIFEST} is of {release}, vLLM of {version}")
        if not self.manifest["files"]:
            self.say("release", WRONG, f"{MANIFEST} names no files; build anew")

    def shadowed(self) -> None:
        """Find files that Python imports in place of the patched ones.

        It prefers a package to a module, and an extension module to a Python file.
        """
        places = set()
        for path in map(Path, self.manifest["files"]):
            if path.suffix == ".py":
                places |= {path.with_suffix("")}
                places |= {up / "__init__" for up in path.parents if up.name}
        for place in sorted(places):
            folder, name = self.site / place.parent, place.name
            found = [f for f in folder.glob(f"{name}.*") if f.suffix == ".so"]
            found += (folder / name).glob("__init__.*")
            for file in sorted(found):
                text = f"Python imports {file.relative_to(self.site)} instead of {name}"
                self.say("shadow", WRONG, f"{text}.py; delete it")

    def bytecode(self) -> None:
        """Find bytecode that Python would run though its source changed."""
        sources = [self.site / path for path in self.manifest["files"]]
        for source in [place for place in sources if place.suffix == ".py"]:
            # PYTHONPYCACHEPREFIX may have moved it.
            for level in ("", "1", "2"):
                cache = importlib.util.cache_from_source(source, optimization=level)
                if stale(source, Path(cache)):
                    text = f"{cache} is stale: Python runs it in place of {source.name}"
                    self.say("bytecode", WRONG, f"{text}; delete it")

    def owners(self) -> None:
        """Check that one distribution alone owns the package."""
        for info in sorted(self.site.glob("vllm*.dist-info")):
            record = "\n" + _text(info / "RECORD")
            if info != self.info and "\nvllm/__init__.py," in record:
                text = f"{info.name} owns the folder vllm as well; uninstall it"
                self.say("metadata", WRONG, text)

    def imported(self) -> None:
        """Find the vllm that an import takes."""
        spec = importlib.util.find_spec("vllm")
        own = (self.site / "vllm" / "__init__.py").resolve()
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin == own:
            self.say("shadow", OK, "import vllm takes this one")
        else:
            text = f"import vllm takes {origin or 'nothing'}, not {own}"
            self.say("shadow", WRONG, text)

    def rust_frontend(self) -> None:
        """vllm-rs parses tool calls itself, in code that no Python diff reaches."""
        value = os.environ.get("VLLM_USE_RUST_FRONTEND", "0").strip()
        launcher = _text(self.site / "vllm/entrypoints/cli/serve.py")
        reader = os.environ.get("VLLM_QWEN_TOOL_READER", "1").strip()
        if value in ("", "0"):
            return
        if "_leave_rust_frontend" in launcher and reader != "0":
            text = "servers of the patched parsers start the Python frontend, "
            self.say("rust-frontend", NOTE, f"{text}others the Rust frontend")
        else:
            text = f"VLLM_USE_RUST_FRONTEND={value}: its parsers are its own and not "
            self.say("rust-frontend", WRONG, f"{text}patched; unset it")

    def report(self) -> dict[str, Any]:
        """What was found, for programs."""
        names = ("check", "status", "text")
        return {
            "healthy": self.healthy,
            "site": str(self.site),
            "dist-info": self.info.name,
            "release": self.manifest["release"],
            "series-sha256": self.manifest["series-sha256"],
            "patches": self.live,
            "files": self.kinds,
            "checks": [dict(zip(names, check, strict=True)) for check in self.checks],
        }


def stale(source: Path, compiled: Path) -> bool:
    """Whether a compiled file is of another source, and Python never compares (PEP 552)."""
    data, content = _read(compiled), _read(source)
    if data is None or content is None or data[:4] != importlib.util.MAGIC_NUMBER:
        return False
    unchecked = data[4:8] == b"\1\0\0\0"  # by the source's hash, not to be checked
    return unchecked and data[8:16] != importlib.util.source_hash(content)


def find(folders: Iterable[str], name: str) -> list[Path]:
    """The .dist-info folders of a distribution in the first folder that has one.

    The newest is last.
    """
    for folder in folders:
        found = Path(folder or ".").resolve().glob(f"{name}-*.dist-info")
        if infos := sorted(found, key=lambda info: info.stat().st_mtime):
            return infos
    return []


def _read(file: Path) -> bytes | None:
    """The start of a regular file; None for anything else, such as a fifo."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as opened:
            plain = stat.S_ISREG(os.fstat(handle).st_mode)
            return opened.read(_LIMIT) if plain else None
    except OSError:
        return None


def _text(file: Path) -> str:
    return (_read(file) or b"").decode("utf-8", errors="replace")


def _hash(file: Path) -> str | None:
    content = _read(file)
    return None if content is None else hashlib.sha256(content).hexdigest()


def _sums(file: Path) -> dict[str, str]:
    """A list as sha256sum writes it: sums by path, below vllm/ alone."""
    found = re.findall(r"(?m)^([0-9a-f]{64})  (vllm/.+)$", _text(file))
    return {path: digest for digest, path in found}


def _recorded(info: Path) -> dict[str, str]:
    """The sums of a distribution's files, as it was installed."""
    listed = re.findall(r"(?m)^([^,\n]+),sha256=([^,]*),", _text(info / "RECORD"))
    sums = {}
    for path, digest in listed:
        with contextlib.suppress(ValueError):
            sums[path] = base64.urlsafe_b64decode(digest + "==").hex()
    return sums


def read_manifest(file: Path) -> dict[str, Any] | None:
    """A wheel's origins, or None if they are not said in the known form."""
    try:
        made = json.loads(_text(file))
        for sums in made["files"].values():
            _ = sums["stock"], sums["patched"]
        known = all(isinstance(patch["name"], str) for patch in made["patches"])
        known = known and {"release", "series-sha256"} <= made.keys()
        return dict(made) if known else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _release(info: Path) -> str:
    return f"v{info.name[len('vllm-') : -len('.dist-info')].partition('+')[0]}"


def recognise(info: Path, patches: Path) -> dict[str, Any] | None:
    """The manifest of a vLLM that has none, from a checkout's sums for its version.

    None if no file is a patched one: a stock vLLM.
    """
    release = _release(info)
    place = patches / release / "patched-files.sha256"
    pinned = _sums(place)
    if not any(_hash(info.parent / path) == digest for path, digest in pinned.items()):
        return None
    stock = _recorded(info)
    files = {
        path: {"stock": stock.get(path), "patched": digest}
        for path, digest in pinned.items()
    }
    diffs = re.findall(r"(?m)^.*\.diff$", _text(patches / release / "series"))
    return {
        "release": release,
        "series-sha256": _hash(place),
        "files": files,
        "patches": [{"name": Path(diff).stem} for diff in diffs],
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; the exit status."""
    parser = argparse.ArgumentParser(
        prog="vllm-mtp-doctor", description=(__doc__ or "").partition("\n")[0]
    )
    option = parser.add_argument
    option("--root", type=Path, help="a site-packages folder that is not this Python's")
    option("--patches", type=Path, help="the folder patches of a checkout")
    option("--quiet", action="store_true", help="print only what is wrong")
    option("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    folders = [str(options.root)] if options.root else sys.path
    infos = find(folders, "vllm")
    if not infos:
        where = options.root or sys.executable
        print(f"no vllm is installed for {where}", file=sys.stderr)
        return NO_VLLM
    patched = [info for info in infos if (info / MANIFEST).is_file()]
    info = (patched or infos)[-1]
    manifest = read_manifest(info / MANIFEST)
    if manifest is None and options.patches:
        manifest = recognise(info, options.patches)
    plugins = find(folders, PLUGIN)
    if not manifest and not plugins:
        print(f"{info}: a stock vLLM, as far as can be told here", file=sys.stderr)
        return STOCK
    stock = {"release": _release(info), "series-sha256": None}
    doctor = Doctor(info, manifest or stock)
    if manifest is None:
        doctor.plugin(plugins[-1], here=not options.root)
    else:
        doctor.patches()
        doctor.release()
        for plugin in plugins:
            doctor.say("plugin", NOTE, f"{plugin.name} does nothing beside the patches")
    doctor.shadowed()
    doctor.owners()
    if not options.root:  # this interpreter would serve: its paths and variables count
        doctor.bytecode()
        doctor.imported()
        doctor.rust_frontend()
    if options.json:
        print(json.dumps(doctor.report(), indent=1))
    for check, status, text in [] if options.json else doctor.checks:
        if status == WRONG or not options.quiet:
            print(f"{status.upper() if status == WRONG else status:5} {check}: {text}")
    return 0 if doctor.healthy else 1


if __name__ == "__main__":
    # A server that is a module does not search the folder of this script.
    if sys.path and sys.path[0] == str(Path(__file__).parent):
        del sys.path[0]
    sys.exit(main())
