# SPDX-License-Identifier: Apache-2.0
"""What is made of a release: ``build-wheel``, ``verify``, ``build-image``, ``publish``, ``reproduce``."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource

from patchset import console, files, paths
from patchset.attest import attestation, inputs
from patchset.commands import options
from patchset.commands.options import FILE, FOLDER, from_dir_option, release_argument, target_option
from patchset.errors import EXIT_FAILED, PatchsetError, UsageError
from patchset.image import build, engine, layer, run_hint, source, space, thin
from patchset.publish import push, sign
from patchset.publish.reproduce import reproduce
from patchset.registry.layout import Layout
from patchset.registry.reference import parse
from patchset.release import Arch, EngineName, Release, Target, load
from patchset.results import totals
from patchset.series.patched_release import PatchedRelease
from patchset.source import from_source
from patchset.source.build import Options
from patchset.wheel import overlay
from patchset.wheel.verify import verify

_GB = 1_000_000_000
_MODES = click.Choice(["overlay", "source"])


@click.command("build-wheel")
@release_argument
@target_option
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="x86_64|aarch64|9.0",
    help="The processor that the wheel is for; default: this machine's. With --mode source also the CUDA architectures "
    "to compile for, as in --arch 9.0 or --arch '8.0;9.0'; default: 9.0.",
)
@click.option(
    "--mode",
    type=_MODES,
    default="overlay",
    help="overlay: the official wheel with files replaced. source: the same, with modules that are compiled here.",
)
@click.option(
    "--modules",
    metavar="NAME,…",
    help="With --mode source: the modules to compile, the others are the official wheel's; all for every one. "
    "Default: those that the series changes; when it changes none, vLLM's own, without those of other projects "
    "(flash-attention, FlashMLA, DeepGEMM, …).",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="With --mode source: compilers at a time. Default: as many as processors and free memory allow.",
)
@click.option(
    "--third-party",
    type=FOLDER,
    help="With --mode source: a folder with checkouts, each named as in patches/RELEASE/third-party.toml.",
)
@click.option(
    "--python",
    type=FILE,
    help="With --mode source: compile with the torch and CMake of this Python's environment, and with CUDA_HOME, "
    "instead of the locked ones.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The folder for the wheel.")
@from_dir_option
def build_wheel_command(
    release: str | None,
    target: Target,
    archs: tuple[str, ...],
    mode: str,
    modules: str | None,
    jobs: int | None,
    third_party: Path | None,
    python: Path | None,
    out: Path | None,
) -> None:
    """Build the patched wheel of RELEASE. The last lines are its path, size and sha256.

    An overlay takes seconds and no compiler, and is byte for byte repeatable. A patch that a mode cannot carry is
    refused by name.

    Mode source needs g++, Python's headers and 12 GB of disk space, and no CUDA: the toolkit comes from the package
    index, as patches/RELEASE/requirements.build.lock says. It resumes where an earlier run was interrupted, and keeps
    what it compiles in ccache when that is installed (CCACHE_DIR, default build/ccache).
    """
    patched = PatchedRelease(load(release))
    processors: list[Arch] = [name for name in get_args(Arch) if name in archs]
    cuda_archs = [word for word in archs if word not in processors]
    if len(processors) > 1:
        raise UsageError(f"one wheel is for one processor, not for {' and '.join(processors)}")
    if unknown := [word for word in cuda_archs if not word[:1].isdigit()]:
        raise UsageError(
            f"there is no architecture {unknown[0]}", "x86_64 or aarch64; for CUDA a number, as in 9.0"
        )
    arch = processors[0] if processors else options.this_machine()
    if mode == "source":
        names = tuple(filter(None, modules.split(","))) if modules else None
        chosen = Options(";".join(cuda_archs) or Options.archs, names, jobs, third_party, python)
        wheel = from_source.build(patched, target, arch, chosen, out=out)
    elif cuda_archs or modules or jobs or third_party or python:
        raise UsageError(
            "CUDA architectures, --modules, --jobs, --third-party and --python are for --mode source"
        )
    else:
        wheel = overlay.build(patched, target, arch, out=out)
    console.result(
        f"wheel   {wheel}",
        f"size    {wheel.stat().st_size / 1e6:.1f} MB",
        f"sha256  {files.sha256_file(wheel)}",
    )


@click.command("verify")
@click.argument("what", required=False, metavar="[FILE|REGISTRY/NAME:TAG]")
@click.option(
    "--allow-compiled",
    is_flag=True,
    help="Take modules that the wheel's builder compiled on that builder's word.",
)
@click.option("--key", help="Of an image: who must have signed it, as a public key of cosign.")
@click.option("--identity", metavar="REGEXP", help="Of an image: the workflow that must have signed it.")
@click.option("--issuer", metavar="URL", help="Of an image: who vouches for that identity.")
@from_dir_option
def verify_command(
    what: str | None, allow_compiled: bool, key: str | None, identity: str | None, issuer: str | None
) -> None:
    """Prove that the wheel FILE is the official files plus the series, file by file and byte by byte; or that a published
    image has its attestations, signed by whom you name.

    Without an argument it is the wheel that was built last. Exit status 1, with the name of each file that is
    something else, when it is not.
    """
    if what is None:
        built = sorted(paths.wheels_dir().glob("*/*/vllm-*.whl"), key=lambda wheel: wheel.stat().st_mtime)
        if not built:
            raise UsageError("no wheel was built here", "nox -s build-wheel makes one; or name a FILE")
        what = str(built[-1])
    file = Path(what)
    if not file.exists() and file.suffix != ".whl":
        if "/" not in what:
            raise UsageError(
                f"{what} is neither a file nor REGISTRY/NAME:TAG",
                "nox -s build-wheel makes a wheel and prints its path",
            )
        console.result(*sign.verify(what, key=key, identity=identity, issuer=issuer))
        return
    if not file.is_file():
        raise UsageError(f"there is no file {what}", "nox -s build-wheel makes one and prints its path")
    report = verify(file, allow_compiled=allow_compiled)
    counts = f"{len(report.deviations)} deviations from official {report.release} {report.target} + series"
    console.result(
        f"{len(report.official)} files are the official wheel's",
        *(f"patched  {name}" for name in report.patched),
        *(f"removed  {name}" for name in report.removed),
        *(f"module   {name}: {origin}" for name, origin in sorted(report.modules.items())),
        *(f"made     {name}: {rule}" for name, rule in report.made.items()),
        *(f"WRONG    {deviation}" for deviation in report.deviations),
        f"{report.wheel}: {counts}",
    )
    sys.exit(EXIT_FAILED if report.deviations else 0)


@click.command(
    "build-image",
    epilog=f"Free disk while it is made: {(space.BUILD['cuda'] + space.STORAGE['cuda']) // _GB} GB for cuda, "
    f"{(space.BUILD['cpu'] + space.STORAGE['cpu']) // _GB} GB for cpu, in the build folder (PATCHSET_BUILD_DIR) and the "
    "engine's storage together; more where the engine stores with vfs. CONTAINERS_STORAGE_CONF and BUILDAH_ISOLATION "
    "(default here: chroot) are respected.",
)
@release_argument
@target_option
@options.arch_option
@click.option(
    "--mode",
    type=_MODES,
    default="overlay",
    help="overlay: the official wheel's binaries. source: everything compiled, by vLLM's own Dockerfile over the patched "
    "tree, with docker buildx (docker/source/docker-bake.hcl).",
)
@click.option("--print", "print_only", is_flag=True, help="With --mode source: say what would be built.")
@click.option(
    "--base",
    default=build.DEBIAN,
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
    type=click.Choice(engine.ENGINES),
    help="The container engine; default: the first that is installed.",
)
@click.option(
    "--tag", help="The image's name in the engine; default: vllm-mtp-patches:<release>-mtp.<n>-<target>."
)
@click.option("--fresh-base", is_flag=True, help="Make the base again, with Debian's updates of today.")
@from_dir_option
@click.pass_context
def build_image_command(
    context: click.Context,
    release: str | None,
    target: Target,
    arch: Arch,
    mode: str,
    print_only: bool,
    base: str,
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
        prepared = source.prepare(patched, target, tag)
        console.result(f"context {prepared.folder}")
        shown = source.bake(prepared, target, print_only=print_only)
        console.result(shown or f"image   {prepared.variables['TAG']}")
    elif base != build.DEBIAN:
        if engine_name or tag or fresh_base:
            raise UsageError(
                "--engine, --tag and --fresh-base are for an image on Debian: a layer on --base REF needs no engine"
            )
        named = context.get_parameter_source("arch") is not ParameterSource.DEFAULT
        layered = thin.build(
            patched,
            target,
            [arch] if named else get_args(Arch),
            patched.pin.image if base == "official" else base,
            site=site,
            version=base_version,
            look_inside=look_inside,
        )
        console.result(
            f"archive {layered.path}",
            *(f"layer   {name} {size} bytes {digest}" for name, (digest, size) in layered.layers.items()),
            f"digest  {layered.digest}",
            f"publish nox -s publish -- REGISTRY/NAME {patched.pin.name} --target {target} --thin",
        )
    elif site or base_version or look_inside:
        raise UsageError("--site, --base-version and --look-into-base are for a layer on --base REF")
    else:
        which = engine.find(engine_name, arch=arch, machine=platform.machine())
        made = build.build(patched, target, arch, which, tag=tag, fresh_base=fresh_base)
        unpacked = f", unpacked {made.unpacked / _GB:.2f} GB" if made.unpacked else ""
        console.result(
            f"image   {made.tag} in {made.engine.name}",
            f"archive {made.archive.path}",
            f"size    compressed {made.archive.size / _GB:.2f} GB{unpacked}",
            f"digest  {made.archive.digest}",
            f"run     {run_hint.command(made.engine, made.tag, target)}",
        )


@click.command(
    "publish",
    epilog="Logins are those of docker, podman, buildah or skopeo (auth.json, config.json, credential helpers). "
    "A registry on this machine is spoken to over http.",
)
@click.argument("repository", metavar="REGISTRY/NAME")
@release_argument
@target_option
@click.option(
    "--archive",
    "archives",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="An OCI archive of build-image; several, one for each architecture, become one image. "
    "Default: the thin one where it is built, else the full ones.",
)
@click.option("--thin", "only_thin", is_flag=True, help="Publish the thin image, and nothing else.")
@click.option(
    "--sign/--no-sign", "signed", default=None, help="Sign with cosign; default: when --key is given."
)
@click.option("--key", envvar="COSIGN_KEY", help="What cosign signs with: a file or a KMS address.")
@click.option(
    "--record", is_flag=True, help="Write published/<tag>.inputs.lock into the checkout, to be committed."
)
def publish_command(
    repository: str,
    release: str | None,
    target: Target,
    archives: tuple[Path, ...],
    only_thin: bool,
    signed: bool | None,
    key: str | None,
    record: bool,
) -> None:
    """Publish the image of RELEASE that build-image made, with its bill of materials, provenance and inputs.lock.

    Tags: <release>-mtp.<n>, which is refused when it names another image already; <release> and, for the default
    release, latest, which are moved. An interrupted push goes on when the command is run again.
    """
    pinned = load(release)
    goal = parse(repository)
    if old := totals.stale(pinned):
        raise PatchsetError(
            "the results of this release are not of its series and suites as they stand:\n  "
            + "\n  ".join(old),
            "run these sessions again for this release, with --results, and commit results/",
        )
    chosen = archives or _built(pinned, target, only_thin)
    signer = sign.signer(key=key, wanted=signed)
    locks = {archive: _inputs(archive, pinned, target) for archive in chosen}
    done = push.publish(goal, list(chosen), push.tags(pinned, target), signer)
    console.result(
        "parts   " + ", ".join(f"{count} {how}" for how, count in sorted(done.parts.items())),
        *(f"attest  {title} {digest}" for title, digest in done.attached.items()),
        *(["signed  by cosign: image, provenance and bill of materials"] if signer else []),
        *(f"tag     {goal.repository}:{tag}" for tag in done.tags),
        f"digest  {goal.repository}@{done.digest}",
    )
    for archive, content in locks.items() if record else ():
        arch = "" if len(locks) == 1 else f".{archive.name.removesuffix('.oci.tar').rpartition('-')[2]}"
        place = paths.project_root() / "published" / f"{done.tags[0]}{arch}.inputs.lock"
        files.write_text(place, content.decode())
        console.result(f"record  {place}")


def _built(release: Release, target: Target, only_thin: bool) -> list[Path]:
    """The archives of a release in the build folder."""
    small = thin.archive_path(release, target)
    if small.is_file():
        return [small]
    full = [paths.images_dir() / f"{release.name}-{target}-{arch}.oci.tar" for arch in get_args(Arch)]
    found = [place for place in full if place.is_file()]
    if only_thin or not found:
        raise UsageError(
            f"there is no {'thin ' if only_thin else ''}image of {release.name} for {target} in {paths.images_dir()}",
            f"nox -s build-image -- {release.name} --target {target}{' --base official' if only_thin else ''} makes it",
        )
    return found


def _inputs(archive: Path, release: Release, target: Target) -> bytes:
    """The archive's inputs.lock; it must be of what the tags will say, made from this checkout."""
    content = attestation.read(Layout(archive))[attestation.INPUTS]
    made = inputs.read(content, str(archive))
    if (made.release, made.target, made.version) != (release.name, target, release.built_version(target)):
        raise PatchsetError(
            f"{archive.name} is {made.version} for {made.target}, not {release.built_version(target)} for {target}",
            "build the image again, or name the release that it is of",
        )
    now = inputs.checkout_files(PatchedRelease(release), target, made.kind)
    if different := inputs.differing(made.files, now):
        raise PatchsetError(
            f"{archive.name} was not made from this checkout: {'; '.join(different[:5])}",
            "build the image again",
        )
    return content


@click.command("reproduce")
@click.argument("what", metavar="REGISTRY/NAME:TAG|TAG")
@from_dir_option
def reproduce_command(what: str) -> None:
    """Make a published image again from its inputs.lock, and compare digests.

    A bare TAG takes published/TAG.inputs.lock. Exit status 1, with the name of each input or file that differs, when
    the digest is another.
    """
    reports = reproduce(what)
    for report in reports:
        console.result(*(f"DIFFERS  {line}" for line in report.differences))
        if report.same:
            console.result(f"same     {report.rebuilt}")
            continue
        console.result(
            *(f"tool     scripts/patchset/{line}" for line in report.notes),
            f"published {report.published}",
            f"here      {report.rebuilt or 'not made: its inputs differ'}",
        )
    sys.exit(0 if all(report.same for report in reports) else EXIT_FAILED)
