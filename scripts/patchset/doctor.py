#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Say which patches of vllm-mtp-patches are live here, and what keeps them from it.

One file on the standard library alone: images carry it as vllm-mtp-doctor. It never
imports vllm. What the files must be is in the installed vllm-*.dist-info/patchset.json;
without one, as where the combined patch was applied, in a checkout's patches/.
Exit status: 0 all is well; 1 something is wrong, each named; 2 there is no vLLM; 3 it
is a stock one.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import importlib.util
import json
import marshal
import os
import platform
import re
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

OK, NOTE, WRONG = "ok", "note", "wrong"
#: In ``.dist-info``: what the wheel was made of.
MANIFEST = "patchset.json"
#: Exit statuses: no vLLM; one without patches.
NO_VLLM, STOCK = 2, 3
#: Largest file that is read, in bytes.
_LIMIT = 64 << 20
#: Lowest driver branch by CUDA major version (NVIDIA, CUDA Compatibility).
DRIVERS = {11: 450, 12: 525, 13: 580}
#: Lowest compute capability by CUDA major version (NVIDIA, CUDA release notes).
CAPABILITIES = {11: (3, 5), 12: (5, 0), 13: (7, 5)}
#: ELF's e_machine (System V ABI).
_ELF = {62: "x86_64", 183: "aarch64"}
_PYC_HEADER = 16


