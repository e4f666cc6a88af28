# SPDX-License-Identifier: Apache-2.0
"""uv, run with the indexes that pip is configured for and with no configuration of its own."""

from __future__ import annotations

import os
import subprocess
import tomllib
from dataclasses import dataclass

from packaging.utils import canonicalize_name, parse_wheel_filename

from patchset.base import files, paths
from patchset.base.errors import MissingToolError, PatchsetError
from patchset.base.release import Arch
from patchset.downloads import index

#: Debian 12 has glibc 2.36 (PEP 600 platform tag).
GLIBC = "2.36"


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


def platform(arch: Arch) -> str:
    """uv's name for Debian 12 on ``arch``."""
    return f"{arch}-manylinux_{GLIBC.replace('.', '_')}"


def environment(settings: index.PipSettings) -> dict[str, str]:
    """This process's environment with pip's indexes, certificate, proxy and time limit in place of uv's own settings.

    A lock must hold what everybody can have: folders of this machine count only when pip has nothing else. Indexes are
    variables, not arguments, since their URLs may hold credentials and every user can read arguments.
    """
    kept = (
        "UV_CACHE_DIR",
        "UV_CONCURRENT_DOWNLOADS",
        "UV_CONCURRENT_INSTALLS",
        "UV_LINK_MODE",
        "UV_PYTHON_DOWNLOADS",
    )
    result = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or name in kept}
    result["UV_HTTP_TIMEOUT"] = str(max(1, round(settings.timeout)))
    remote = [url for url in settings.index_urls if url.startswith(("http://", "https://"))]
    if urls := remote or settings.index_urls:
        result |= {"UV_DEFAULT_INDEX": urls[0], "UV_INDEX": " ".join(urls[1:])}
        result |= {
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_INSECURE_HOST": " ".join(settings.trusted_hosts),
        }
    if settings.cert:
        result["SSL_CERT_FILE"] = settings.cert
    if settings.client_cert:
        result["SSL_CLIENT_CERT"] = settings.client_cert
    if settings.proxy:
        result |= {"HTTP_PROXY": settings.proxy, "HTTPS_PROXY": settings.proxy}
    return result


def resolve(
    requirements: list[str], *, python: str, arch: Arch, overrides: list[str], constraints: list[str]
) -> list[Locked]:
    """The newest versions that meet ``requirements``, wheels only, for one Python and Debian 12 on ``arch``.

    Raises:
        NoSolutionError: there are none.
        PatchsetError: the index does not answer, or uv fails otherwise.
    """
    settings = index.pip_settings()
    with files.scratch(paths.build_dir()) as folder:
        for file, lines in (("in", requirements), ("overrides", overrides), ("constraints", constraints)):
            (folder / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        command = [binary(), "pip", "compile", "--no-config", "--quiet", "--format", "pylock.toml"]
        command += ["--python-version", python, "--python-platform", platform(arch), "--only-binary", ":all:"]
        command += ["--overrides", "overrides.txt", "--constraints", "constraints.txt"]
        command += [
            "--output-file",
            "pylock.toml",
            "in.txt",
            *([] if settings.index_urls else ["--no-index"]),
        ]
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
        return _read(tomllib.loads((folder / "pylock.toml").read_text(encoding="utf-8")))


def _read(pylock: dict[str, object]) -> list[Locked]:
    """The packages of a PEP 751 lock file."""
    result = []
    packages = pylock.get("packages", [])
    assert isinstance(packages, list)  # noqa: S101 - PEP 751
    for package in packages:
        wheels = []
        for wheel in package.get("wheels", []):
            file = wheel.get("name") or str(wheel["url"]).rpartition("/")[2].replace("%2B", "+")
            parse_wheel_filename(file)
            sha256 = wheel.get("hashes", {}).get("sha256")
            if sha256 is None:
                raise PatchsetError(f"the index gives no sha256 for {file}", "use an index that does")
            wheels.append((file, str(sha256)))
        if not wheels:
            raise PatchsetError(f"the index has no wheel of {package['name']} {package.get('version')}")
        result.append(
            Locked(canonicalize_name(package["name"]), str(package["version"]), tuple(sorted(wheels)))
        )
    return result
