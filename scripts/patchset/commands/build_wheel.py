# SPDX-License-Identifier: Apache-2.0
"""``build-wheel``"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from patchset.base import console, files
from patchset.base.errors import UsageError
from patchset.base.release import Arch, Target, load
from patchset.commands.options import from_dir_option, release_argument, target_option, this_machine
from patchset.series.patched_release import PatchedRelease
from patchset.source import from_source
from patchset.source.build import Options
from patchset.wheel import overlay


@click.command()
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
    type=click.Choice(["overlay", "source"]),
    default="overlay",
    show_default=True,
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
    "third_party",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --mode source: a folder with checkouts, each named as in patches/RELEASE/third-party.toml.",
)
@click.option(
    "--python",
    "own_python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --mode source: compile with the torch and CMake of this Python's environment, and with CUDA_HOME, "
    "instead of the locked ones.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The folder for the wheel.")
@from_dir_option
def command(
    release: str | None,
    target: Target,
    archs: tuple[str, ...],
    mode: str,
    modules: str | None,
    jobs: int | None,
    third_party: Path | None,
    own_python: Path | None,
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
    arch, cuda_archs = _archs(archs)
    if mode == "source":
        names = tuple(filter(None, modules.split(","))) if modules else None
        options = Options(cuda_archs or Options.archs, names, jobs, third_party, own_python)
        wheel = from_source.build(patched, target, arch, options, out=out)
    else:
        if cuda_archs or modules or jobs or third_party or own_python:
            raise UsageError(
                "CUDA architectures, --modules, --jobs, --third-party and --python are for --mode source"
            )
        wheel = overlay.build(patched, target, arch, out=out)
    console.result(f"wheel   {wheel}")
    console.result(f"size    {wheel.stat().st_size / 1e6:.1f} MB")
    console.result(f"sha256  {files.sha256_file(wheel)}")


def _archs(words: tuple[str, ...]) -> tuple[Arch, str | None]:
    """The processor, and the CUDA architectures, that the ``--arch`` options name."""
    processors: list[Arch] = [name for name in get_args(Arch) if name in words]
    others = [word for word in words if word not in processors]
    if len(processors) > 1:
        raise UsageError(f"one wheel is for one processor, not for {' and '.join(processors)}")
    if unknown := [word for word in others if not word[:1].isdigit()]:
        raise UsageError(
            f"there is no architecture {unknown[0]}", "x86_64 or aarch64; for CUDA a number, as in 9.0"
        )
    return processors[0] if processors else this_machine(), ";".join(others) or None
