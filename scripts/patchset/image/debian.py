# SPDX-License-Identifier: Apache-2.0
"""Whole images: a base of Debian packages, the locked dependencies, the patched wheel.

For machines without a registry. The host downloads and verifies everything; buildah
builds without a network, so that nothing of the host's network ends up in an image.
"""

import hashlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

from uv import find_uv_bin

from patchset import console, doctor, files, paths, process
from patchset.errors import MissingToolError
from patchset.image import buildah, labels, layout, sbom
from patchset.image.thin import DOCTOR
from patchset.inputs import lock as locks
from patchset.inputs.lock import Locked
from patchset.release import GOARCH, Arch, Target, this_machine
from patchset.series.apply import PatchedRelease
from patchset.wheel import overlay

#: Debian 12: its Python is the one that locks are made for.
SUITE = "bookworm"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: Bytes that an image needs in the build folder, and in buildah's storage.
BUILD: dict[Target, int] = {"cuda": 15_000_000_000, "cpu": 14_000_000_000}
STORAGE: dict[Target, int] = {"cuda": 21_000_000_000, "cpu": 13_000_000_000}


def refuse_missing() -> None:
    """Name all programs that a whole image takes and that are not here."""
    wanted = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
    if os.geteuid() != 0:
        wanted["newuidmap"] = "uidmap"
    missing = [wanted[name] for name in wanted if shutil.which(name) is None]
    missing += [] if _KEYRING.is_file() else ["debian-archive-keyring"]
    if missing:
        raise MissingToolError(
            f"not installed here: {', '.join(missing)}",
            f"sudo apt-get install {' '.join(missing)}",
        )


def announcement(patched: PatchedRelease) -> str:
    """Return what building a whole image takes."""
    release, target, arch = patched.pin, patched.target, this_machine()
    size = patched.wheel(arch).size
    size += sum(package.wheel.size for package in locks.read(release, target, arch))
    return (
        "building a whole image from Debian packages instead: "
        f"{size / 1e9:.1f} GB of downloads, {BUILD[target] / 1e9:.0f} GB of disk in "
        f"{paths.build_dir()} and {STORAGE[target] / 1e9:.0f} GB in buildah's store, "
        "and, once everything is downloaded, about 10 minutes"
    )


def build(patched: PatchedRelease) -> Path:
    """Build an image for this machine's processor, and write it as a layout.

    It is tagged in buildah's storage, too. One of the same files that is in both is
    left as it is. Returns the image's folder.
    """
    release, target, arch = patched.pin, patched.target, this_machine()
    images, epoch = paths.build_dir() / "images", release.source_date_epoch
    out, name = layout.folder(patched), labels.local(patched)
    locked = locks.read(release, target, arch)
    wheels = [package.wheel for package in locked]
    fetched = [w.size for w in wheels if (paths.downloads_dir() / w.file).is_file()]
    space = BUILD[target] - sum(fetched)
    needed = {buildah.storage(): STORAGE[target], images: space}
    with files.lock(images / "work"):
        buildah.clean(images)
        before = (out / "image").is_dir()
        if not before:
            files.need_space(needed)
            buildah.probe(images)
        wheel = overlay.build(patched, arch)
        base = rootfs(target, arch, epoch)
        base_sum = files.sha256_file(base)
        lock = locks.lock_file(release, target, arch)
        said = labels.labels(patched, wheel) | {
            labels.ROOTFS_SHA256: base_sum,
            labels.LOCK_SHA256: files.sha256_file(lock),
        }
        if before:
            (built,) = layout.load(out / "image").parts
            if said.items() <= buildah.labels(name).items() & built.labels.items():
                console.note(f"{name} has been built of the same files")
                return out
            files.need_space(needed)
            buildah.probe(images)
        gathered = locks.gather(locked)
        options = [f"--label={key}={value}" for key, value in said.items()]
        options += [f"--build-arg=TARGET={target}", f"--target={target}"]
        if target == "cpu":
            # As in the official image: tcmalloc, and on x86_64 Intel's OpenMP (locked).
            preload = f"/usr/lib/{arch}-linux-gnu/libtcmalloc_minimal.so.4"
            preload += ":/opt/venv/lib/libiomp5.so" if arch == "x86_64" else ""
            options += [f"--build-arg=PRELOAD={preload}"]
        with files.scratch(images) as context:
            fill(context, base, wheel, locked, gathered)
            buildah.build(images, context, name, epoch, options)
        with files.lock(out), files.atomic_folder(out) as temp:
            buildah.store(name, temp)
            digest, below = layout.load(temp / "image").digest, {base.name: base_sum}
            sbom.write(temp, patched, digest, {arch: wheel}, below, locked)
    return out


