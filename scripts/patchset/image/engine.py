# SPDX-License-Identifier: Apache-2.0
"""The container engines that build whole images: buildah, else docker."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from patchset import console, files, process
from patchset.errors import MissingToolError, PatchsetError
from patchset.release import GOARCH, Arch, this_machine

Engine = Literal["buildah", "docker"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
#: Beside a context that is built: the working containers that were there before.
_JOURNAL = ".containers.json"


@dataclass(frozen=True)
class Job:
    """What is to be built: a stage of a Dockerfile, from a folder, under a tag."""

    dockerfile: Path
    context: Path
    tag: str
    epoch: int
    arch: Arch
    stage: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    cached: bool = True

    def words(self) -> list[str]:
        """Return what both engines take in the same words."""
        argv = ["--platform", f"linux/{GOARCH[self.arch]}"]
        given = {"SOURCE_DATE_EPOCH": str(self.epoch), **self.arguments}
        argv += [f"--build-arg={name}={value}" for name, value in given.items()]
        argv += [f"--label={name}={value}" for name, value in self.labels.items()]
        argv += ["--target", self.stage] if self.stage else []
        argv += [] if self.cached else ["--no-cache"]
        argv += ["--file", str(self.dockerfile), "--tag", self.tag]
        return [*argv, str(self.context)]


def build(engine: Engine, job: Job) -> None:
    """Build a job; no step of it can reach a network, or is told how to."""
    with console.step(f"build {job.tag} with {engine}"):
        _buildah(job) if engine == "buildah" else _docker(job)


def _buildah(job: Job) -> None:
    # chroot isolation works everywhere, in containers and without privileges too. It has
    # no network of its own, hence each installer in the Dockerfiles is told to stay
    # offline.
    isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
    network = "host" if isolation == "chroot" else "none"
    argv = ["buildah", "bud", "--isolation", isolation, "--network", network]
    argv += ["--layers", "--format", "oci", "--pull=false", "--http-proxy=false"]
    argv += ["--timestamp", str(job.epoch), *job.words()]
    folder = job.context.parent
    kept = {"base": job.arguments.get("BASE", ""), "containers": [*_containers()]}
    files.write_text(folder / _JOURNAL, json.dumps(kept))
    with tempfile.TemporaryDirectory(dir=folder, prefix=files.TEMP_PREFIX) as scratch:
        try:
            process.run(argv, prefix="buildah", env={**os.environ, "TMPDIR": scratch})
        finally:
            clean(folder)


def _docker(job: Job) -> None:
    argv = ["docker", "build", "--network", "none", "--progress", "plain"]
    env = {**os.environ, "DOCKER_BUILDKIT": "1"}
    process.run([*argv, *job.words()], prefix="docker", env=env)


def store(engine: Engine, tag: str, folder: Path) -> None:
    """Write an image of the engine as the layout ``image`` in a folder."""
    name = tag.rpartition(":")[2]
    with console.step(f"write {tag}"):
        if engine == "buildah":
            target = f"oci:{folder / 'image'}:{name}"
            env = {**os.environ, "TMPDIR": str(folder)}
            process.run(["buildah", "push", tag, target], prefix="buildah", env=env)
        else:
            saved = folder / "saved.tar"
            process.run(["docker", "save", "--output", saved, tag], prefix="docker")
            words = [f"docker-archive:{saved.name}", f"oci:image:{name}"]
            process.run(["skopeo", "copy", *words], prefix="skopeo", cwd=folder)
            saved.unlink()


def exists(engine: Engine, tag: str) -> bool:
    """Whether the engine has an image of this name."""
    return output(engine, "inspect", "--type", "image", tag) is not None


def storage(engine: Engine) -> Path | None:
    """Return the folder in which the engine keeps images, as far as it says so."""
    form = "{{.store.GraphRoot}}" if engine == "buildah" else "{{.DockerRootDir}}"
    found = output(engine, "info", "--format", form)
    return Path(found) if found and Path(found).is_dir() else None


def clean(folder: Path) -> None:
    """Remove the working containers of buildah's last build of a context in a folder.

    Those that were not there before it, made from its base or from an image without a
    name, as its steps are.
    """
    journal = folder / _JOURNAL
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        kept = json.loads(journal.read_text(encoding="utf-8"))
        for name, image in _containers().items():
            known = ("", "scratch", "<none>", kept["base"])
            if name not in kept["containers"] and image in known:
                output("buildah", "rm", name)
    journal.unlink(missing_ok=True)


def _containers() -> dict[str, str]:
    """Return buildah's working containers, with the image each is made from."""
    form = "{{.ContainerID}} {{.ImageName}}"
    said = output("buildah", "containers", "--all", "--notruncate", "--format", form)
    rows = (line.partition(" ") for line in (said or "").splitlines())
    return {name: image.strip() for name, _, image in rows}


def find(name: str | None, arch: Arch) -> Engine:
    """Return the engine called ``name``, else the first that can be used."""
    emulator = Path(f"/proc/sys/fs/binfmt_misc/qemu-{arch}")
    if arch != this_machine() and not emulator.exists():
        raise MissingToolError(
            f"an image for {arch} cannot be built here: its programs do not run",
            "install an emulator: sudo apt-get install qemu-user-static",
        )
    if name is not None and name not in ENGINES:
        raise PatchsetError(
            f"{name[:50]!r} is no engine", f"there are {', '.join(ENGINES)}"
        )
    reasons = []
    for candidate in ENGINES:
        if name in (None, candidate):
            if reason := _unusable(candidate):
                reasons.append(f"{candidate} {reason}")
            else:
                return candidate
    raise MissingToolError(
        "; ".join(reasons), "install an engine: sudo apt-get install buildah"
    )


def _unusable(engine: Engine) -> str | None:
    """Say why an engine cannot be used."""
    if shutil.which(engine) is None:
        return "is not installed"
    if engine == "docker" and output("docker", "buildx", "version") is None:
        return "has no buildx"
    if engine == "docker" and output("docker", "info") is None:
        return "has a daemon that does not answer"
    return None


def output(*argv: str) -> str | None:
    """Return what a program printed; None when it failed or did not end in a minute."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
