# SPDX-License-Identifier: Apache-2.0
"""The precompiled wheel: vLLM's own build backend over the patched tree, with the official wheel's binaries.

What ``setup.py`` of v0.32.0 and v0.33.0 does then: it copies the binaries and the vendored folders out of the
official wheel into the tree (``VLLM_PRECOMPILED_WHEEL_LOCATION``), after patching, and compiles nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from patchset.base import console, files, git, paths
from patchset.base.errors import PatchsetError, UnavailableError, UsageError
from patchset.base.release import Arch, Release, Target
from patchset.downloads import fetch
from patchset.series import order
from patchset.series.apply import changes, patched_tree
from patchset.source import reproducible
from patchset.wheel import archive, metadata, modes, overlay, record
from patchset.wheel.archive import Member, Wheel

#: Build requirements that only compiling needs, and torch, of which ``setup.py`` asks little: see ``_STAND_IN``.
_NOT_NEEDED = ("torch", "cmake", "ninja")

#: All that ``setup.py`` reads of torch in this mode. The real one is a download of gigabytes with its CUDA libraries;
#: that nothing else depends on it is what ``verify`` shows: METADATA is the official one but for the version.
_STAND_IN = {
    "torch/__init__.py": "from torch import version\n\n__version__ = {torch!r}\n",
    "torch/version.py": "cuda = {cuda!r}\nhip = None\nxpu = None\n",
    "torch/utils/__init__.py": "",
    "torch/utils/cpp_extension.py": "CUDA_HOME = None\nROCM_HOME = None\n",
}

_BACKEND = """
import sys
from setuptools import build_meta
# Everything is packed once more below: no time is spent on compressing here.
build_meta.build_wheel(sys.argv[1], config_settings={"--build-option": ["--compression=stored"]})
"""

#: The tree gets a copy of most of the wheel, the backend's build folder another, and the wheel is stored unpacked.
_SPACE = 3


def build(
    release: Release, target: Target, arch: Arch, *, from_dir: Path | None = None, out: Path | None = None
) -> Path:
    """Build the precompiled wheel, ``build/wheels/<release>/<target>-precompiled/vllm-<version>+mtp.<n>-<tags>.whl``.

    The build requirements are installed first (from ``from_dir`` when given); the build itself downloads nothing.

    Raises:
        UsageError: vLLM's backend has no such mode for the target.
        PatchsetError: a patch changes what comes from the official wheel, or the backend fails.
    """
    if target != "cuda":
        raise UsageError(
            "vLLM's backend takes only some binaries of a CPU wheel over (not _C_AVX2, not _C_AVX512): "
            "precompiled mode is for cuda",
            f"nox -s build-wheel -- {release.name} --target {target}",
        )
    patches = order.read(release)
    modes.check(release, target, patches, "precompiled")
    pinned = release.wheel(target, arch)
    official = fetch.artifact(pinned, from_dir=from_dir)
    tree = patched_tree(release, from_dir=from_dir)
    changed = changes(release, from_dir=from_dir)
    place = (out or paths.wheels_dir() / release.name / f"{target}-precompiled") / overlay.wheel_name(
        release, target, pinned
    )
    work = paths.build_dir() / "precompiled" / f"{release.name}-{target}-{arch}"
    with files.lock(place), files.lock(work), files.explain_full_disk(work), Wheel(official) as stock:
        files.remove_unfinished(place.parent, place.name)
        files.remove_unfinished(work.parent, work.name)
        with tempfile.TemporaryDirectory(
            dir=work.parent, prefix=files.UNFINISHED, suffix=f"-{work.name}"
        ) as name:
            _need_space(Path(name), stock)
            made = _run_backend(release, tree, stock, Path(name), from_dir)
            notes = overlay.provenance(release, target, pinned, patches, changed, mode="precompiled")
            with (
                console.step(f"write {place.name}"),
                Wheel(made) as built,
                files.whole_file(place) as unfinished,
            ):
                members = _members(stock, built, release.built_version(target), notes)
                archive.write(unfinished, members, stock, release.source_date_epoch)
    return place


def _run_backend(release: Release, tree: Path, stock: Wheel, work: Path, from_dir: Path | None) -> Path:
    """Build a wheel in ``work`` with ``setuptools.build_meta``; the file that comes out."""
    requirements = _requirements(tree, stock)
    with console.step(f"install the build requirements: {', '.join(requirements)}"):
        _install(requirements, work / "env", from_dir)
    _write_stand_in(release, tree, work / "stand-in")
    # A clone: the backend writes into its tree, and setuptools-scm asks git which files there are.
    git.run(work, "clone", "--quiet", "--local", "--no-tags", str(tree), "tree")
    (work / "out").mkdir()
    with console.step(f"vLLM's build backend over the patched {release.name} (about a minute)"):
        _call(
            [sys.executable, "-S", "-c", _BACKEND, str(work / "out")],
            work / "tree",
            _environment(release, stock.path, work),
        )
    built = list((work / "out").glob("*.whl"))
    if len(built) != 1:
        raise PatchsetError(f"vLLM's build backend left {len(built)} wheels, not one")
    return built[0]


def _requirements(tree: Path, stock: Wheel) -> list[str]:
    """What the tree's ``pyproject.toml`` asks for, less what this mode does not use.

    setuptools in the version that made the official wheel, which WHEEL names: another one may order or write
    metadata in another way.
    """
    declared = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "requires"
    ]
    kept = [Requirement(text) for text in declared]
    kept = [requirement for requirement in kept if requirement.name not in _NOT_NEEDED]
    wheel = stock.read(f"{stock.dist_info}/WHEEL").decode()
    made_by = re.search(r"^Generator: setuptools \(([\d.]+)\)$", wheel, re.MULTILINE)
    return [
        f"setuptools=={made_by[1]}"
        if made_by and one.name == "setuptools" and one.specifier.contains(made_by[1])
        else str(one)
        for one in kept
    ]


def _install(requirements: list[str], folder: Path, from_dir: Path | None) -> None:
    local = ["--no-index", "--find-links", str(from_dir)] if from_dir is not None else []
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check",
            "--no-compile", "--only-binary", ":all:", "--target", str(folder), *local, *requirements,
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise UnavailableError(
            f"the build requirements cannot be installed: {done.stderr.strip()[-1500:]}",
            f"put wheels of {', '.join(requirements)} and what they need into {from_dir}"
            if from_dir
            else None,
        )


def _write_stand_in(release: Release, tree: Path, folder: Path) -> None:
    envs = (tree / "vllm" / "envs.py").read_text(encoding="utf-8")
    cuda = re.search(r'^ +VLLM_MAIN_CUDA_VERSION: str = "(\d+\.\d+)"$', envs, re.MULTILINE)
    if cuda is None:
        raise PatchsetError(f"{tree}/vllm/envs.py does not name VLLM_MAIN_CUDA_VERSION as it used to")
    for name, text in _STAND_IN.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(torch=release.torch, cuda=cuda[1]), encoding="utf-8")


def _environment(release: Release, source: Path, work: Path) -> dict[str, str]:
    """The variables of the build: nothing of the caller's but where programs and temporary files are."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    return (
        kept
        | reproducible.variables(release)
        | {
            "PYTHONPATH": os.pathsep.join([str(work / "stand-in"), str(work / "env")]),
            "VLLM_TARGET_DEVICE": "cuda",
            "VLLM_USE_PRECOMPILED": "1",
            "VLLM_PRECOMPILED_WHEEL_LOCATION": str(source),
            "VLLM_NO_USAGE_STATS": "1",
        }
    )