class Doctor:
    """Looks at one installed vLLM; ``checks`` collects (check, status, text)."""

    def __init__(
        self, site: Path, info: Path, manifest: dict[str, Any], *, inside: bool
    ) -> None:
        self.site, self.info, self.manifest = site, info, manifest
        #: Whether this interpreter would serve, so that its paths and variables count.
        self.inside = inside
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
            content = _read(self.site / path)
            found = None if content is None else hashlib.sha256(content).hexdigest()
            known = {None: "missing", expected["stock"]: "stock"}
            known |= {expected["patched"]: "patched"}
            self.kinds[path] = known.get(found, "foreign")
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

    def release(self, patches: Path | None) -> None:
        """Compare what the wheel says of itself with its version and a checkout."""
        release = str(self.manifest["release"])
        version = self.info.name[len("vllm-") : -len(".dist-info")]
        if release != f"v{version.partition('+')[0]}":
            self.say("release", WRONG, f"{MANIFEST} is of {release}, vLLM of {version}")
            return
        if not self.manifest["files"]:
            self.say("release", WRONG, f"{MANIFEST} names no files; build anew")
        if patches is None:
            return
        if not (patches / release).is_dir():
            self.say("release", WRONG, f"{patches} has no release {release}")
            return
        pinned = _sums(patches / release / "patched-files.sha256")
        if not pinned:
            return
        files = {
            path: made["patched"]
            for path, made in self.manifest["files"].items()
            if made["patched"] is not None
        }
        others = sorted(path for path in files if pinned.get(path) != files[path])
        others += sorted(pinned.keys() - files.keys())
        if others:
            shown = ", ".join(others[:3])
            text = f"{len(others)} files are not those that {patches} pins: {shown}"
            self.say("release", WRONG, f"{text}; build anew")
        else:
            self.say("release", OK, f"the files that {patches / release} pins")

    def shadowed(self) -> None:
        """Find files that Python imports in place of the patched ones.

        It prefers a package to a module, and an extension module to a Python file.
        """
        places = set()
        for path in map(Path, self.manifest["files"]):
            if path.suffix == ".py":
                places |= {path.with_suffix("")}
                places |= {
                    folder / "__init__" for folder in path.parents if folder.name
                }
        for place in sorted(places):
            folder, name = self.site / place.parent, place.name
            found = [f for f in folder.glob(f"{name}.*") if f.suffix == ".so"]
            found += (folder / name).glob("__init__.*")
            for file in sorted(found):
                text = f"Python imports {file.relative_to(self.site)} instead of {name}"
                self.say("shadow", WRONG, f"{text}.py; delete it")

    def bytecode(self) -> None:
        """Find bytecode that Python would run though its source changed (PEP 552)."""
        count = 0
        for path in self.manifest["files"]:
            source = self.site / path
            content = _read(source)
            if source.suffix != ".py" or content is None:
                continue
            for compiled in self._compiled(source):
                count += 1
                if fault := judge_bytecode(
                    source, content, compiled, trusted=self.inside
                ):
                    self.say("bytecode", *fault)
        if not any(check == "bytecode" for check, _, _ in self.checks):
            self.say(
                "bytecode",
                OK,
                f"no stale bytecode ({count} compiled files of patched sources)",
            )

    def _compiled(self, source: Path) -> Iterator[Path]:
        if (
            self.inside
        ):  # where this interpreter looks, which PYTHONPYCACHEPREFIX may have moved
            places = {
                Path(importlib.util.cache_from_source(source, optimization=o))
                for o in ("", "1", "2")
            }
        else:
            places = set(source.parent.glob(f"__pycache__/{source.stem}.*.pyc"))
        return (place for place in sorted(places) if place.is_file())

    def metadata(self) -> None:
        """Check that one distribution alone owns the package."""
        others = [
            info.name
            for info in sorted(self.site.glob("vllm*.dist-info"))
            if info != self.info
            and "\nvllm/__init__.py," in "\n" + _text(info / "RECORD")
        ]
        for name in others:
            self.say(
                "metadata", WRONG, f"{name} owns the folder vllm as well; uninstall it"
            )
        if not others:
            self.say("metadata", OK, f"{self.info.name} in {self.site}")

    def shadows(self) -> None:
        """Find the vllm that an import takes, and further copies."""
        spec = importlib.util.find_spec("vllm")
        own = (self.site / "vllm" / "__init__.py").resolve()
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin != own:
            self.say(
                "shadow", WRONG, f"import vllm takes {origin or 'nothing'}, not {own}"
            )
        seen = {own}
        for entry in [*sys.path, os.getcwd()]:  # noqa: PTH109 - the same text that sys.path would hold
            for candidate in (
                Path(entry) / "vllm" / "__init__.py",
                Path(entry) / "vllm.py",
            ):
                if (
                    candidate.is_file()
                    and candidate.resolve() not in seen
                    and candidate.resolve() != origin
                ):
                    seen.add(candidate.resolve())
                    self.say(
                        "shadow",
                        NOTE,
                        f"another vllm is in {entry}; python -m there would take it",
                    )
        if origin == own:
            self.say("shadow", OK, "import vllm takes this one")

    def rust_frontend(self) -> None:
        """vllm-rs parses tool calls itself, in code that no Python diff reaches."""
        value = os.environ.get("VLLM_USE_RUST_FRONTEND", "0").strip()
        if value in ("", "0"):
            self.say("rust-frontend", OK, "the Rust frontend is off")
            return
        launcher = _read(self.site / "vllm/entrypoints/cli/serve.py") or b""
        reader = os.environ.get("VLLM_QWEN_TOOL_READER", "1").strip()
        if b"_leave_rust_frontend" in launcher and reader != "0":
            text = (
                "servers of qwen3_coder and qwen3_xml start the Python frontend, "
                "others the Rust frontend"
            )
            self.say("rust-frontend", NOTE, f"VLLM_USE_RUST_FRONTEND={value}: {text}")
        else:
            text = f"VLLM_USE_RUST_FRONTEND={value}: the Rust frontend has parsers of its own, which are not patched"
            self.say("rust-frontend", WRONG, text + "; unset it")

    def prefix_caching(self) -> None:
        """Say if MTP beside prefix caching is safe on hybrid models."""
        pair = tuple(
            int(part) for part in re.findall(r"\d+", str(self.manifest["release"]))[:2]
        )
        if pair < (0, 17):
            text = "this release refuses MTP beside prefix caching on Qwen3-Next and Qwen3.5"
            self.say("prefix-caching", OK, text)
            return
        if pair < (0, 27) and not self.live.get("mamba-chunk-ends"):
            fault = (
                "keeps wrong states (#43559): serve it with --no-enable-prefix-caching"
            )
        elif (0, 19) <= pair < (0, 29):
            fault = "can mix up requests (#51571): add --no-async-scheduling or --no-enable-prefix-caching"
        else:
            text = "MTP beside prefix caching: no wrong state found in this release's cache; GPUs were not tested"
            self.say("prefix-caching", OK, text)
            return
        self.say(
            "prefix-caching",
            NOTE,
            f"with MTP on Qwen3-Next or Qwen3.5, prefix caching {fault}",
        )

    def architecture(self, machine: str) -> None:
        """The wheel's tags and its compiled modules against the processor."""
        tags = re.findall(r"(?m)^Tag: (\S+)$", _text(self.info / "WHEEL"))
        wrong = bool(tags) and not any(
            tag.endswith((f"_{machine}", "-any")) for tag in tags
        )
        built = {}
        for library in sorted(self.site.glob("vllm/*.so")):
            head = _read(library, 20) or b""
            if head[:4] == b"\x7fELF":
                built[library.name] = _ELF.get(
                    int.from_bytes(head[18:20], "little"), "another processor"
                )
        bad = [
            f"{name} is for {arch}" for name, arch in built.items() if arch != machine
        ]
        if wrong or bad:
            detail = "; ".join(bad[:3] or [f"its tags are {', '.join(tags)}"])
            self.say(
                "architecture",
                WRONG,
                f"this machine is {machine}, the wheel is not: {detail}",
            )
        else:
            self.say("architecture", OK, f"{machine}, {len(built)} compiled modules")

    def torch(self) -> int | None:
        """Compare torch with what the wheel requires; return its CUDA major version."""
        wanted = re.search(
            r"(?m)^Requires-Dist: torch\s*==\s*([\d.]+)", _text(self.info / "METADATA")
        )
        folders = [self.site, *map(Path, sys.path)]
        infos = [
            info
            for folder in folders
            for info in sorted(folder.glob("torch-*.dist-info"))
        ]
        version = infos[0].name[len("torch-") : -len(".dist-info")] if infos else None
        vision = next(
            (
                info
                for folder in folders
                for info in folder.glob("torchvision-*.dist-info")
            ),
            None,
        )
        shim = vision and (vision.parent / "torchvision_without_cuda.pth").exists()
        if (
            version
            and version.endswith("+cpu")
            and vision
            and not vision.stem.endswith("+cpu")
            and not shim
        ):
            text = f"{vision.stem} is built for CUDA, torch {version} is not: vLLM does not start"
            self.say("torchvision", WRONG, f"{text}; install both for the CPU")
        if wanted and version is None:
            self.say("torch", WRONG, f"torch {wanted[1]} is required and not installed")
        elif wanted and version and version.partition("+")[0] != wanted[1]:
            self.say(
                "torch",
                WRONG,
                f"torch {version} is installed; the wheel is built for {wanted[1]}",
            )
        elif version:
            self.say("torch", OK, f"torch {version}")
        where = infos[0].parent if infos else self.site
        cuda = re.search(
            r"(?m)^cuda\b[^=]*= '(\d+)\.", _text(where / "torch" / "version.py")
        )
        return int(cuda[1]) if cuda else None

    def gpu(self, cuda: int | None, *, required: bool) -> None:
        """The driver against the CUDA version that torch is built for."""
        if self.manifest.get("target") == "cpu":
            self.say(
                "gpu", WRONG if required else OK, "a build for the CPU; no GPU is used"
            )
            return
        rows = gpus()
        if not rows:
            self.say(
                "gpu",
                WRONG if required else NOTE,
                "no GPU visible (nvidia-smi lists none)",
            )
            return
        for name, driver, capability in rows:
            status, reason = OK, ""
            least = DRIVERS.get(cuda or 0)
            if least and int(driver.partition(".")[0] or 0) < least:
                status, reason = WRONG, f": CUDA {cuda} needs driver {least} or newer"
            pair = tuple(int(part) for part in re.findall(r"\d+", capability)[:2])
            if cuda in CAPABILITIES and len(pair) == 2 and pair < CAPABILITIES[cuda]:
                status, reason = (
                    WRONG,
                    f": CUDA {cuda} has no code for compute capability {capability}",
                )
            self.say(
                "gpu",
                status,
                f"{name}, driver {driver}, compute capability {capability}{reason}",
            )


