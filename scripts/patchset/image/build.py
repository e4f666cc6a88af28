# SPDX-License-Identifier: Apache-2.0
"""From a pin to an image: base, locked dependencies, patched wheel, archive."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from patchset import console, files, paths
from patchset.attest import attestation, inputs, labels
from patchset.errors import UsageError
from patchset.image import archive, context, debian_base, space
from patchset.image.archive import Archive
from patchset.image.engine import Engine
from patchset.image.thin import inputs_lock
from patchset.locks import wheelhouse
from patchset.release import Arch, Release, Target
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import overlay

#: The base that is built here from Debian packages.
DEBIAN = "debian"


@dataclass(frozen=True)
class Built:
    """The image: its ``tag`` in ``engine``, the ``archive``, the unpacked size in bytes where the engine tells."""

    engine: Engine
    tag: str
    archive: Archive
    unpacked: int | None


def default_tag(release: Release, target: Target) -> str:
    """``vllm-mtp-patches:v0.33.0-mtp.1-cuda``; a tag may not hold the version's plus sign."""
    return f"vllm-mtp-patches:{release.name}-mtp.{release.revision}-{target}"


def build(
    patched: PatchedRelease,
    target: Target,
    arch: Arch,
    engine: Engine,
    *,
    tag: str | None = None,
    fresh_base: bool = False,
    cached: bool = True,
) -> Built:
    """Build an image, tag it in the engine and write ``build/images/<release>-<target>-<arch>.oci.tar``.

    ``cached`` lets the engine take steps from earlier builds.
    """
    release, images = patched.pin, paths.images_dir()
    epoch = release.source_date_epoch
    tag = engine.full_tag(tag or default_tag(release, target))
    release.wheel(target, arch)
    lock = lock_file(release, target)
    stored = engine.size(tag) or 0
    space.check(target, images, engine.storage(), have=_downloaded(lock, arch), stored=stored)
    with files.lock(images / "work"):
        engine.clean(images)
        files.remove_temp(images)
        console.note("part 1 of 4: the patched wheel")
        wheel = overlay.build(patched, target, arch)
        console.note("part 2 of 4: the base")
        rootfs, key = debian_base.rootfs(target, arch, epoch, fresh=fresh_base)
        base_tag = f"localhost/vllm-mtp-patches-base:{target}-{arch}-{key}"
        if not engine.exists(base_tag):
            with console.step(f"put the base into {engine.name}"), files.scratch(images) as folder:
                context.link(rootfs, folder / "rootfs.tar")
                engine.build(_dockerfile("base"), folder, base_tag, epoch=epoch, arch=arch)
        console.note("part 3 of 4: the packages, and vLLM on them")
        locks, wheels = wheelhouse.dependencies(lock, arch)
        (uv_wheel,) = wheelhouse.gather(_locked(paths.project_root() / "docker" / "uv.lock", arch), arch)
        arguments = {"BASE": base_tag, "TARGET": target}
        if target == "cpu":  # as the official one: tcmalloc, and on x86_64 Intel's OpenMP (from the lock)
            openmp = ":/opt/venv/lib/libiomp5.so" if arch == "x86_64" else ""
            arguments["PRELOAD"] = f"/usr/lib/{arch}-linux-gnu/libtcmalloc_minimal.so.4{openmp}"
        with console.step(f"build {tag} with {engine.name}"), files.scratch(images) as folder:
            context.full(folder, wheel=wheel, wheels=wheels, locks=locks, uv_wheel=uv_wheel)
            engine.build(
                _dockerfile("full"),
                folder,
                tag,
                epoch=epoch,
                arch=arch,
                stage=target,
                arguments=arguments,
                labels=labels.labels(patched, target, wheel),
                cached=cached,
                unpacks=sum(map(_unpacked, wheels)),
            )
        console.note("part 4 of 4: the archive")
        installed = [*wheels, uv_wheel]

        def attest(digest: str) -> dict[str, bytes]:
            base = inputs.Source(file=rootfs.name, sha256=files.sha256_file(rootfs))
            own = {"engine": engine.name, "snapshot": debian_base.snapshot()}
            locked = inputs_lock("full", patched, target, [arch], digest, rootfs=[base], **own)
            return attestation.by_annotation(
                attestation.write(locked, patched, {arch: wheel}, installed=installed, rootfs=rootfs)
            )

        place = images / f"{release.name}-{target}-{arch}.oci.tar"
        packed = sum(file.stat().st_size for file in [*installed, wheel])
        made = archive.export(engine, tag, place, epoch, attest, packed)
    return Built(engine, tag, made, engine.size(tag))


def lock_file(release: Release, target: Target) -> Path:
    """The lock of a target."""
    file = release.folder / f"requirements.{target}.lock"
    if not file.is_file():
        raise UsageError(
            f"{release.name} has no lock for {target}: {file} is missing",
            f"nox -s lock -- {release.name} --target {target} writes it",
        )
    return file


def _locked(lock: Path, arch: Arch) -> list[wheelhouse.Locked]:
    return wheelhouse.read_lock(lock.read_text(encoding="utf-8"), arch, origin=str(lock))


def _downloaded(lock: Path, arch: Arch) -> int:
    """Bytes of the locked wheels that are there from an earlier run."""
    names = (f"{locked.name.replace('-', '_')}-{locked.version}-*.whl" for locked in _locked(lock, arch))
    return sum(place.stat().st_size for name in names for place in paths.downloads_dir().glob(name))


def _unpacked(wheel: Path) -> int:
    """How many bytes a wheel's files have."""
    with zipfile.ZipFile(wheel) as opened:
        return sum(info.file_size for info in opened.infolist())


def _dockerfile(name: str) -> Path:
    return paths.project_root() / "docker" / f"Dockerfile.{name}"
