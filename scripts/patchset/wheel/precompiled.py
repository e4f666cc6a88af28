# SPDX-License-Identifier: Apache-2.0
"""The precompiled wheel: vLLM's own build backend over the patched tree, with the official wheel's binaries."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections import deque
from pathlib import Path

from patchset import console, fetch, files, git, paths, series
from patchset.apply import changes, patched_tree
from patchset.errors import PatchsetError, UsageError
from patchset.release import Arch, Release, Target
from patchset.wheel import archive, metadata, overlay, record
from patchset.wheel.archive import Member, Wheel

#: How many lines of the backend's output an error shows.
_SHOWN = 25


def build(
    release: Release, target: Target, arch: Arch, *, from_dir: Path | None = None, out: Path | None = None
) -> Path:
    """Build the precompiled wheel, ``build/wheels/<release>/<target>-precompiled/vllm-<version>+mtp.<n>-<tags>.whl``.

    The backend extracts the official binaries over its source, so it works on a clone of the patched tree.

    Raises:
        UsageError: vLLM's backend has no such mode for the target.
        PatchsetError: a patch changes what only a compiler can, or the backend fails.
    """
    if target != "cuda":
        raise UsageError("vLLM's precompiled mode exists for cuda only", f"use --mode overlay for {target}")
    patches = series.read(release)
    overlay.refuse_native(patches, "precompiled")
    pinned = release.wheel(target, arch)
    official = fetch.artifact(pinned, from_dir=from_dir)
    tree = patched_tree(release, from_dir=from_dir)
    place = (out or paths.wheels_dir() / release.name / f"{target}-precompiled") / overlay.wheel_name(
        release, target, pinned
    )
    work = paths.build_dir() / "precompiled" / f"{release.name}-{target}-{arch}"
    with files.lock(work):
        python = _environment(tree)
        with files.whole_folder(work) as unfinished:
            source = unfinished / "source"
            source.mkdir()
            git.run(source, "clone", "--quiet", "--local", "--no-tags", str(tree), ".")
            made = _run_backend(python, release, target, source, official, unfinished)
            with (
                console.step(f"write {place.name}"),
                files.lock(place),
                Wheel(made) as built,
                files.whole_file(place) as whole,
            ):
                notes = overlay.provenance(
                    release, target, pinned, patches, changes(release, from_dir=from_dir), mode="precompiled"
                )
                archive.write(whole, _retagged(built, place.name, notes), built, release.source_date_epoch)
            shutil.rmtree(source)
            made.unlink()
    return place


def _environment(tree: Path) -> Path:
    """A virtual environment with what the tree's pyproject.toml asks for to build, kept for the next time."""
    requires = tomllib.loads((tree / "pyproject.toml").read_text())["build-system"]["requires"]
    name = hashlib.sha256("\n".join(requires).encode()).hexdigest()[:16]
    folder = paths.build_dir() / "environments" / f"backend-{name}"
    python = folder / "bin" / "python"
    done = folder / "complete.json"
    with files.lock(folder):
        if done.is_file():
            return python
        with console.step(f"install the build requirements: {', '.join(requires)}"):
            venv.create(folder, with_pip=True, clear=True)
            _run(
                [str(python), "-m", "pip", "install", "--progress-bar=off", "build", *requires],
                folder,
                dict(os.environ),
            )
        asked = [str(python), "-c", "import torch; print(torch.version.cuda or '')"]
        cuda = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if not cuda:
            raise PatchsetError(
                "the torch that pip's configuration gives is a CPU build; vLLM's backend then leaves the binaries out",
                "use --mode overlay, or let pip find the CUDA build",
            )
        files.write_text(done, json.dumps({"requires": requires, "cuda": cuda}) + "\n")
    return python


def _run_backend(
    python: Path, release: Release, target: Target, source: Path, official: Path, out: Path
) -> Path:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("VLLM_", "GIT_"))}
    environment |= {
        "VLLM_USE_PRECOMPILED": "1",
        "VLLM_PRECOMPILED_WHEEL_LOCATION": str(official),
        "VLLM_VERSION_OVERRIDE": release.built_version(target),
        "VLLM_TARGET_DEVICE": target,
        "SOURCE_DATE_EPOCH": str(release.source_date_epoch),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
    }
    before = os.umask(0o022)
    try:
        with console.step(f"vLLM's build backend over the patched {release.name}"):
            _run(
                [str(python), "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), "."],
                source,
                environment,
            )
    finally:
        os.umask(before)
    made = list(out.glob("*.whl"))
    if len(made) != 1:
        raise PatchsetError(f"vLLM's build backend left {len(made)} wheels in {out}, not one")
    return made[0]


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a program, its output a line at a time on a terminal; the last lines are the error's text."""
    last: deque[str] = deque(maxlen=_SHOWN)
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        try:
            for line in process.stdout:
                last.append(line.rstrip())
                if sys.stderr.isatty():
                    console.note(f"    {line.rstrip()[:150]}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        shown = "\n  ".join(last)
        raise PatchsetError(f"{Path(command[0]).name} {' '.join(command[1:4])} failed:\n  {shown}")


def _retagged(built: Wheel, name: str, notes: bytes) -> list[Member]:
    """The backend's wheel with the official tag in place of this machine's, and with its provenance."""
    info = built.dist_info
    tag = "-".join(name.removesuffix(".whl").split("-")[-3:])
    wheel = metadata.retagged_wheel_file(built.read(f"{info}/WHEEL"), tag)
    new = {f"{info}/WHEEL": wheel, f"{info}/{overlay.PROVENANCE}": notes}
    old = {entry.name: entry for entry in record.parse(built.read(f"{info}/RECORD"))}
    members, recorded = [], []
    for member in sorted(
        {*built.members, *new} - {f"{info}/RECORD"}, key=lambda name: (name.startswith(info), name)
    ):
        if member in new:
            members.append(Member(member, 0o644, new[member]))
            recorded.append(record.line(member, new[member]))
        else:
            source = built.members[member]
            members.append(Member(member, source.external_attr >> 16 & 0o777, source=source))
            recorded.append(old[member])
    recorded.append(record.Line(f"{info}/RECORD", "", ""))
    return [*members, Member(f"{info}/RECORD", 0o644, record.render(recorded))]
