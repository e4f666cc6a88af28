# SPDX-License-Identifier: Apache-2.0
"""What a result belongs to: the patched files, the pin, and the suite that judged them.

A header's words and the fold of two patches into one change no file, so results stay good. A case of a suite that
changes makes the results of all releases stale, stock's as well.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from patchset import files, paths
from patchset.release import Release
from patchset.series import patched_files

#: The release's serving code with a scripted engine, as other lanes borrow it from the conformance suite.
_SCRIPTED = (
    "tests/lanes/conformance/host/engine.py",
    "tests/lanes/conformance/host/judge.py",
    "tests/lanes/conformance/surfaces/chat.py",
)

#: The files that decide what a lane finds: cases, runner, requirements.
SUITES: dict[str, tuple[str, ...]] = {
    "conformance": ("tests/lanes/conformance/**/*", "tests/requirements.txt"),
    "cpu": ("tests/lanes/cpu/**/*",),
    "gpu": ("tests/lanes/cpu/**/*", "tests/lanes/gpu/**/*"),
    "tokens": ("tests/lanes/tokens/**/*",),
    "bfcl": ("tests/lanes/bfcl/*", "tests/lanes/engines/host.py", *_SCRIPTED),
    "engines": ("tests/lanes/engines/*", "tests/lanes/bench/peers.toml", "tests/lanes/conformance/cases/**/*", *_SCRIPTED),
    "clients": ("tests/lanes/clients/**/*", "tests/lanes/conformance/host/*", "tests/lanes/conformance/surfaces/*"),
}
#: Of these folders, what decides nothing: how cases are generated, tests of the suite itself, documents.
_LEFT_OUT = (
    "tests/lanes/conformance/writers/",
    *(f"tests/lanes/conformance/{name}.py" for name in ("generate", "html", "before_after", "documented")),
)
#: What only the API server loads; the tokens lane runs the scheduler and the KV cache without one.
_API_SERVER = tuple(
    f"vllm/{package}/" for package in ("entrypoints", "parser", "reasoning", "renderers", "tool_parsers")
)
_READ = (".py", ".mjs", ".json", ".txt", ".jinja", ".toml")


def key(release: Release, kind: str, lane: str) -> str:
    """The key of a lane's results for a release, ``stock`` or ``patched``: sha256 in hex."""
    content: dict[str, object] = {
        "source": patched_files.source(release),
        "suite": read_suite(paths.project_root(), lane),
    }
    if lane != "conformance":
        content["wheels"] = {
            f"{target} {arch}": wheel.sha256
            for target, by_arch in release.wheels.items()
            for arch, wheel in by_arch.items()
        }
    if kind == "patched":
        content["patched"] = patched_files.sha256(release, _API_SERVER if lane == "tokens" else ())
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def read_suite(root: Path, lane: str) -> str:
    """The sha256 of a lane's suite, over the names and contents of its files; read once in a run, for every row of every
    table asks for it."""
    found = {}
    for pattern in SUITES[lane]:
        for file in root.glob(pattern):
            name = file.relative_to(root).as_posix()
            left_out = name.startswith(_LEFT_OUT) or file.name.startswith("test_") or "__pycache__" in name
            if file.suffix in _READ and file.is_file() and not left_out:
                found[name] = files.sha256_file(file)
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
