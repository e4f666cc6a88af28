# SPDX-License-Identifier: Apache-2.0
"""``python -m kernels``: the Triton kernels that a release's series touches, without
an accelerator.
"""

import os
import sys
from pathlib import Path

import click

from conformance.lines import LANES, run_json
from patchset import console, files, paths, process, release, run_command
from patchset.errors import PatchsetError
from patchset.release import Release
from patchset.series import apply
from patchset.series.stock_tree import stock_tree

#: What torch's own wheel for CUDA requires.
TRITON = {"2.11.0": "3.6.0", "2.13.0": "3.7.1", "2.14.0": "3.8.0"}
#: Files whose kernels have a reference here.
KNOWN = ("vllm/v1/worker/gpu/sample/thinking_budget.py",)
#: Files whose kernels are proved in ``tests/patches``, with ``warps.py``.
PROVED = ("vllm/v1/worker/mamba_utils.py",)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="RELEASE...", nargs=-1, required=True)
@click.option(
    "--torch",
    type=click.Choice(list(TRITON)),
    help="Take this torch's Triton, in place of the release's.",
)
def command(names: tuple[str, ...], torch: str | None) -> None:
    """Compile the kernels that a series touches, and run them in Triton's interpreter
    against a reference in Python.

    Stock and patched, for sm_80, sm_89, sm_90, sm_100, sm_120 and gfx942, with the
    Triton that the release's torch wants.
    """
    wrong = [fault for name in names for fault in check(release.load(name), torch)]
    if wrong:
        raise PatchsetError("\n  ".join(["kernels failed:", *wrong]))


def check(pinned: Release, torch: str | None = None) -> list[str]:
    """Look at one release's kernels; returns what is wrong, one line each.

    Raises:
        PatchsetError: the series touches a kernel that has no reference here, or the
            release's Triton is not known.
    """
    touched = [
        change.path
        for change in apply.changes(pinned)
        if b"@triton.jit" in (change.content or b"") and change.path not in PROVED
    ]
    if not touched:
        console.note(f"{pinned.name}: its series touches no Triton kernel")
        return []
    if unknown := sorted(set(touched).difference(KNOWN)):
        raise PatchsetError(
            f"{unknown[0]} has kernels without a reference",
            "write one in tests/lanes/kernels",
        )
    triton = _triton(torch or pinned.torch)
    wrong: list[str] = []
    trees = {"stock": stock_tree(pinned), "patched": apply.patched_tree(pinned)}
    for name, tree in trees.items():
        path = os.pathsep.join(map(str, (triton, tree, LANES)))
        more = {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(triton.with_name("cache"))}
        compiled = run_json(tree, "kernels.worker", name, **more)
        ran = run_json(tree, "kernels.worker", name, TRITON_INTERPRET="1", **more)
        for outcome in (compiled, ran):
            if "wrong" in outcome:
                wrong.append(f"{pinned.name} {name}: {outcome['wrong']}")
        console.note(
            f"{pinned.name} {name}, {triton.name}: {len(compiled.get('sizes', ()))} "
            f"kernels compiled in {compiled['seconds']} s, {ran.get('rows', 0)} rows "
            f"as the reference has them in {ran['seconds']} s"
        )
    return wrong


def _triton(torch: str) -> Path:
    version = TRITON.get(torch)
    if version is None:
        raise PatchsetError(
            f"nothing says which Triton torch {torch} wants",
            f"put it into {Path(__file__).name}: TRITON",
        )
    path = paths.build_dir() / "kernels" / f"triton-{version}"
    with files.lock(path):
        if not path.is_dir():
            with (
                files.atomic_folder(path) as folder,
                console.step(f"install triton {version}"),
            ):
                pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps")
                wanted = ("--target", folder, f"triton=={version}")
                process.run([*pip, *wanted], prefix="pip")
    return path


run_command.run(command)
