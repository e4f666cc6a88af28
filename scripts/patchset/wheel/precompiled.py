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
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

from patchset import apply, console, fetch, files, git, series
from patchset.errors import PatchsetError, UnavailableError
from patchset.release import Arch, Release, Target
from patchset.wheel import archive, metadata, modes, names, overlay, provenance
from patchset.wheel.overlay import Entry

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
    release: Release,
    target: Target = "cuda",
    arch: Arch = "x86_64",
    *,
    from_dir: Path | None = None,
    out_dir: Path | None = None,
) -> Path:
    """Build the precompiled wheel and return it: below ``build/wheels``, or in ``out_dir``.

    Only the build requirements are downloaded, before the build (from ``from_dir`` when given).

    Raises:
        ModeError: a patch changes what comes from the official wheel.
        PatchsetError: the target is cpu, an input cannot be had, or the backend fails.
    """
    if target != "cuda":
        raise modes.ModeError(
            f"{target} wheels cannot be built in precompiled mode: vLLM's build backend takes only some of their "
            "binaries out of the official wheel",
            f"nox -s build-wheel -- {release.name} --target {target} (an overlay)",
        )
    official = release.wheel(target, arch)
    modes.check(release, target, series.read(release), "precompiled")
    changes = apply.changes(release, from_dir=from_dir)
    tree = apply.patched_tree(release, from_dir=from_dir)
    source = fetch.artifact(official, from_dir=from_dir)
    place = names.built_file(release, target, arch, "precompiled")
    if out_dir is not None:
        place = out_dir / place.name
    with files.lock(place), files.explain_full_disk(place):
        files.remove_unfinished(place.parent)
        with (
            tempfile.TemporaryDirectory(dir=place.parent, prefix=files.UNFINISHED) as name,
            archive.opened(source) as opened,
        ):
            work = Path(name)
            _need_space(work, opened)
            built = _run_backend(release, tree, source, opened, work, from_dir)
            told = provenance.render(release, target, arch, "precompiled", changes)
            with console.step("pack the wheel"), archive.opened(built) as made:
                entries = _entries(release, target, opened, official.file, made, built.name, told)
                overlay.write(place, source, opened, entries, release.source_date_epoch)
    return place


def _run_backend(
    release: Release,
    tree: Path,
    source: Path,
    official: zipfile.ZipFile,
    work: Path,
    from_dir: Path | None,
) -> Path:
    """Build a wheel in ``work`` with ``setuptools.build_meta``; the file that comes out."""
    requirements = _requirements(tree, official, source.name)
    with console.step(f"build environment: {', '.join(requirements)}"):
        _install(requirements, work / "env", from_dir)
    _write_stand_in(release, tree, work / "stand-in")
    # A clone: the backend writes into its tree, and setuptools-scm asks git which files there are.
    git.run(work, "clone", "--quiet", "--local", "--no-tags", str(tree), "tree")
    (work / "out").mkdir()
    with console.step("vLLM's own build backend (about a minute)"):
        _call(
            [sys.executable, "-S", "-c", _BACKEND, str(work / "out")],
            work / "tree",
            _environment(release, source, work),
        )
    built = list((work / "out").glob("*.whl"))
    if len(built) != 1:
        raise PatchsetError(f"the build backend left {len(built)} wheels, not one")
    return built[0]


def _requirements(tree: Path, official: zipfile.ZipFile, official_name: str) -> list[str]:
    """What the tree's ``pyproject.toml`` asks for, less what this mode does not use.

    setuptools in the version that made the official wheel, which WHEEL names: another one may order or write
    metadata in another way.
    """
    declared = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "requires"
    ]
    kept = [Requirement(text) for text in declared]
    kept = [requirement for requirement in kept if requirement.name not in _NOT_NEEDED]
    wheel = official.read(f"{names.find_dist_info(official, official_name)}/WHEEL").decode()
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
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(work / "stand-in"), str(work / "env")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "VLLM_TARGET_DEVICE": "cuda",
        "VLLM_USE_PRECOMPILED": "1",
        "VLLM_PRECOMPILED_WHEEL_LOCATION": str(source),
        "VLLM_VERSION_OVERRIDE": release.built_version("cuda"),
        "VLLM_NO_USAGE_STATS": "1",
        "SOURCE_DATE_EPOCH": str(release.source_date_epoch),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        # Nothing is to be downloaded in a build: whatever tried would fail, and be seen.
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }


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


def _entries(
    release: Release,
    target: Target,
    official: zipfile.ZipFile,
    official_name: str,
    built: zipfile.ZipFile,
    built_name: str,
    told: bytes,
) -> list[Entry]:
    """The members of the wheel: what the backend made, in the official order, with tag and version set back."""
    old_info = names.find_dist_info(official, official_name)
    built_info = names.find_dist_info(built, built_name)
    info = names.dist_info(release, target)
    tags = names.parse(official_name).tag_lines
    there = {names.renamed(m.filename, old_info, info): m for m in official.infolist()}
    made = {names.renamed(m.filename, built_info, info): m for m in built.infolist()}
    order = {name: at for at, name in enumerate(there)}
    late = len(order)
    body: list[Entry] = []
    last: list[Entry] = []
    for name in sorted(made, key=lambda name: (order.get(name, late), name)):
        if name == f"{info}/RECORD":
            continue
        member = made[name]
        original = there.get(name)
        content = built.read(member)
        if name == f"{info}/WHEEL":
            entry = Entry(name, content=metadata.wheel(content, tags))
        elif name == metadata.VERSION_MODULE:
            # As in an overlay: the official one with another version, which keeps upstream's commit.
            stock = official.read(name)
            entry = Entry(name, content=metadata.version_module(stock, release.built_version(target)))
        elif original is not None and content == official.read(original):
            entry = Entry(name, source=original)
        else:
            entry = Entry(name, content=content, mode=archive.plain_mode(member.external_attr >> 16))
        (last if name.startswith(f"{info}/") else body).append(entry)
    last.append(Entry(f"{info}/{metadata.PROVENANCE}", content=told))
    return body + last


def _need_space(folder: Path, official: zipfile.ZipFile) -> None:
    needed = _SPACE * sum(member.file_size for member in official.infolist())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PatchsetError(
            f"building needs about {needed / 1e9:.1f} GB in {folder.parent}, and {free / 1e9:.1f} GB are free",
            "free some space there, or set PATCHSET_BUILD_DIR to another disk",
        )
