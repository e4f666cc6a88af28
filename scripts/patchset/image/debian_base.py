# SPDX-License-Identifier: Apache-2.0
"""The base "debian": a root file system made from Debian packages, for machines without a container registry."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import tomllib
from pathlib import Path

from patchset import console, files, paths, process
from patchset.errors import MissingToolError, UnavailableError, UsageError
from patchset.image.engine import output
from patchset.release import GOARCH, Arch, Target

#: Debian 12: its Python is the one that locks are made for.
SUITE = "bookworm"


def _sources(archive: str) -> list[str]:
    """One-line sources of Debian's packages, where ``archive`` has a {} for debian and debian-security."""
    parts = (("debian", ""), ("debian", "-updates"), ("debian-security", "-security"))
    return [f"deb {archive.format(name)} {SUITE}{part} main" for name, part in parts]


#: What the image's own apt asks, and the bootstrap where the host's apt names no Debian mirror.
SOURCES = _sources("http://deb.debian.org/{}")
#: The variable that names the archive of one day in place of today's: http://snapshot.debian.org/archive/{}/20261120T000000Z.
#: {} stands for debian and debian-security.
SNAPSHOT = "PATCHSET_DEBIAN_SNAPSHOT"
#: Raised when this module makes something else from the same packages.
_RECIPE = 2
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: Takes away what says on which machine and when the base was made. "$1" is the new root.
_CLEAN = (
    'rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/resolv.conf "$1"/etc/machine-id'
    ' "$1"/var/cache/ldconfig/aux-cache "$1"/var/cache/debconf/*-old'
    ' && rm -rf "$1"/var/log/apt "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin && find "$1"/var/log -type f -delete'
    # Nobody in the image needs another user's rights, nor writes where everybody may.
    ' && find "$1" -xdev -type f -perm /6000 -exec chmod ug-s {{}} +'
    ' && find "$1" -xdev -type f -perm /0002 -exec chmod o-w {{}} +'
    ' && find "$1" -xdev -type d -perm -0002 ! -perm -1000 -exec chmod o-w {{}} +'
    ' && echo localhost > "$1"/etc/hostname && printf "%s\\n" {} > "$1"/etc/apt/sources.list'
)


def packages(target: Target) -> list[str]:
    """The Debian packages beside Debian's essential ones, from ``docker/packages.toml``."""
    groups = tomllib.loads((paths.project_root() / "docker" / "packages.toml").read_text(encoding="utf-8"))
    return sorted({*groups["common"], *groups[target]})


def snapshot() -> str | None:
    """The archive of one day that ``PATCHSET_DEBIAN_SNAPSHOT`` names, from which everybody gets the same packages.

    Raises:
        UsageError: it is no URL with one {}.
    """
    url = os.environ.get(SNAPSHOT)
    if url and not re.fullmatch(r"https?://[^\s'{}]+\{\}[^\s'{}]*", url):
        raise UsageError(
            f"{SNAPSHOT}={url} is no URL with a {{}} for debian and debian-security",
            f"{SNAPSHOT}='http://snapshot.debian.org/archive/{{}}/20261120T000000Z'",
        )
    return url or None


def rootfs(target: Target, arch: Arch, epoch: int, *, fresh: bool = False) -> tuple[Path, str]:
    """The base as a tar file, ``build/images/base/``, made unless it is there; and the key of what it is made from.

    The key covers packages, suite, architecture, times, sources and recipe. The packages' versions are those of the day
    on which the file was made, or of the ``snapshot``. ``fresh`` makes it anew, for Debian's security updates.
    """
    names, url = packages(target), snapshot()
    recipe = {"packages": names, "suite": SUITE, "arch": arch, "epoch": epoch, "recipe": _RECIPE}
    recipe["sources"] = _sources(url) if url else SOURCES
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    place = paths.images_dir() / "base" / f"debian-{SUITE}-{target}-{arch}-{key}.tar"
    with files.lock(place):
        if place.is_file() and not fresh:
            console.note(f"base {place.name} is there (--fresh-base makes it anew)")
        else:
            files.remove_temp(place.parent)
            _bootstrap(place, names, arch, epoch, url)
    return place, files.sha256_file(place)[:16]


def _bootstrap(place: Path, names: list[str], arch: Arch, epoch: int, url: str | None) -> None:
    root = os.geteuid() == 0
    if shutil.which("mmdebstrap") is None:
        raise MissingToolError(
            "mmdebstrap is not installed; the base image is made with it",
            f"install it: sudo apt-get install mmdebstrap{'' if root else ' uidmap'}; "
            "or name an image that has the release: --base REF",
        )
    if not _KEYRING.is_file():
        raise MissingToolError(
            f"{_KEYRING} is missing: Debian's packages cannot be verified",
            "install it: sudo apt-get install debian-archive-keyring",
        )
    argv = ["mmdebstrap", "--variant=minbase", "--format=tar", f"--include={','.join(names)}"]
    argv.append(f"--architectures={GOARCH[arch]}")
    argv += [f"--aptopt={option}" for option in _host_apt_options()]
    quoted = " ".join(f"'{line}'" for line in SOURCES)
    argv.append(f"--customize-hook={_CLEAN.format(quoted)}")
    if url:  # its index was valid on its day
        argv.append('--aptopt=Acquire::Check-Valid-Until "false"')
    sources = _sources(url) if url else _host_sources()
    signed = [line.replace("deb ", f"deb [signed-by={_KEYRING}] ", 1) for line in sources]
    with (
        console.step(f"make the base from Debian packages: {', '.join(names)}"),
        files.atomic_file(place) as temp,
        tempfile.TemporaryDirectory(dir=place.parent, prefix=files.TEMP_PREFIX) as scratch,
    ):
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        if root:  # /tmp is small on some machines; without root it must be a place of other users too
            env["TMPDIR"] = scratch
        try:
            process.run([*argv, SUITE, temp, *signed], prefix="mmdebstrap", env=env)
        except process.ProgramError as error:
            if re.search("Could not resolve|Failed to fetch|Could not connect", error.tail):
                raise UnavailableError(
                    "no Debian mirror answers",
                    "check the network and /etc/apt/sources.list; then run the same command",
                ) from error
            raise


def _host_sources() -> list[str]:
    """The Debian mirrors that the host's apt is configured for, as one-line sources; deb.debian.org without any."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)"
    return sources_from(output("apt-get", "indextargets", "--format", form) or "")


def sources_from(targets: str) -> list[str]:
    """Sources from ``apt-get indextargets`` output: those of this suite that serve Debian's own archives."""
    line = rf"(?m)^(\S+/debian(?:-security)?)/* ({SUITE}(?:-updates|-security)?) main Packages$"
    found = dict.fromkeys(f"deb {uri} {suite} main" for uri, suite in re.findall(line, targets))
    complete = any(source.endswith(f" {SUITE} main") for source in found)
    return list(found) if complete else list(SOURCES)


def _host_apt_options() -> list[str]:
    """Settings of the host's apt that the bootstrap needs and the image must not keep."""
    names = r"Acquire::(?:https?::Proxy|https::CaInfo|Check-Valid-Until|Check-Date)"
    said = re.findall(rf'(?m)^({names}) "?([^"\n]+)"?;$', output("apt-config", "dump") or "")
    return [f'{name} "{value}"' for name, value in dict(said).items()]
