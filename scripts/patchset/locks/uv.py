# SPDX-License-Identifier: Apache-2.0
"""uv, run with the indexes that pip is configured for and with no configuration of its own."""

from __future__ import annotations

import os
import subprocess
import tomllib
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name

from patchset import files, paths
from patchset.downloads import index
from patchset.errors import MissingToolError, PatchsetError
from patchset.release import Arch

#: Debian 12's (PEP 600 platform tag).
GLIBC = (2, 36)
#: uv's own variables, without ``UV_``, that do not change what is locked.
_KEPT = ("CACHE_DIR", "CONCURRENT_DOWNLOADS", "CONCURRENT_INSTALLS", "LINK_MODE", "PYTHON_DOWNLOADS")


@dataclass(frozen=True)
class Locked:
    """One package of a resolution: canonical ``name``, ``version``, and the file names and sha256 of its wheels
    that fit the platform."""

    name: str
    version: str
    wheels: tuple[tuple[str, str], ...]

    @property
    def hashes(self) -> frozenset[str]:
        """The sha256 of all its wheels."""
        return frozenset(sha256 for _, sha256 in self.wheels)


class NoSolutionError(PatchsetError):
    """No set of versions on the index meets the requirements; the message is uv's."""


def binary() -> str:
    """Where uv is."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError) as error:
        raise MissingToolError("uv is not installed", "pip install uv") from error


def markers(python: str, arch: Arch) -> dict[str, str]:
    """What environment markers are judged by: CPython ``python`` on Linux on ``arch``."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": arch,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def environment(settings: index.PipSettings) -> dict[str, str]:
    """This process's environment with pip's indexes, certificate, proxy and time limit in place of uv's own settings.

    A lock must hold what everybody can have: folders of this machine count only when pip has nothing else. Indexes are
    variables, not arguments, since their URLs may hold credentials and every user can read arguments.
    """
    result = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("UV_") or name.removeprefix("UV_") in _KEPT
    }
    result["UV_HTTP_TIMEOUT"] = str(max(1, round(settings.timeout)))
    remote = [url for url in settings.index_urls if url.startswith(("http://", "https://"))]
    if urls := remote or settings.index_urls:
        result |= {"UV_DEFAULT_INDEX": urls[0], "UV_INDEX": " ".join(urls[1:])}
        result |= {
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_INSECURE_HOST": " ".join(settings.trusted_hosts),
        }
    proxy = settings.proxy
    certificates = {"SSL_CERT_FILE": settings.cert, "SSL_CLIENT_CERT": settings.client_cert}
    optional = certificates | {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy}
    return result | {name: value for name, value in optional.items() if value}


def resolve(
    requirements: list[str], *, python: str, arch: Arch, overrides: list[str], constraints: list[str]
) -> list[Locked]:
    """The newest versions that meet ``requirements``, wheels only, for one Python and Debian 12 on ``arch``.

    Raises:
        NoSolutionError: there are none.
        PatchsetError: the index does not answer, or uv fails otherwise.
    """
    settings = index.pip_settings()
    command = [binary(), "pip", "compile", "--no-config", "--quiet", "--format", "pylock.toml"]
    command += ["--python-version", python, "--python-platform", f"{arch}-manylinux_{GLIBC[0]}_{GLIBC[1]}"]
    command += ["--only-binary", ":all:", "--overrides", "overrides.txt", "--constraints", "constraints.txt"]
    command += ["--output-file", "pylock.toml", "in.txt"]
    if not settings.index_urls:
        command.append("--no-index")
    with files.scratch(paths.build_dir()) as folder:
        for file, lines in (("in", requirements), ("overrides", overrides), ("constraints", constraints)):
            (folder / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        done = subprocess.run(
            command, cwd=folder, env=environment(settings), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            stderr = done.stderr.strip()[-3000:]
            if "No solution found" in stderr:
                raise NoSolutionError(f"the index has no set of versions that fits together:\n{stderr}")
            raise PatchsetError(
                f"uv could not resolve: {stderr}",
                "the cause is above; 'pip config list' shows which indexes are asked",
            )
        pylock = tomllib.loads((folder / "pylock.toml").read_text(encoding="utf-8"))
        return [_locked(package) for package in pylock.get("packages", [])]


def _locked(package: dict[str, Any]) -> Locked:
    """A package of a PEP 751 lock file."""
    wheels = []
    for wheel in package.get("wheels", []):
        file = wheel.get("name") or wheel["url"].rpartition("/")[2].replace("%2B", "+")
        if (sha256 := wheel.get("hashes", {}).get("sha256")) is None:
            raise PatchsetError(f"the index gives no sha256 for {file}", "use an index that does")
        wheels.append((file, sha256))
    if not wheels:
        raise PatchsetError(f"the index has no wheel of {package['name']} {package.get('version')}")
    return Locked(canonicalize_name(package["name"]), package["version"], tuple(sorted(wheels)))
