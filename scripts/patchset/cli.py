# SPDX-License-Identifier: Apache-2.0
"""``python -m patchset COMMAND``: the commands, and how they are found.

A command imports what it needs when it runs, so that each starts quickly.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchset import console, files, git, paths, run_command
from patchset.errors import (
    EXIT_DECIDE,
    EXIT_FAILED,
    UsageError,
)
from patchset.release import Arch, Target, load, this_machine

if TYPE_CHECKING:
    from patchset.inputs.lock import Use
    from patchset.series.refresh import Outcome

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

release_argument = click.argument("release", required=False, metavar="[RELEASE]")
arch_option = click.option(
    "--arch",
    type=click.Choice(["x86_64", "aarch64"]),
    default=this_machine,
    show_default="this machine's",
    help="The processor that the wheel is for.",
)
target_option = click.option(
    "--target",
    type=click.Choice(["cuda", "cpu"]),
    default="cuda",
    help="What vLLM computes on.",
)


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        words = ("describe", "--tags", "--always", "--dirty")
        console.result(f"vllm-mtp-patches {git.text(paths.project_root(), *words)}")
        context.exit()


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the tag or commit of this checkout.",
)
def cli() -> None:
    """Build patched vLLM wheels and images from pinned releases.

    Exit status: 0 done; 1 failed or at fault; 2 wrong command line; 3 somebody must
    decide, as at a conflict; 130 interrupted.
    """


@cli.command("lint")
def lint_command() -> None:
    """Check the pins, series and diffs below patches/.

    Needs no network and takes a second. Exit status 1, and a line for each fault.
    """
    from patchset.series.lint import lint

    faults = lint()
    console.result(*faults)
    console.note(f"lint: faults: {len(faults)}" if faults else "lint: no faults")
    sys.exit(EXIT_FAILED if faults else 0)


@cli.command("apply")
@release_argument
@click.option("--discard", is_flag=True, help="Throw away work that no diff has.")
def apply_command(release: str | None, discard: bool) -> None:
    """Make the patched tree of RELEASE: its source, and a commit for each patch.

    The tree is build/trees/RELEASE/patched. Patches apply by git am, at an offset if
    need be and never with fuzz, and the series must make what patched-files.sha256
    pins. Exit status 3 for a conflict, which git am waits at, and for a patch whose
    change the source has already.
    """
    from patchset.series.apply import patched_tree

    console.result(patched_tree(load(release), discard=discard))


@cli.command("refresh")
@release_argument
@click.option("--all", "everything", is_flag=True, help="Pin all releases.")
def refresh_command(release: str | None, everything: bool) -> None:
    """Write the commits of RELEASE's patched tree back as its diffs and series.

    Commit first. A commit that 'apply' made goes back to its own patch, for each
    release that shares the diff, if it fits them; a new commit becomes a new patch.
    Then patched-files.sha256, which pins what a series makes, is written; after an
    edit of patches/ by hand, --all does so for every release. Exit status 3 if a
    series does not apply.
    """
    from patchset.series.refresh import refresh

    pinned = load(release)
    _refreshed(refresh(pinned, everything=everything), pinned.name)


def _refreshed(outcome: Outcome, release: str) -> None:
    """Show what a refresh did; exit status 3 if a series does not apply."""
    console.result(*outcome.lines)
    if not outcome.lines:
        console.note("nothing changed")
    for error in outcome.broken.values():
        console.show_error(error)
    if outcome.broken:
        sys.exit(EXIT_DECIDE)
    if outcome.lines:
        console.note(f"next: nox -s proofs -- {release}")


@cli.command("export")
@release_argument
@click.option(
    "--mails",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write numbered mails for git am and quilt into DIR instead.",
)
def export_command(release: str | None, mails: Path | None) -> None:
    """Write one patch of RELEASE's whole series, for an installed vLLM or an image.

    build/export/RELEASE has the patch, the sums of the files before and after,
    patch-vllm.sh, which applies and undoes it, and a Dockerfile.
    """
    from patchset.series import export

    if mails:
        console.result(*export.mails(load(release), mails))
    else:
        console.result(export.export(load(release)))


@cli.command("rebase")
@click.argument("release")
@click.option(
    "--from", "old", metavar="RELEASE", help="Release to port from; else the nearest."
)
def rebase_command(release: str, old: str | None) -> None:
    """Port a series to RELEASE, newer or older: pin it, and write its patches.

    git am -3 merges each patch into the new source, in RELEASE's patched tree. A
    conflict stops it there (exit status 3): resolve it, 'git am --continue', and
    'refresh' writes the rest. A patch that the source has already is dropped, and its
    proofs must pass on the stock tree from then on. Nothing that was edited below
    patches/releases/RELEASE meanwhile is overwritten.
    """
    from patchset.image import skopeo
    from patchset.series.rebase import rebase

    _refreshed(rebase(release, old, skopeo.today), release)


@cli.command("drift")
@click.argument("target", required=False, metavar="[RELEASE|GIT-REF]")
@click.option(
    "--series",
    "name",
    metavar="RELEASE",
    help="Release whose series to try; else the default.",
)
@click.option(
    "--remote",
    metavar="URL|DIR",
    help="Repository that has the git ref; else upstream's.",
)
@click.option("--no-proofs", is_flag=True, help="Skip the proofs.")
def drift_command(
    target: str | None, name: str | None, remote: str | None, no_proofs: bool
) -> None:
    """Try the series on a source: a release, or a git ref of a repository.

    The default is the newest release on the package index. Each patch is merged as
    'rebase' does; then the proofs run on the patched and on the stock source. Exit
    status 1 if something is to be done.
    """
    from patchset.drift import drift

    faults = drift(target, load(name), remote=remote, prove=not no_proofs)
    sys.exit(EXIT_FAILED if faults else 0)


@cli.command("prove")
@click.argument("names", nargs=-1, metavar="[RELEASE]...")
@click.option("--patch", "only", multiple=True, metavar="NAME", help="This patch only.")
def prove_command(names: tuple[str, ...], only: tuple[str, ...]) -> None:
    """Run the proofs of the patches of each RELEASE (default: the default one).

    A proof must fail on the series up to its patch and pass on the whole series. Exit
    status 1, with the proof's own output, if one does not.
    """
    from patchset import proofs

    seen = [
        verdict
        for name in names or (None,)
        for verdict in proofs.prove(load(name), only=only)
    ]
    wrong = [verdict for verdict in seen if not verdict.right]
    for verdict in wrong:
        console.note(f"--- {verdict}:\n{verdict.output[-4000:]}")
    console.result(f"{len(seen) - len(wrong)} passed, {len(wrong)} failed")
    sys.exit(EXIT_FAILED if wrong else 0)


@cli.command("pin")
@click.argument("release")
def pin_command(release: str) -> None:
    """Pin RELEASE (v0.34.0) from the package index, in patches/releases/RELEASE.

    Records file name, sha256 and size of the source and of the official wheels (of
    several uploads the one with the highest build tag), the commit and the torch that
    the source names, and the official image's digest, if skopeo can ask for it.
    """
    from patchset.image import skopeo
    from patchset.inputs import pin

    console.result(pin.make(release, skopeo.today))


@cli.command("lock")
@release_argument
@click.option(
    "--target",
    type=click.Choice(["cuda", "cpu", "build"]),
    default="cuda",
    help="The image to lock for; build: the compiler's environment of --mode source.",
)
@arch_option
@click.option("--upgrade", is_flag=True, help="Take the newest versions.")
def lock_command(release: str | None, target: Use, arch: Arch, upgrade: bool) -> None:
    """Lock an image's Python packages in patches/locks/RELEASE/pylock.TARGET-ARCH.toml.

    uv resolves the official wheel's requirements for Debian 12. overrides.TARGET.txt
    beside the lock replaces requirements that the index cannot meet,
    constraints.TARGET.txt narrows others. The lock (PEP 751) has one wheel for each
    package, by sha256, and names no index.
    """
    from patchset.inputs import lock
    from patchset.series.stock_tree import stock_tree

    pinned = load(release)
    if target == "build":
        made = lock.make_build(pinned, stock_tree(pinned), arch, upgrade=upgrade)
    else:
        made = lock.make(pinned, target, arch, upgrade=upgrade)
    console.result(made)


@cli.command("build-wheel")
@release_argument
@target_option
@arch_option
@click.option(
    "--mode",
    type=click.Choice(["overlay", "source", "plugin"]),
    default="overlay",
    help="overlay: the official wheel with files replaced. source: also compile. "
    "plugin: change no file of vLLM.",
)
@click.option(
    "--modules",
    metavar="NAME,…",
    help="With --mode source: what to compile; others are the official wheel's. "
    "Default: all of vLLM's own.",
)
@click.option(
    "--cuda-archs",
    metavar="LIST",
    help="With --mode source: as TORCH_CUDA_ARCH_LIST takes them; default: 9.0.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="With --mode source: compilers at once."
)
def build_wheel_command(
    release: str | None,
    target: Target,
    arch: Arch,
    mode: str,
    modules: str | None,
    cuda_archs: str | None,
    jobs: int | None,
) -> None:
    """Build the patched wheel of RELEASE. The last lines are its path, size and sha256.

    An overlay takes seconds and no compiler, and is the same byte for byte everywhere.

    Mode source compiles with vLLM's own build backend. It needs g++, Python's headers
    and 12 GB of disk; CUDA's toolkit comes from the package index, as
    patches/locks/RELEASE/pylock.build-ARCH.toml says. An interrupted run is resumed.

    A plugin is for a stock vLLM that cannot be replaced, and covers less than the
    patches. It is one wheel for all the releases that it covers, so RELEASE does not
    matter.
    """
    from patchset.series.apply import PatchedRelease
    from patchset.wheel import overlay, plugin, source

    if mode != "source" and (modules or cuda_archs or jobs):
        raise UsageError(
            "--modules, --cuda-archs and --jobs are for --mode source",
            "add --mode source",
        )
    patched = PatchedRelease(load(release), target)
    if mode == "plugin":
        wheel = plugin.build()
    elif mode == "source":
        names = tuple(filter(None, (modules or "").split(",")))
        archs = cuda_archs or "9.0"
        wheel = source.build(patched, arch, names, archs=archs, jobs=jobs)
    else:
        wheel = overlay.build(patched, arch)
    console.result(
        f"wheel   {wheel}",
        f"size    {wheel.stat().st_size / 1e6:.1f} MB",
        f"sha256  {files.sha256_file(wheel)}",
    )


@cli.command("verify")
@click.argument("file", type=FILE)
@click.option(
    "--allow-compiled",
    is_flag=True,
    help="Allow modules of the official wheel to have other content: mode source.",
)
def verify_command(file: Path, allow_compiled: bool) -> None:
    """Compare the wheel FILE with the official files plus the series, byte for byte.

    A plugin is compared with that of this checkout. Exit status 1 if a file is
    something else; each is named. Nothing that the wheel says of itself counts.
    """
    from patchset.wheel.verify import verify

    report = verify(file, allow_compiled=allow_compiled)
    lines = [f"{how:8} {name}" for name, how in report.changed.items()]
    if report.deviations:
        lines = [f"WRONG    {deviation}" for deviation in report.deviations]
    count = f"{len(report.deviations)} deviations from {report.origin}"
    console.result(*lines, f"{file.name}: {count}")
    sys.exit(EXIT_FAILED if report.deviations else 0)


@cli.command("doctor")
@click.option(
    "--python",
    type=FILE,
    required=True,
    help="The interpreter of the environment in which vLLM is installed.",
)
@click.option("--quiet", is_flag=True, help="Print only problems.")
def doctor_command(python: Path, quiet: bool) -> None:
    """Say which patches are live in an environment, and what keeps them from it.

    Hashes the installed files, which patches/ of this checkout knows as well; looks for
    files that Python imports instead, and the Rust frontend. Of a stock vLLM it
    says whether the plugin is live. Images carry the same program as vllm-mtp-doctor.

    Exit status 0 when all is well, 1 when something is wrong, 2 when there is no vLLM,
    3 when it is a stock one without the plugin.
    """
    from patchset import doctor

    program = [str(python.absolute()), doctor.__file__]
    program += ["--patches", str(paths.patches_dir())]
    done = subprocess.run(
        program, capture_output=True, encoding="utf-8", errors="replace"
    )
    if not (done.stdout or done.stderr):
        raise UsageError(
            f"{python} is not a Python interpreter", "name the environment's bin/python"
        )
    lines = done.stdout.splitlines()
    wrong = (line for line in lines if line.startswith("WRONG"))
    console.result(*(wrong if quiet else lines))
    if done.stderr:
        console.note(done.stderr.strip()[-2000:])
    sys.exit(done.returncode)


@cli.command(
    "build-image",
    epilog="An image on Debian packages takes 40 GB of free disk for cuda and 30 GB "
    "for cpu, in PATCHSET_BUILD_DIR and buildah's storage together.",
)
@release_argument
@target_option
@click.option(
    "--base",
    metavar="official|debian|REF",
    help="official: the patched files as one layer on the release's official image. "
    "REF: the same on another image that has the release. debian: a whole image from "
    "Debian packages, by buildah. Default: official, or debian if its registry does "
    "not answer.",
)
def build_image_command(release: str | None, target: Target, base: str | None) -> None:
    """Build a container image of RELEASE with its patches, for this machine.

    The base's digest is asked for, and vLLM's files in it are compared with the
    release's. podman and buildah have the image in their store at the end; for Docker,
    there is a folder to build it from. The last lines are the command that serves.

    The image's folder in build/images holds the OCI layout "image" and its bill of
    materials, which publish takes.
    """
    from patchset.image import layout, local
    from patchset.series.apply import PatchedRelease

    patched = PatchedRelease(load(release), target)
    folder = local.build(patched, local.choose(patched, base))
    image = layout.load(folder / "image")
    for part in image.parts:
        layer = part.manifest["layers"][-1]
        console.result(f"layer   {part.arch} {layer['size']} bytes {layer['digest']}")
    console.result(f"image   {folder}", f"digest  {image.digest}")
    words = f"nox -s publish -- REGISTRY/NAME {patched.pin.name} --target {target}"
    console.result(f"publish {words}", "", *local.how_to_serve(patched, folder))


@cli.command(
    "publish",
    epilog="Logins are skopeo's: skopeo login REGISTRY, or REGISTRY_AUTH_FILE. Plain "
    "HTTP is used only for a registry on this machine.",
)
@click.argument("repository", metavar="REGISTRY/NAME")
@release_argument
@target_option
@click.option(
    "--sign", is_flag=True, help="Sign with cosign, and attach the bill of materials."
)
def publish_command(
    repository: str, release: str | None, target: Target, sign: bool
) -> None:
    """Publish the image of RELEASE that build-image made last, or the official one's.

    An image on another one is built again, for all processors that base and release
    are for; the part for this machine must come out as it was built.

    Tags: <release>-mtp.<n>, which is never moved; <release> and, for the default
    release, latest, which are, but never to an older version. An interrupted push goes
    on when the command is run again.
    """
    from patchset.image import publish, skopeo
    from patchset.series.apply import PatchedRelease

    patched = PatchedRelease(load(release), target)
    done, tags = publish.publish(skopeo.parse(repository), patched, sign=sign)
    console.result(*(f"tag     {tag}" for tag in tags), f"digest  {done}")


@cli.command("reproduce")
@click.argument("image", metavar="REGISTRY/NAME:TAG")
def reproduce_command(image: str) -> None:
    """Build a published thin image again from its labels alone, and compare digests.

    Exit status 1, with what differs, if the digest is another.
    """
    from patchset.image import skopeo
    from patchset.image.publish import reproduce

    digest, differences = reproduce(skopeo.parse(image))
    console.result(*(f"DIFFERS  {line}" for line in differences))
    console.result(f"{'published' if differences else 'same     '} {digest}")
    sys.exit(EXIT_FAILED if differences else 0)


def main(arguments: list[str] | None = None) -> None:
    """Run one command of the tool."""
    run_command.run(cli, sys.argv[1:] if arguments is None else arguments)
