# SPDX-License-Identifier: Apache-2.0
"""Which wheels the host is sent: all that vLLM and the lane require there, less what the host has."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from patchset import console, files
from patchset.errors import PatchsetError
from patchset.locks import lock, uv
from patchset.release import Release

PYTHON = "3.12"
_HERE = Path(__file__).parent
#: What the lane itself imports over there.
_LANE = (
    "anthropic", "click", "httpx", "jsonschema", "openai", "packaging", "prometheus-client", "psutil",
    "pydantic", "rich", "tool-eval-bench==3.0.0",
)  # fmt: skip
#: torch brings these along.
_WITH_TORCH = re.compile(r"^(nvidia|cuda)-")
#: glibc 2.5 to 2.36, newest first (PEP 600), and the older names (PEP 513, 571, 599).
_PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"),
)


@dataclass(frozen=True)
class LeftOut:
    """Patterns of files in vLLM's wheel, packages, and pins that do not count, with the reason for each."""

    files: dict[str, str]
    packages: dict[str, str]
    unpinned: dict[str, str]

    @classmethod
    def load(cls) -> LeftOut:
        """As ``left_out.toml`` says."""
        said = tomllib.loads((_HERE / "left_out.toml").read_text(encoding="utf-8"))
        return cls(said["files"], said["packages"], said["unpinned"])


def host(file: Path | None) -> list[Requirement]:
    """What the host has, by a file's lines or by ``host.txt``.

    Raises:
        PatchsetError: a line is neither ``name`` nor ``name==version``.
    """
    place = file or _HERE / "host.txt"
    found = []
    for line in place.read_text(encoding="utf-8").splitlines():
        if not (words := line.partition("#")[0].strip()):
            continue
        if not re.fullmatch(r"[A-Za-z0-9._-]+(==[A-Za-z0-9.+!_-]+)?", words):
            raise PatchsetError(f"{place}: {words[:80]!r} is neither NAME nor NAME==VERSION")
        # A local version, as in 2.11.0+cu130, names a build; the index knows the version without it.
        found.append(Requirement(words.partition("+")[0]))
    return found


def packages(release: Release, has: Sequence[Requirement], left_out: LeftOut) -> list[uv.Locked]:
    """What the host is sent besides vLLM: one set of versions that fits together with what it has.

    Raises:
        PatchsetError: there is no such set, or the index does not answer.
    """
    official = release.wheel("cuda", "x86_64")
    wanted = [Requirement(line) for line in lock.wheel_requirements(official, PYTHON, "x86_64")]
    given = {canonicalize_name(r.name): r for r in has}
    unknown = {name for name, r in given.items() if not r.specifier}
    # A package of unknown version cannot be asked to fit; whatever requires it takes what is there.
    never = [f"{name} ; sys_platform == 'never'" for name in sorted({*left_out.packages, *unknown})]
    with console.step(f"choose what {release.name} needs on the host"):
        found = uv.resolve(
            [*(str(r) for r in wanted), *_LANE, *(str(r) for r in has if r.specifier)],
            python=PYTHON,
            arch="x86_64",
            overrides=[*never, *left_out.unpinned],
            constraints=[],
        )
    return [p for p in found if p.name not in given and not _WITH_TORCH.match(p.name)]


def download(chosen: Sequence[uv.Locked], folder: Path) -> list[Path]:
    """The wheels of ``chosen`` for the host's Python, by sha256, in ``folder``; what is there already is kept.

    Raises:
        PatchsetError: pip could not get one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanting = [p for p in chosen if _held(p, folder) is None]
    if wanting:
        _pip_download(wanting, folder)
    found = [_held(p, folder) for p in chosen]
    if None in found:
        raise PatchsetError(f"pip fetched other wheels than those chosen; look into {folder}")
    return sorted(file for file in found if file is not None)


def _held(package: uv.Locked, folder: Path) -> Path | None:
    """A package's wheel in ``folder``, if it has one of the package's sums."""
    for name, digest in package.wheels:
        if (folder / name).is_file() and files.sha256_file(folder / name) == digest:
            return folder / name
    return None


def _pip_download(chosen: Sequence[uv.Locked], folder: Path) -> None:
    lines = [
        f"{p.name}=={p.version} " + " ".join(f"--hash=sha256:{sum}" for sum in sorted(p.hashes))
        for p in chosen
    ]
    listed = folder / "requirements.txt"
    files.write_text(listed, "\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--no-deps",
        "--require-hashes",
    ]
    command += ["--only-binary", ":all:", "--python-version", PYTHON, "--implementation", "cp"]
    command += [word for name in _PLATFORMS for word in ("--platform", name)]
    with console.step(f"fetch {len(chosen)} wheels"):
        done = subprocess.run(
            [*command, "--dest", str(folder), "--requirement", str(listed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if done.returncode:
        raise PatchsetError(f"pip could not fetch the wheels:\n{done.stdout.strip()[-1500:]}")
