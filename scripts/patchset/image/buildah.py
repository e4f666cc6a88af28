# SPDX-License-Identifier: Apache-2.0
"""buildah, which runs the steps of a whole image's Dockerfile."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from patchset import console, files, process
from patchset.errors import MissingToolError, PatchsetError

#: Beside a context that is built: the working containers that were there before.
_JOURNAL = ".containers"
#: The images of the containers in which buildah runs a build's steps.
_OF_STEPS = ("", "scratch", "<none>")


def build(
    folder: Path, context: Path, tag: str, epoch: int, options: Sequence[str] = ()
) -> None:
    """Build the Dockerfile of a folder; no step can reach a network, or is told how to.

    Args:
        folder: Where ``clean`` finds, after a kill, what containers were there before.
        context: The Dockerfile's folder.
        tag: The image's name.
        epoch: The time that everything gets, in seconds since 1970.
        options: More words for ``buildah bud``.
    """
    # chroot isolation works everywhere, in containers and without privileges too. It
    # has no network of its own, hence each installer in the Dockerfile is told to stay
    # offline.
    isolation = os.environ.get("BUILDAH_ISOLATION", "chroot")
    network = "host" if isolation == "chroot" else "none"
    argv = ["buildah", "bud", "--isolation", isolation, "--network", network]
    argv += ["--layers", "--format", "oci", "--pull=false", "--http-proxy=false"]
    argv += ["--timestamp", str(epoch), f"--build-arg=SOURCE_DATE_EPOCH={epoch}"]
    argv += [*options, "--tag", tag, str(context)]
    files.write_text(folder / _JOURNAL, "\n".join(_containers()))
    with console.step(f"build {tag}"), files.scratch(folder) as scratch:
        env = {**os.environ, "TMPDIR": str(scratch)}
        try:
            process.run(argv, prefix="buildah", env=env)
        finally:
            clean(folder)


def probe(folder: Path) -> None:
    """Build an image of one small file: shows what else fails at a build's end."""
    name = "localhost/vllm-mtp-patches-probe"
    with files.scratch(folder) as context:
        (context / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
        build(folder, context, name, 0)
    output("buildah", "rmi", name)


def labels(tag: str) -> dict[str, str]:
    """Return the labels of an image in the store; none without one."""
    said = output("buildah", "inspect", "--type", "image", tag)
    return json.loads(said)["OCIv1"]["config"].get("Labels") or {} if said else {}


def store(tag: str, folder: Path) -> None:
    """Write an image as the layout ``image`` in a folder."""
    with console.step(f"write {tag}"):
        target = f"oci:{folder / 'image'}:{tag.rpartition(':')[2]}"
        env = {**os.environ, "TMPDIR": str(folder)}
        process.run(["buildah", "push", tag, target], prefix="buildah", env=env)


def clean(folder: Path) -> None:
    """Remove the working containers of the last build of a context in a folder.

    Those of its steps that were not there before it.
    """
    journal = folder / _JOURNAL
    if journal.is_file():
        before = journal.read_text(encoding="utf-8").splitlines()
        for name, image in _containers().items():
            if name not in before and image in _OF_STEPS:
                output("buildah", "rm", name)
        journal.unlink()


def _containers() -> dict[str, str]:
    """Return the working containers, with the image each is made from."""
    form = "{{.ContainerID}} {{.ImageName}}"
    said = output("buildah", "containers", "--all", "--notruncate", "--format", form)
    rows = (line.partition(" ") for line in (said or "").splitlines())
    return {name: image.strip() for name, _, image in rows}


def storage() -> Path:
    """Return the folder in which images are kept.

    Raises:
        MissingToolError: buildah is not installed, or does not work here.
    """
    argv = ["buildah", "info", "--format", "{{.store.GraphRoot}}"]
    if shutil.which("buildah") is None:
        argv = ["podman", "info", "--format", "{{.Store.GraphRoot}}"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingToolError(
            f"{argv[0]} does not work here: {error}",
            "install it: sudo apt-get install buildah",
        ) from error
    if done.returncode or not done.stdout.strip():
        raise PatchsetError(
            f"{argv[0]} does not work here: {process.end_of(done.stderr)}",
            f"{argv[0]} info must work; see what it says",
        )
    return Path(done.stdout.strip())


def output(*argv: str) -> str | None:
    """Return what a program printed; None when it failed or did not end in a minute."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
