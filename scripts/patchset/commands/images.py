# SPDX-License-Identifier: Apache-2.0
"""``build-image``, ``publish`` and ``reproduce``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import get_args

import click

from patchset import console
from patchset.commands.options import from_dir_option, release_argument, target_option
from patchset.errors import (
    EXIT_FAILED,
    MissingToolError,
    UnavailableError,
    UsageError,
)
from patchset.image import base as bases
from patchset.image import debian, engine, layer, skopeo, space, thin
from patchset.image import publish as publishing
from patchset.image.reproduce import reproduce
from patchset.image.skopeo import Reference
from patchset.release import Arch, Release, Target, load, this_machine
from patchset.series.patched_release import PatchedRelease

#: Models that the patches are for, small enough for one card and for a CPU.
_MODELS: dict[Target, str] = {"cuda": "Qwen/Qwen3.5-9B", "cpu": "Qwen/Qwen3.5-0.8B"}
#: As docs/deploying.md has them.
_FLAGS = "--enable-auto-tool-choice --tool-call-parser qwen3_coder"
_FLAGS += " --reasoning-parser qwen3 --no-enable-prefix-caching"
_MORE: dict[Target, str] = {
    "cuda": "--language-model-only --max-model-len 32768 --max-num-seqs 8 "
    """--speculative-config '{"method":"mtp","num_speculative_tokens":3}'""",
    "cpu": "--enforce-eager --dtype bfloat16 --max-model-len 8192",
}


def _gigabytes(target: Target) -> str:
    size = space.with_headroom(space.BUILD[target] + space.STORAGE[target])
    return f"{size / 1e9:.0f} GB for {target}"


@click.command(
    "build-image",
    epilog="Free disk for an image on Debian packages, headroom included: "
    f"{_gigabytes('cuda')}, {_gigabytes('cpu')}, in the build folder "
    "(PATCHSET_BUILD_DIR) and the engine's storage together.",
)
@release_argument
@target_option
@click.option(
    "--arch",
    "chosen",
    type=click.Choice(get_args(Arch)),
    help="The processor that the image is for. Default: this machine's; of a thin "
    "image, all that base and release are for.",
)
@click.option(
    "--base",
    metavar="official|debian|REF",
    help="official: the patched files as one layer on the release's official image. "
    "REF: the same on another image that has the release. debian: a whole image, built "
    "here from Debian packages. Default: official, or debian if no registry answers.",
)
@click.option(
    "--site",
    help="Where REF has its Python packages.",
    show_default=f"{layer.SITES['cuda']} for cuda, {layer.SITES['cpu']} for cpu",
)
@click.option(
    "--base-version",
    help="The version of vLLM that REF's .dist-info names; default: the release's.",
)
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(engine.ENGINES),
    help="What builds an image on Debian packages; default: the first installed.",
)
@click.option(
    "--fresh-base", is_flag=True, help="Make the base again, with Debian's updates."
)
@from_dir_option
def build_image_command(
    release: str | None,
    target: Target,
    chosen: Arch | None,
    base: str | None,
    site: str | None,
    base_version: str | None,
    engine_name: str | None,
    fresh_base: bool,
) -> None:
    """Build a container image of RELEASE with its patches.

    The result is a folder in build/images: the OCI layout "image", its bill of
    materials and its provenance. The last lines say how to publish or run it.
    """
    patched = PatchedRelease(load(release))
    if base != "debian" and (engine_name or fresh_base):
        if base is not None:
            raise UsageError("--engine and --fresh-base are for --base debian")
        base = "debian"
    if base == "debian" and (site or base_version):
        raise UsageError("--site and --base-version are for --base REF")
    archs = (chosen,) if chosen else get_args(Arch)
    if base is None:
        base = "official"
        try:
            skopeo.raw(bases.official(patched.pin, target))
        except (UnavailableError, MissingToolError, UsageError) as error:
            console.note(f"no official image ({error.message}): building --base debian")
            base = "debian"
    if base == "debian":
        arch = chosen or this_machine()
        which = engine.find(engine_name, arch)
        whole = debian.build(patched, target, arch, which, fresh=fresh_base)
        _show(whole.folder, whole.digest, patched.pin, target)
        console.result(f"run     {_run(which, whole.tag, target)}")
        return
    reference = (
        bases.official(patched.pin, target)
        if base == "official"
        else skopeo.parse(base)
    )
    named = base != "official" or site is not None or base_version is not None
    made = _thin(patched, target, archs, reference, site, base_version, named)
    for name, (digest, size) in made.layers.items():
        console.result(f"layer   {name} {size} bytes {digest}")
    _show(made.folder, made.digest, patched.pin, target)


def _thin(
    patched: PatchedRelease,
    target: Target,
    archs: tuple[Arch, ...],
    reference: Reference,
    site: str | None,
    version: str | None,
    named: bool,
) -> thin.Thin:
    where = layer.place(patched.pin, target, site, version)
    with console.step(f"look at {reference}"):
        found = skopeo.look(reference)
    if not reference.digest:
        console.note(f"  {reference} is a tag; today it is {found.digest}")
    wheels = thin.wheels(patched, target, found, archs)
    if named:
        bases.check(reference, found, where, wheels)
    name = str(reference.tagged(reference.tag) if reference.tag else reference)
    out = thin.folder(patched.pin, target)
    return thin.build(patched, target, wheels, found, name, where, out)


def _show(folder: Path, digest: str, release: Release, target: Target) -> None:
    words = ["nox", "-s", "publish", "--", "REGISTRY/NAME", release.name]
    words += ["--target", target] if target != "cuda" else []
    console.result(
        f"image   {folder}", f"digest  {digest}", f"publish {' '.join(words)}"
    )


def _run(which: engine.Engine, tag: str, target: Target) -> str:
    """Return a command that serves a model; buildah's images are podman's too."""
    argv = ["docker" if which == "docker" else "podman", "run", "--rm"]
    argv += ["--publish", "127.0.0.1:8000:8000"]
    if target == "cuda":
        # podman finds GPUs through CDI (nvidia-ctk cdi generate).
        docker = which == "docker"
        argv += ["--gpus", "all"] if docker else ["--device", "nvidia.com/gpu=all"]
    # vLLM's workers talk through shared memory.
    argv += ["--ipc", "host", "--volume", "vllm-models:/home/vllm/.cache/huggingface"]
    argv += [tag, _MODELS[target], "--served-model-name", "qwen"]
    return f"{shlex.join(argv)} {_FLAGS} {_MORE[target]}"


@click.command(
    "publish",
    epilog="Logins are skopeo's: skopeo login REGISTRY, or REGISTRY_AUTH_FILE. Only a "
    "registry on this machine is spoken to over http.",
)
@click.argument("repository", metavar="REGISTRY/NAME")
@release_argument
@target_option
@click.option(
    "--image",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder that build-image made; default: the thin one, else the whole one.",
)
@click.option(
    "--sign/--no-sign",
    "sign",
    default=None,
    help="Sign with cosign, and attach the bill of materials and the provenance; "
    "default: if --key is given.",
)
@click.option(
    "--key", envvar="COSIGN_KEY", help="A key file or KMS address of cosign's."
)
def publish_command(
    repository: str,
    release: str | None,
    target: Target,
    image: Path | None,
    sign: bool | None,
    key: str | None,
) -> None:
    """Publish the image of RELEASE that build-image made.

    Tags: <release>-mtp.<n>, which is never moved; <release> and, for the default
    release, latest, which are. An interrupted push goes on when the command is run again.
    """
    patched = PatchedRelease(load(release))
    folder = image or _built(patched.pin, target)
    done = publishing.publish(
        skopeo.parse(repository),
        folder,
        patched,
        target,
        sign=key is not None if sign is None else sign,
        key=key,
    )
    name = skopeo.parse(repository).repository
    said = "image, provenance and bill of materials" if done.signed else "not run"
    console.result(
        f"image   {folder}",
        f"cosign  {said}",
        *(f"tag     {name}:{tag}" for tag in done.tags),
        f"digest  {name}@{done.digest}",
    )


def _built(release: Release, target: Target) -> Path:
    """Return the folder of a release's image in the build folder."""
    places = [thin.folder(release, target)]
    places += [debian.folder(release, target, arch) for arch in get_args(Arch)]
    found = [place for place in places if place.is_dir()]
    if not found:
        raise UsageError(
            f"no image of {release.name} for {target} was built here",
            f"nox -s build-image -- {release.name} --target {target} makes one",
        )
    if found[0] != places[0] and len(found) > 1:
        raise UsageError("images for two architectures were built", "name one: --image")
    return found[0]


@click.command("reproduce")
@click.argument("image", metavar="REGISTRY/NAME:TAG")
@from_dir_option
def reproduce_command(image: str) -> None:
    """Build a published image again from what its labels say, and compare digests.

    Exit status 1, with what differs, if the digest is another.
    """
    report = reproduce(skopeo.parse(image))
    if report.same:
        console.result(f"same     {report.rebuilt}")
        return
    console.result(
        *(f"DIFFERS  {line}" for line in report.differences),
        f"published {report.published}",
        f"here      {report.rebuilt or 'not built: its inputs differ'}",
    )
    sys.exit(EXIT_FAILED)