def fill(
    context: Path,
    base: Path,
    wheel: Path,
    packages: Sequence[Locked],
    wheels: Sequence[Path],
) -> None:
    """Fill the context of ``docker/Dockerfile`` with the files that it names."""
    for name in ("lock", "wheels", "wheel"):
        (context / name).mkdir()
    lines = [
        f"{package.name}=={package.version} --hash=sha256:{package.wheel.sha256}\n"
        for package in sorted(packages, key=lambda package: package.name)
    ]
    (context / "lock" / "requirements.lock").write_text("".join(lines))
    (context / "wheel.sha256").write_text(f"{files.sha256_file(wheel)}  {wheel.name}\n")
    _link(base, context / "rootfs.tar")
    _link(wheel, context / "wheel" / wheel.name)
    for path in wheels:
        _link(path, context / "wheels" / path.name)
    shutil.copyfile(_docker("Dockerfile"), context / "Dockerfile")
    shutil.copytree(_docker("setup"), context / "setup")
    shutil.copy(find_uv_bin(), context / "setup" / "uv")
    shutil.copyfile(doctor.__file__, context / DOCTOR)


def _link(source: Path, place: Path) -> None:
    """Give a file a second name; copy it from another disk."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)


def _docker(name: str) -> Path:
    return paths.project_root() / "docker" / name


def rootfs(target: Target, arch: Arch, epoch: int) -> Path:
    """Return the base as a tar file in ``build/images/base``, made unless it is there.

    Its name has a digest of what it is made from: packages, suite, architecture, time
    and last step. The packages' versions are those of the day on which it was made.
    """
    groups = tomllib.loads(_docker("packages.toml").read_text(encoding="utf-8"))
    names = sorted({*groups["common"], *groups[target]})
    clean = _docker("setup/clean-base.sh").read_text()
    recipe = json.dumps([names, SUITE, arch, epoch, clean]).encode()
    key = hashlib.sha256(recipe).hexdigest()[:16]
    name = f"debian-{SUITE}-{target}-{arch}-{key}.tar"
    place = paths.build_dir() / "images/base" / name
    with files.lock(place):
        if place.is_file():
            console.note(f"base {place.name} is there; remove it for Debian's updates")
        else:
            _bootstrap(place, names, arch, epoch, clean)
    return place


def _bootstrap(
    place: Path, names: list[str], arch: Arch, epoch: int, clean: str
) -> None:
    argv = ["mmdebstrap", "--variant=minbase", "--format=tar"]
    argv += [f"--include={','.join(names)}", f"--architectures={GOARCH[arch]}"]
    argv += [f"--aptopt={option}" for option in _host_apt_options()]
    argv += [f"--customize-hook={clean.strip()}", SUITE]
    # The host's mirrors; without any, mmdebstrap has one.
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)"
    listed = buildah.output("apt-get", "indextargets", "--format", form) or ""
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    with (
        console.step(f"make the base from Debian packages: {', '.join(names)}"),
        files.atomic_file(place) as temp,
        files.scratch(place.parent) as scratch,
    ):
        if os.geteuid() == 0:  # else it must be a place of the other users too
            scratch.chmod(0o755)
            env["TMPDIR"] = str(scratch)
        process.run([*argv, temp, *sources_from(listed)], prefix="mmdebstrap", env=env)


def sources_from(targets: str) -> list[str]:
    """Return the sources of Debian's own archives among ``apt-get indextargets``."""
    suite = rf"{SUITE}(?:-updates|-security)?"
    line = rf"(?m)^(\S+/debian(?:-security)?)/* ({suite}) main Packages$"
    found = dict.fromkeys(
        f"deb [signed-by={_KEYRING}] {uri} {name} main"
        for uri, name in re.findall(line, targets)
    )
    complete = any(source.endswith(f" {SUITE} main") for source in found)
    return list(found) if complete else []


def _host_apt_options() -> list[str]:
    """Return settings of the host's apt that the bootstrap needs, and not the image."""
    names = r"Acquire::(?:https?::Proxy|https::CaInfo|Check-Valid-Until|Check-Date)"
    dump = buildah.output("apt-config", "dump") or ""
    said = re.findall(rf'(?m)^({names}) "?([^"\n]+)"?;$', dump)
    return [f'{name} "{value}"' for name, value in dict(said).items()]
