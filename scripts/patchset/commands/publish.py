# SPDX-License-Identifier: Apache-2.0
"""``publish``"""

from __future__ import annotations

from pathlib import Path

import click

from patchset.attest import attestation, inputs
from patchset.base import console, files, paths
from patchset.base.errors import PatchsetError, UsageError
from patchset.base.release import Release, Target, load
from patchset.commands.options import release_argument, target_option
from patchset.image import thin
from patchset.publish import push, sign
from patchset.registry.layout import Layout
from patchset.registry.reference import parse
from patchset.results import totals
from patchset.series.patched_release import PatchedRelease


@click.command(
    epilog="Logins are those of docker, podman, buildah or skopeo (auth.json, config.json, credential helpers). "
    "A registry on this machine is spoken to over http."
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
def command(
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
    chosen = list(archives) or _built(pinned, target, only_thin)
    names = push.tags(pinned, target)
    signer = sign.signer(key=key, wanted=signed)
    locks = [_inputs(archive, pinned, target) for archive in chosen]
    done = push.publish(goal, chosen, names, signer)
    counts = ", ".join(f"{count} {how}" for how, count in sorted(done.parts.items()))
    console.result(f"parts   {counts}")
    for title, digest in done.attached.items():
        console.result(f"attest  {title} {digest}")
    if signer is not None:
        console.result("signed  by cosign: image, provenance and bill of materials")
    for tag in (names.fixed, *names.moved):
        console.result(f"tag     {goal.repository}:{tag}")
    console.result(f"digest  {goal.repository}@{done.digest}")
    if record:
        _record(chosen, locks, names.fixed)


def _built(release: Release, target: Target, only_thin: bool) -> list[Path]:
    """The archives of a release in the build folder."""
    small = thin.archive_path(release, target)
    if small.is_file():
        return [small]
    found = [
        place
        for arch in ("x86_64", "aarch64")
        if (place := paths.images_dir() / f"{release.name}-{target}-{arch}.oci.tar").is_file()
    ]
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
    if different := inputs.differing(
        made.files, inputs.checkout_files(PatchedRelease(release), target, made.kind)
    ):
        raise PatchsetError(
            f"{archive.name} was not made from this checkout: {'; '.join(different[:5])}",
            "build the image again",
        )
    return content


def _record(archives: list[Path], locks: list[bytes], tag: str) -> None:
    for archive, content in zip(archives, locks, strict=True):
        suffix = "" if len(archives) == 1 else f".{archive.name.removesuffix('.oci.tar').rpartition('-')[2]}"
        place = paths.project_root() / "published" / f"{tag}{suffix}.inputs.lock"
        files.write_text(place, content.decode())
        console.result(f"record  {place}")
