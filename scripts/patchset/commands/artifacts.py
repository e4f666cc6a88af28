# SPDX-License-Identifier: Apache-2.0
"""``build-wheel`` and ``verify``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from patchset import console, files, paths
from patchset.commands.options import (
    FILE,
    arch_option,
    from_dir_option,
    release_argument,
    target_option,
)
from patchset.errors import EXIT_FAILED, UsageError
from patchset.release import Arch, Target, load
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import overlay, source
from patchset.wheel.verify import verify


@click.command("build-wheel")
@release_argument
@target_option
@arch_option
@click.option(
    "--mode",
    type=click.Choice(["overlay", "source"]),
    default="overlay",
    help="overlay: the official wheel with files replaced. source: also compile.",
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
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for the wheel.",
)
@from_dir_option
def build_wheel_command(
    release: str | None,
    target: Target,
    arch: Arch,
    mode: str,
    modules: str | None,
    cuda_archs: str | None,
    jobs: int | None,
    out: Path | None,
) -> None:
    """Build the patched wheel of RELEASE. The last lines are its path, size and sha256.

    An overlay takes seconds and no compiler, and is the same byte for byte everywhere.

    Mode source compiles with vLLM's own build backend. It needs g++, Python's headers
    and 12 GB of disk; CUDA's toolkit comes from the package index, as
    patches/RELEASE/pylock.build-ARCH.toml says. An interrupted run is resumed.
    """
    patched = PatchedRelease(load(release))
    if mode == "source":
        names = tuple(filter(None, (modules or "").split(",")))
        archs = cuda_archs or "9.0"
        wheel = source.build(
            patched, target, arch, names, archs=archs, jobs=jobs, out=out
        )
    elif modules or cuda_archs or jobs:
        raise UsageError("--modules, --cuda-archs and --jobs are for --mode source")
    else:
        wheel = overlay.build(patched, target, arch, out=out)
    console.result(
        f"wheel   {wheel}",
        f"size    {wheel.stat().st_size / 1e6:.1f} MB",
        f"sha256  {files.sha256_file(wheel)}",
    )


@click.command("verify")
@click.argument("file", required=False, type=FILE)
@click.option(
    "--allow-compiled",
    is_flag=True,
    help="Allow modules of the official wheel to have other content: mode source.",
)
@from_dir_option
def verify_command(file: Path | None, allow_compiled: bool) -> None:
    """Prove that the wheel FILE is the official files plus the series, byte by byte.

    Without an argument it is the wheel that was built last. Exit status 1, with the name
    of each file that is something else, when it is not.
    """
    if file is None:
        built = sorted(
            paths.wheels_dir().glob("*/*/vllm-*.whl"),
            key=lambda wheel: wheel.stat().st_mtime,
        )
        if not built:
            raise UsageError(
                "no wheel was built here",
                "nox -s build-wheel makes one; or name a FILE",
            )
        file = built[-1]
    report = verify(file, allow_compiled=allow_compiled)
    counts = f"{len(report.deviations)} deviations from official {report.release} {report.target} + series"
    console.result(
        f"{len(report.official)} files are the official wheel's",
        *(f"patched  {name}" for name in report.patched),
        *(f"removed  {name}" for name in report.removed),
        *(f"compiled {name}: not compared" for name in report.compiled),
        *(f"made     {name}: {rule}" for name, rule in report.made.items()),
        *(f"WRONG    {deviation}" for deviation in report.deviations),
        f"{report.wheel}: {counts}",
    )
    sys.exit(EXIT_FAILED if report.deviations else 0)