def _call(arguments: list[str], folder: Path, environment: dict[str, str]) -> None:
    log = folder.parent / "backend.log"
    with log.open("wb") as output:
        done = subprocess.run(
            arguments, cwd=folder, env=environment, umask=0o022, check=False,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    if done.returncode != 0:
        last = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-25:]
        raise PatchsetError("vLLM's build backend failed; its last lines:\n  " + "\n  ".join(last))


def _members(stock: Wheel, built: Wheel, version: str, notes: bytes) -> list[Member]:
    """What the backend made, with tags and version module set back, in the official wheel's order.

    What is identical to the official wheel's keeps its compressed bytes from there, so that neither this machine's
    zlib nor the order of its folders shows in the result.
    """
    info = f"vllm-{version}.dist-info"
    official = {overlay.renamed(name, stock.dist_info, info): name for name in stock.members}
    made = {overlay.renamed(name, built.dist_info, info): name for name in built.members}
    del made[f"{info}/RECORD"]
    order = {name: at for at, name in enumerate(official)}
    members: list[Member] = []
    lines: list[record.Line] = []
    for name in sorted(
        made, key=lambda name: (name.startswith(f"{info}/"), order.get(name, len(order)), name)
    ):
        mode = built.members[made[name]].external_attr >> 16
        content = built.read(made[name])
        if name == f"{info}/WHEEL":
            content = metadata.retagged_wheel_file(content, stock.path.name)
        elif name == metadata.VERSION_FILE:
            # The official one with our version, as in an overlay: it keeps upstream's commit.
            content = metadata.patched_version_file(stock.read(official[name]), version)
        if name in official and content == stock.read(official[name]):
            members.append(Member(name, mode, source=stock.members[official[name]]))
        else:
            members.append(Member(name, mode, content))
        lines.append(record.line(name, content))
    members.append(Member(f"{info}/{overlay.PROVENANCE}", 0o644, notes))
    lines += [record.line(members[-1].name, notes), record.Line(f"{info}/RECORD", "", "")]
    return [*members, Member(f"{info}/RECORD", 0o644, record.render(lines))]


def _need_space(folder: Path, stock: Wheel) -> None:
    needed = _SPACE * sum(info.file_size for info in stock.members.values())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PatchsetError(
            f"building needs about {needed / 1e9:.1f} GB in {folder.parent}, and {free / 1e9:.1f} GB are free",
            "free some space there, or set PATCHSET_BUILD_DIR to another disk",
        )
