# SPDX-License-Identifier: Apache-2.0
"""``build-image``"""

from __future__ import annotations

import platform
from typing import get_args

import click
from click.core import ParameterSource

from patchset.base import console
from patchset.base.errors import UsageError
from patchset.base.release import Arch, EngineName, Target, load
from patchset.commands.options import arch_option, from_dir_option, release_argument, target_option
from patchset.image import build, engine, layer, run_hint, source, space, thin
from patchset.image.engine import ENGINES
from patchset.series.patched_release import PatchedRelease

_GB = 1_000_000_000


@click.command(
    epilog=f"Free disk while it is made: {(space.BUILD['cuda'] + space.STORAGE['cuda']) // _GB} GB for cuda, "
    f"{(space.BUILD['cpu'] + space.STORAGE['cpu']) // _GB} GB for cpu, in the build folder (PATCHSET_BUILD_DIR) and the "
    "engine's storage together; more where the engine stores with vfs. CONTAINERS_STORAGE_CONF and BUILDAH_ISOLATION "
    "(default here: chroot) are respected."
)
@release_argument
@target_option
@arch_option
@click.option(
    "--mode",
    type=click.Choice(["overlay", "source"]),
    default="overlay",
    show_default=True,
    help="overlay: the official wheel's binaries. source: everything compiled, by vLLM's own Dockerfile over the patched "
    "tree, with docker buildx (docker/source/docker-bake.hcl).",
)
@click.option("--print", "print_only", is_flag=True, help="With --mode source: say what would be built.")
@click.option(
    "--base",
    "base_ref",
    default=build.DEBIAN,
    show_default=True,
    metavar="debian|REF",
    help="debian: a base made here from Debian packages. REF: an image in a registry that has the release; the "
    "patched files become one layer on it, without an engine. official: the release's official image.",
)
@click.option(
    "--site",
    help=f"Where the base of a thin image has its Python packages; default: {layer.SITES['cuda']} for cuda, "
    f"{layer.SITES['cpu']} for cpu.",
)
@click.option(
    "--base-version",
    help="The version of vLLM as its .dist-info in the base says it; default: the release's.",
)
@click.option(
    "--look-into-base",
    "look_inside",
    is_flag=True,
    help="Read the layers of a thin image's base, without keeping them, to see that it has the release at that place.",
)
@click.option(
    "--engine",
    "engine_name",
    type=click.Choice(ENGINES),
    help="The container engine; default: the first that is installed.",
)
@click.option(
    "--tag", help="The image's name in the engine; default: vllm-mtp-patches:<release>-mtp.<n>-<target>."
)
@click.option("--fresh-base", is_flag=True, help="Make the base again, with Debian's updates of today.")
@from_dir_option
@click.pass_context
def command(
    context: click.Context,
    release: str | None,
    target: Target,
    arch: Arch,
    mode: str,
    print_only: bool,
    base_ref: str,
    site: str | None,
    base_version: str | None,
    look_inside: bool,
    engine_name: EngineName | None,
    tag: str | None,
    fresh_base: bool,
) -> None:
    """Build a container image of RELEASE with its patches. The last lines are size, digest and how to run or publish it.

    The result is build/images/<release>-<target>-<arch>.oci.tar and a tag in the engine. Dependencies are those
    of patches/<release>/requirements.<target>.lock, by sha256; everything is downloaded and verified here, and
    installed without a network.
    """
    patched = PatchedRelease(load(release))
    if mode == "source":
        made_context = source.prepare(patched, target, tag)
        console.result(f"context {made_context.folder}")
        if shown := source.bake(made_context, target, print_only=print_only):
            console.result(shown)
        else:
            console.result(f"image   {made_context.variables['TAG']}")
        return
    base_ref = patched.pin.image if base_ref == "official" else base_ref
    if base_ref != build.DEBIAN:
        if engine_name or tag or fresh_base:
            raise UsageError(
                "--engine, --tag and --fresh-base are for an image on Debian: a layer on --base REF needs no engine"
            )
        named = context.get_parameter_source("arch") is not ParameterSource.DEFAULT
        _thin(thin.build(
            patched, target, [arch] if named else get_args(Arch), base_ref,
            site=site, version=base_version, look_inside=look_inside,
        ))  # fmt: skip
        return
    if site or base_version or look_inside:
        raise UsageError("--site, --base-version and --look-into-base are for a layer on --base REF")
    made = build.build(
        patched,
        target,
        arch,
        engine.find(engine_name, arch=arch, machine=platform.machine()),
        tag=tag,
        fresh_base=fresh_base,
    )
    unpacked = f", unpacked {made.unpacked / _GB:.2f} GB" if made.unpacked else ""
    console.result(f"image   {made.tag} in {made.engine.name}")
    console.result(f"archive {made.archive.path}")
    console.result(f"size    compressed {made.archive.size / _GB:.2f} GB{unpacked}")
    console.result(f"digest  {made.archive.digest}")
    console.result(f"run     {run_hint.command(made.engine, made.tag, target)}")


def _thin(made: thin.Thin) -> None:
    console.result(f"archive {made.path}")
    for arch, (digest, size) in made.layers.items():
        console.result(f"layer   {arch} {size} bytes {digest}")
    console.result(f"digest  {made.digest}")
    console.result(
        f"publish nox -s publish -- REGISTRY/NAME {made.inputs.release} --target {made.inputs.target} --thin"
    )
