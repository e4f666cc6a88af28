# SPDX-License-Identifier: Apache-2.0
"""``build-wheel`` and ``verify``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import click

from patchset import console, files, paths
from patchset.commands import options
from patchset.commands.options import FILE, FOLDER, from_dir_option, release_argument, target_option
from patchset.errors import EXIT_FAILED, UsageError
from patchset.release import Arch, Target, load
from patchset.series.patched_release import PatchedRelease
from patchset.source import from_source
from patchset.source.build import Options
from patchset.wheel import overlay
from patchset.wheel.verify import verify

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
@click.argument("file", required=False, type=FILE)
@click.option(
    "--allow-compiled",
    is_flag=True,
    help="Take modules that the wheel's builder compiled on that builder's word.",
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
                "no wheel was built here", "nox -s build-wheel makes one; or name a FILE"
            )
        file = built[-1]
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
