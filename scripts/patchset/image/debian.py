# SPDX-License-Identifier: Apache-2.0
"""Whole images: a base of Debian packages, the locked dependencies, the patched wheel.

For machines without a registry. The host downloads and verifies everything; the engine
builds without a network, so that nothing of the host's network ends up in an image.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchset import console, doctor, files, paths, process
from patchset.errors import (
    MissingToolError,
    PatchsetError,
    UnavailableError,
    UsageError,
)
from patchset.image import engine as engines
from patchset.image import labels, layout, sbom
from patchset.image.engine import Engine, Job
from patchset.image.layer import DOCTOR
from patchset.inputs import lock as locks
from patchset.inputs.lock import Locked
from patchset.release import GOARCH, Arch, Release, Target
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay

#: Debian 12: its Python is the one that locks are made for.
SUITE = "bookworm"
#: Names the archive of one day in place of today's, such as
#: http://snapshot.debian.org/archive/{}/20261120T000000Z; {} stands for debian and
#: debian-security.
SNAPSHOT = "PATCHSET_DEBIAN_SNAPSHOT"
#: Raised when ``rootfs`` makes something else from the same packages.
_RECIPE = 2
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: What of docker/ the setup step mounts.
_SETUP = (
    "setup.cuda.sh",
    "setup.cpu.sh",
    "torchvision_without_cuda.py",
    "torchvision_without_cuda.pth",
)
#: Bytes that an image needs in the build folder, and in the engine's storage.
BUILD: dict[Target, int] = {"cuda": 15_000_000_000, "cpu": 4_000_000_000}
STORAGE: dict[Target, int] = {"cuda": 21_000_000_000, "cpu": 9_000_000_000}
#: Removes traces of the machine and the time of the build, and rights that nobody in
#: the image needs. "$1" is the new root.
_CLEAN = """\
set -eu
cd "$1"
rm -f etc/apt/apt.conf.d/99mmdebstrap etc/resolv.conf etc/machine-id
rm -f var/cache/ldconfig/aux-cache var/cache/debconf/*-old
rm -rf var/log/apt var/lib/apt/lists/* var/cache/apt/*.bin
find var/log -type f -delete
find . -xdev -type f -perm /6000 -exec chmod ug-s {} +
find . -xdev -type f -perm /0002 -exec chmod o-w {} +
find . -xdev -type d -perm -0002 ! -perm -1000 -exec chmod o-w {} +
echo localhost > etc/hostname
"""


@dataclass(frozen=True)
class Whole:
    """A whole image: its folder, its digest, and its tag in the engine."""

    folder: Path
    digest: str
    tag: str


def _sources(archive: str) -> list[str]:
    """Return one-line sources of an archive, {} being debian or debian-security."""
    parts = (("debian", ""), ("debian", "-updates"), ("debian-security", "-security"))
    return [f"deb {archive.format(name)} {SUITE}{part} main" for name, part in parts]


#: What the image's own apt asks, and the bootstrap if the host's apt names no mirror.
SOURCES = _sources("http://deb.debian.org/{}")


def tag(release: Release, target: Target) -> str:
    """Return the tag in the engine."""
    name = f"{release.name}-mtp.{release.revision}-{target}"
    return f"localhost/vllm-mtp-patches:{name}"


def folder(release: Release, target: Target, arch: Arch) -> Path:
    """Return ``build/images/<release>-<target>-<arch>``."""
    return paths.images_dir() / f"{release.name}-{target}-{arch}"


def build(
    patched: PatchedRelease,
    target: Target,
    arch: Arch,
    engine: Engine,
    *,
    fresh: bool = False,
    again: bool = False,
) -> Whole:
    """Build an image, tag it in the engine and write it as a layout.

    Args:
        patched: The release.
        target: What vLLM computes on.
        arch: The processor that the image is for.
        engine: What builds.
        fresh: Make the base anew, with Debian's updates of today.
        again: Build every step again, under a name of its own, to be compared.
    """
    release, images = patched.pin, paths.images_dir()
    epoch = release.source_date_epoch
    out, name = folder(release, target, arch), tag(release, target)
    if again:
        out, name = out.with_name(f"{out.name}-again"), f"{name}-again"
    locked = locks.read(release, target, arch)
    lock_sum = files.sha256_file(locks.lock_file(release, target, arch))
    store = engines.storage(engine) or images / "engine"
    files.need_space({images: BUILD[target], store: STORAGE[target]})
    with files.lock(images / "work"):
        engines.clean(images)
        files.remove_temp(images)
        console.note("part 1 of 4: the patched wheel")
        wheel = overlay.build(patched, target, arch)
        console.note("part 2 of 4: the base")
        base = rootfs(target, arch, epoch, fresh=fresh)
        base_sum = files.sha256_file(base)
        base_tag = f"localhost/vllm-mtp-patches-base:{target}-{arch}-{base_sum[:16]}"
        if not engines.exists(engine, base_tag):
            with files.scratch(images) as context:
                _link(base, context / "rootfs.tar")
                job = Job(_docker("Dockerfile.base"), context, base_tag, epoch, arch)
                engines.build(engine, job)
        console.note("part 3 of 4: the packages, and vLLM on them")
        wheels = locks.gather(locked)
        said = labels.labels(patched, target, wheel) | {
            labels.ROOTFS: base.name,
            labels.ROOTFS_SHA256: base_sum,
            labels.LOCK_SHA256: lock_sum,
            labels.SNAPSHOT: snapshot() or "none",
            labels.ENGINE: engine,
        }
        with files.scratch(images) as context:
            fill(context, wheel, locked, wheels, _uv(arch))
            job = Job(
                _docker("Dockerfile.full"),
                context,
                name,
                epoch,
                arch,
                stage=target,
                arguments={"BASE": base_tag, **_arguments(target, arch)},
                labels=said,
                cached=not again,
            )
            engines.build(engine, job)
        console.note("part 4 of 4: the layout")
        with files.lock(out), files.atomic_folder(out) as temp:
            engines.store(engine, name, temp)
            image, _ = layout.load(temp / "image")
            inputs = {base.name: base_sum, "lock": lock_sum}
            sbom.write(
                temp,
                patched,
                target,
                image.digest,
                {arch: wheel},
                packages=locked,
                inputs=inputs,
            )
    return Whole(out, image.digest, name)


def _uv(arch: Arch) -> Path:
    """Return the wheel of the installer that fills the image's environment."""
    (wheel,) = locks.gather(locks.read_file(_docker(f"pylock.uv-{arch}.toml")))
    return wheel


def _arguments(target: Target, arch: Arch) -> dict[str, str]:
    found: dict[str, str] = {"TARGET": target}
    if target == "cpu":
        # As the official one: tcmalloc, and on x86_64 Intel's OpenMP (from the lock).
        openmp = ":/opt/venv/lib/libiomp5.so" if arch == "x86_64" else ""
        malloc = f"/usr/lib/{arch}-linux-gnu/libtcmalloc_minimal.so.4"
        found["PRELOAD"] = malloc + openmp
    return found


def fill(
    context: Path,
    wheel: Path,
    packages: Sequence[Locked],
    wheels: Sequence[Path],
    uv_wheel: Path,
) -> None:
    """Fill the context of ``docker/Dockerfile.full`` with the files that it names."""
    for name in ("lock", "bin", "wheels", "wheel", "setup"):
        (context / name).mkdir()
    lines = [
        f"{package.name}=={package.version} --hash=sha256:{package.wheel.sha256}\n"
        for package in sorted(packages, key=lambda package: package.name)
    ]
    (context / "lock" / "requirements.lock").write_text("".join(lines))
    for path in wheels:
        _link(path, context / "wheels" / path.name)
    _link(wheel, context / "wheel" / wheel.name)
    (context / "wheel.sha256").write_text(f"{files.sha256_file(wheel)}  {wheel.name}\n")
    with zipfile.ZipFile(uv_wheel) as archive:
        names = [n for n in archive.namelist() if n.endswith(".data/scripts/uv")]
        if len(names) != 1:
            raise PatchsetError(
                f"{uv_wheel.name} does not contain the program uv",
                "docker/pylock.uv-*.toml pin the wrong file",
            )
        (context / "bin" / "uv").write_bytes(archive.read(names[0]))
    (context / "bin" / "uv").chmod(0o755)
    for name in _SETUP:
        shutil.copyfile(_docker(name), context / "setup" / name)
    shutil.copyfile(_docker("forget-times.sh"), context / "bin" / "forget-times.sh")
    shutil.copyfile(doctor.__file__, context / "setup" / DOCTOR)


def _link(source: Path, place: Path) -> None:
    """Give a file a second name; copy it from another disk."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)


def _docker(name: str) -> Path:
    return paths.project_root() / "docker" / name


def snapshot() -> str | None:
    """Return the archive of one day that the environment names."""
    url = os.environ.get(SNAPSHOT)
    if url and not re.fullmatch(r"https?://[^\s'{}@]+\{\}[^\s'{}@]*", url):
        raise UsageError(
            f"{SNAPSHOT} is no URL with a {{}} for debian and debian-security",
            f"{SNAPSHOT}='http://snapshot.debian.org/archive/{{}}/20261120T000000Z'",
        )
    return url or None


def _packages(target: Target) -> list[str]:
    """Return the packages beside Debian's essential ones, from docker/packages.toml."""
    groups = tomllib.loads(_docker("packages.toml").read_text(encoding="utf-8"))
    return sorted({*groups["common"], *groups[target]})


def rootfs(target: Target, arch: Arch, epoch: int, *, fresh: bool = False) -> Path:
    """Return the base as a tar file in ``build/images/base``, made unless it is there.

    Its name has a digest of what it is made from: packages, suite, architecture, time,
    sources and recipe. The packages' versions are those of the day on which the file was
    made, or of the snapshot. ``fresh`` makes it anew, for Debian's security updates.
    """
    names, url = _packages(target), snapshot()
    recipe = {"packages": names, "suite": SUITE, "arch": arch, "epoch": epoch}
    recipe |= {"recipe": _RECIPE, "sources": _sources(url) if url else SOURCES}
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    name = f"debian-{SUITE}-{target}-{arch}-{key}.tar"
    place = paths.images_dir() / "base" / name
    with files.lock(place):
        if place.is_file() and not fresh:
            console.note(f"base {name} is there (--fresh-base makes it anew)")
        else:
            files.remove_temp(place.parent)
            _bootstrap(place, names, arch, epoch, url)
    return place


def _bootstrap(
    place: Path, names: list[str], arch: Arch, epoch: int, url: str | None
) -> None:
    if shutil.which("mmdebstrap") is None or not _KEYRING.is_file():
        raise MissingToolError(
            "the base is made by mmdebstrap with Debian's keys, which are not here",
            "sudo apt-get install mmdebstrap debian-archive-keyring uidmap",
        )
    argv = ["mmdebstrap", "--variant=minbase", "--format=tar"]
    argv += [f"--include={','.join(names)}", f"--architectures={GOARCH[arch]}"]
    argv += [f"--aptopt={option}" for option in _host_apt_options()]
    argv += ['--aptopt=Acquire::Check-Valid-Until "false"'] if url else []
    with (
        console.step(f"make the base from Debian packages: {', '.join(names)}"),
        files.atomic_file(place) as temp,
        tempfile.TemporaryDirectory(
            dir=place.parent, prefix=files.TEMP_PREFIX
        ) as scratch,
    ):
        own = Path(scratch)
        own.chmod(0o755)
        hook, sources = own / "clean.sh", own / "sources.list"
        hook.write_text(f"#!/bin/sh\n{_CLEAN}")
        hook.chmod(0o755)
        sources.write_text("".join(f"{line}\n" for line in SOURCES))
        argv.append(f"--customize-hook={hook}")
        argv.append(f"--customize-hook=upload {sources} /etc/apt/sources.list")
        signed = [
            line.replace("deb ", f"deb [signed-by={_KEYRING}] ", 1)
            for line in (_sources(url) if url else _host_sources())
        ]
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        if os.geteuid() == 0:  # else it must be a place of the other users too
            env["TMPDIR"] = scratch
        try:
            process.run([*argv, SUITE, temp, *signed], prefix="mmdebstrap", env=env)
        except process.ProgramError as error:
            if re.search("Could not (resolve|connect)|Failed to fetch", error.tail):
                raise UnavailableError(
                    "no Debian mirror answers",
                    "check the network and /etc/apt/sources.list; then run it again",
                ) from error
            raise


def _host_sources() -> list[str]:
    """Return the Debian mirrors of the host's apt; deb.debian.org without any."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)"
    return sources_from(
        engines.output("apt-get", "indextargets", "--format", form) or ""
    )


def sources_from(targets: str) -> list[str]:
    """Return the sources of Debian's own archives in ``apt-get indextargets`` output."""
    suite = rf"{SUITE}(?:-updates|-security)?"
    line = rf"(?m)^(\S+/debian(?:-security)?)/* ({suite}) main Packages$"
    found = dict.fromkeys(
        f"deb {uri} {name} main" for uri, name in re.findall(line, targets)
    )
    complete = any(source.endswith(f" {SUITE} main") for source in found)
    return list(found) if complete else list(SOURCES)


def _host_apt_options() -> list[str]:
    """Return settings of the host's apt that the bootstrap needs, and not the image."""
    names = r"Acquire::(?:https?::Proxy|https::CaInfo|Check-Valid-Until|Check-Date)"
    dump = engines.output("apt-config", "dump") or ""
    said = re.findall(rf'(?m)^({names}) "?([^"\n]+)"?;$', dump)
    return [f'{name} "{value}"' for name, value in dict(said).items()]