def judge_bytecode(
    source: Path, content: bytes, compiled: Path, *, trusted: bool
) -> tuple[str, str] | None:
    """Judge a compiled file: a status and a text, or None if it does no harm.

    Time and size can agree though the text differs, so a file that would be used is
    compared with what ``content`` compiles to. That loads it as an import would: only
    if it is ``trusted``.
    """
    data = _read(compiled) or b""
    if len(data) < _PYC_HEADER or data[:4] != importlib.util.MAGIC_NUMBER:
        return (
            None
            if trusted
            else (
                NOTE,
                f"{compiled} is of another Python; run the doctor with that one",
            )
        )
    flags = int.from_bytes(data[4:8], "little")
    stale = (
        WRONG,
        f"{compiled} is stale: Python runs it in place of the text of {source.name}; delete it",
    )
    if flags & 1:
        if data[8:16] == importlib.util.source_hash(content):
            return None
        return (
            None if flags & 2 else stale
        )  # checked at import: Python sees the difference itself
    status = source.stat()
    time_and_size = (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    if (
        int.from_bytes(data[8:12], "little"),
        int.from_bytes(data[12:16], "little"),
    ) != time_and_size:
        return None
    if not trusted:
        return (
            NOTE,
            f"{compiled} would be used; run the doctor inside to compare it with its source",
        )
    found = re.search(r"\.opt-(\d)\.pyc$", compiled.name)
    level = int(found[1]) if found else 0
    try:
        wanted = compile(
            content, str(source), "exec", dont_inherit=True, optimize=level
        )
        return None if marshal.loads(data[_PYC_HEADER:]) == wanted else stale  # noqa: S302 - see above
    except (SyntaxError, ValueError, EOFError, TypeError):
        return stale


def gpus() -> list[tuple[str, str, str]]:
    """Name, driver and compute capability of each GPU, by nvidia-smi."""
    query = [
        "nvidia-smi",
        "--query-gpu=name,driver_version,compute_cap",
        "--format=csv,noheader",
    ]
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = [
        tuple(part.strip() for part in line.split(","))
        for line in done.stdout.splitlines()
    ]
    return [
        (row[0], row[1], row[2])
        for row in rows
        if done.returncode == 0 and len(row) == 3
    ]


def find(folders: Iterable[str]) -> tuple[Path, Path] | None:
    """The first folder with a distribution ``vllm``, and its newest .dist-info."""
    for folder in folders:
        found = sorted(
            Path(folder or ".").resolve().glob("vllm-*.dist-info"),
            key=lambda p: p.stat().st_mtime,
        )
        patched = [info for info in found if (info / MANIFEST).is_file()]
        if found:
            return found[0].parent, (patched or found)[-1]
    return None


def _read(file: Path, count: int = _LIMIT) -> bytes | None:
    """The start of a regular file; None for anything else, such as a fifo."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as opened:
        try:
            plain = stat.S_ISREG(os.fstat(handle).st_mode)
            return opened.read(count) if plain else None
        except OSError:
            return None


def _text(file: Path) -> str:
    return (_read(file) or b"").decode("utf-8", errors="replace")


def _sums(file: Path) -> dict[str, str]:
    """A list as sha256sum writes it: sums by path, below vllm/ alone."""
    lines = [line.split("  ", 1)[::-1] for line in _text(file).splitlines()]
    pairs = [line for line in lines if len(line) == 2]
    return {path: digest for path, digest in pairs if path.startswith("vllm/")}


def read_manifest(file: Path) -> dict[str, Any] | None:
    """A wheel's origins, or None if they are not said in the known form."""
    try:
        made = json.loads(_text(file))
        files, patches = made["files"], made["patches"]
        known = all(
            isinstance(path, str) and {"stock", "patched"} <= sums.keys()
            for path, sums in files.items()
        ) and all(isinstance(patch["name"], str) for patch in patches)
        return (
            dict(made)
            if known and {"release", "series-sha256"} <= made.keys()
            else None
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def recognise(site: Path, info: Path, patches: Path) -> dict[str, Any] | None:
    """The manifest of a vLLM that has none, from a checkout's sums for its version.

    None if no file is a patched one: a stock vLLM.
    """
    release = f"v{info.name[len('vllm-') : -len('.dist-info')].partition('+')[0]}"
    place = patches / release / "patched-files.sha256"
    pinned = _sums(place)
    stock = {}
    for line in _text(info / "RECORD").splitlines():
        path, _, rest = line.partition(",sha256=")
        if path in pinned:
            digest = rest.partition(",")[0]
            with contextlib.suppress(ValueError):
                stock[path] = base64.urlsafe_b64decode(digest + "==").hex()
    files = {
        path: {"stock": stock.get(path), "patched": digest}
        for path, digest in pinned.items()
    }
    if not any(_hash(site / path) == digest for path, digest in pinned.items()):
        return None
    entries = _text(patches / release / "series").split()
    names = [Path(entry).stem for entry in entries if entry.endswith(".diff")]
    return {
        "release": release,
        "series-sha256": _hash(place),
        "files": files,
        "patches": [{"name": name} for name in names],
    }


def _hash(file: Path) -> str | None:
    content = _read(file)
    return None if content is None else hashlib.sha256(content).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; the exit status."""
    parser = argparse.ArgumentParser(
        prog="vllm-mtp-doctor", description=(__doc__ or "").partition("\n")[0]
    )
    option = parser.add_argument
    option("--root", type=Path, help="a site-packages folder that is not this Python's")
    option("--patches", type=Path, help="the folder patches of a checkout")
    option("--gpu", action="store_true", help="fail if no GPU is visible")
    option("--quiet", action="store_true", help="print only what is wrong")
    option("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    found = find([str(options.root)] if options.root else sys.path)
    if found is None:
        where = options.root or sys.executable
        print(f"no vllm is installed for {where}", file=sys.stderr)
        return NO_VLLM
    site, info = found
    manifest = read_manifest(info / MANIFEST)
    said = manifest is not None
    if manifest is None and options.patches:
        manifest = recognise(site, info, options.patches)
    if manifest is None:
        print(f"{info}: a stock vLLM, as far as can be told here", file=sys.stderr)
        return STOCK
    doctor = Doctor(site, info, manifest, inside=options.root is None)
    doctor.patches()
    if said:
        doctor.release(options.patches)
    doctor.shadowed()
    doctor.bytecode()
    doctor.metadata()
    if doctor.inside:
        doctor.shadows()
        doctor.rust_frontend()
        doctor.prefix_caching()
        doctor.architecture(platform.machine())
        doctor.gpu(doctor.torch(), required=options.gpu)
    if options.json:
        checks = [
            dict(zip(("check", "status", "text"), check, strict=True))
            for check in doctor.checks
        ]
        report = {
            "healthy": doctor.healthy,
            "site": str(site),
            "dist-info": info.name,
            "release": manifest["release"],
            "series-sha256": manifest["series-sha256"],
            "patches": doctor.live,
            "files": doctor.kinds,
            "checks": checks,
        }
        print(json.dumps(report, indent=1))
        return 0 if doctor.healthy else 1
    for check, status, text in doctor.checks:
        if status == WRONG or not options.quiet:
            print(f"{status.upper() if status == WRONG else status:5} {check}: {text}")
    return 0 if doctor.healthy else 1


if __name__ == "__main__":
    if sys.path and sys.path[0] == str(Path(__file__).parent):
        del sys.path[
            0
        ]  # the folder of this script, where a server that is a module does not search
    sys.exit(main())
