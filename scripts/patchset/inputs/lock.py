# SPDX-License-Identifier: Apache-2.0
"""Lock files (PEP 751): what an image or a compiler's environment installs.

``patches/locks/RELEASE/pylock.TARGET-ARCH.toml`` holds one wheel for each package, by
sha256 and without an index's address: ``path`` is the file's name beside the lock file,
where ``fetch`` of the wheels and a copy of the lock make it one that installers take.
"""

import os
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.pylock import Package, PackageWheel, Pylock, PylockValidationError
from packaging.tags import (
    Tag,
    compatible_tags,
    cpython_tags,
    create_compatible_tags_selector,
)
from packaging.utils import parse_wheel_filename
from uv import find_uv_bin

from patchset import console, files, paths
from patchset.errors import PatchsetError, UsageError, tail
from patchset.inputs import fetch, index
from patchset.inputs.index import Settings
from patchset.release import Arch, Artifact, Release

#: Debian 12's Python and glibc.
PYTHON = "3.11"
GLIBC = (2, 36)
#: What a lock is for: an image on a target, or the compiler's environment.
Use = Literal["cuda", "cpu", "build"]

#: Parts of the CUDA toolkit: the compiler with its programs, and the libraries whose
#: headers torch's CMake files ask for.
_TOOLKIT = (
    "nvcc,cccl,crt,nvvm,cudart,cublas,cusparse,cusolver,curand,nvtx,cupti,nvrtc,"
    "profiler"
)
#: From CUDA 13 on, the toolkit's packages fill one folder; only those are on the index.
_CUDA_VERSION = re.compile(r"^ARG CUDA_VERSION=(\d+\.\d+)\.\d+$", re.MULTILINE)
#: The generator of the Machete kernels imports the package's ``cutlass_library``, which
#: needs none of its requirements.
_CUTLASS = "nvidia-cutlass"
_NOT_NEEDED = ("cuda-python", "pydot", "scipy", "treelib")
#: uv's own variables, without ``UV_``, that do not change what is locked.
_KEPT = ("CACHE_DIR", "CONCURRENT_DOWNLOADS", "CONCURRENT_INSTALLS", "PYTHON_DOWNLOADS")
_MAX_LOCK = 8 << 20


class Locked(NamedTuple):
    """A package of a lock: normalized name, version, and its one wheel."""

    name: str
    version: str
    wheel: Artifact


def lock_file(release: Release, use: Use, arch: Arch) -> Path:
    """Return ``patches/locks/<release>/pylock.<use>-<arch>.toml``."""
    return paths.patches_dir() / "locks" / release.name / f"pylock.{use}-{arch}.toml"


def read(release: Release, use: Use, arch: Arch) -> list[Locked]:
    """Return the packages that a release's lock names."""
    place = lock_file(release, use, arch)
    if not place.is_file():
        raise UsageError(
            f"{release.name} has no lock for {use} on {arch}: {place} is missing",
            f"nox -s pin -- --lock {release.name} --target {use} --arch {arch} "
            "writes it",
        )
    try:
        text = files.read_regular(place, _MAX_LOCK).decode()
        packages = Pylock.from_dict(tomllib.loads(text)).packages
        return [_locked(package, package.wheels or []) for package in packages]
    except (OSError, ValueError, PylockValidationError) as error:
        raise PatchsetError(
            f"{place} cannot be read: {error}", "nox -s pin -- --lock writes it again"
        ) from error


def _locked(package: Package, wheels: Sequence[PackageWheel]) -> Locked:
    """Return a package with its one wheel; ValueError without sum, size or version."""
    if len(wheels) != 1 or package.version is None:
        raise ValueError(f"{package.name} has {len(wheels)} wheels, not one")
    wheel = wheels[0]
    pinned = Artifact(
        project=package.name,
        file=wheel.filename,
        sha256=wheel.hashes.get("sha256", ""),
        size=wheel.size or 0,
    )
    return Locked(package.name, str(package.version), pinned)


def gather(packages: Iterable[Locked]) -> list[Path]:
    """Download what is missing of the locked wheels; all of them, verified."""
    pins = [package.wheel for package in packages]
    size = sum(pin.size for pin in pins)
    title = f"fetch {len(pins)} wheels, {size / 1e9:.2f} GB"
    with console.step(f"{title}, into {paths.downloads_dir()}"):
        advance = console.progress("fetched and checked", size)
        return [fetch.artifact(pin, advance) for pin in pins]


def make(
    release: Release, use: Literal["cuda", "cpu"], arch: Arch, *, upgrade: bool = False
) -> Path:
    """Resolve the official wheel's requirements, without extras, and write the lock.

    Beside it ``overrides.<use>.txt`` replaces requirements that no index can meet, and
    ``constraints.<use>.txt`` narrows what upstream leaves open. Without ``upgrade``,
    versions of an existing lock are kept if the requirements allow it.
    """
    pinned = release.wheel(use, arch)
    # No package index keeps local versions such as torch 2.13.0+cpu (PEP 440).
    wanted = [
        re.sub(r"(==[^+,;\s]+)\+[A-Za-z0-9.]+", r"\1", text)
        for text in requirements(fetch.artifact(pinned))
    ]
    local = {}
    for name in ("override", "constraint"):
        file = lock_file(release, use, arch).with_name(f"{name}s.{use}.txt")
        if file.is_file():
            local[name] = file.read_text(encoding="utf-8")
    head = (
        f"Packages of an image of vLLM {release.name} for {use} on {arch}, "
        "beside vLLM.",
        "Made by nox -s pin -- --lock from the requirements of the official wheel,",
        f"{pinned.file} sha256:{pinned.sha256};",
        *(f"{name}s in {name}s.{use}.txt;" for name in local),
        "do not edit.",
    )
    place = lock_file(release, use, arch)
    _write(place, head, wanted, arch, upgrade=upgrade, **local)
    return place


def requirements(wheel: Path) -> list[str]:
    """Return the requirements that a wheel's METADATA lists."""
    try:
        (found,) = distributions(path=[str(wheel)])
        return found.requires or []
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise PatchsetError(
            f"{wheel.name} has no METADATA that can be read: {error}",
            "the official wheel is damaged: check the pin",
        ) from error


def make_build(
    release: Release, tree: Path, arch: Arch, *, upgrade: bool = False
) -> Path:
    """Lock what compiles a release: its stock tree's build requirements, with CUDA."""
    dockerfile = (tree / "docker" / "Dockerfile").read_text(encoding="utf-8")
    found = _CUDA_VERSION.search(dockerfile)
    declared = tree / "requirements" / "build" / "cuda.txt"
    if found is None or not declared.is_file():
        raise PatchsetError(
            f"{tree} does not name CUDA_VERSION and its build requirements as before",
            "extend scripts/patchset/inputs/lock.py",
        )
    cuda = found[1]
    wanted = declared.read_text(encoding="utf-8").splitlines()
    wanted += [f"cuda-toolkit[{_TOOLKIT}]=={cuda}.*", _CUTLASS]
    head = (
        f"What compiles the modules of vLLM {release.name} (CUDA {cuda})",
        f"on {arch}. Made by nox -s pin -- --lock; do not edit.",
    )
    place = lock_file(release, "build", arch)
    unneeded = "".join(f"{name} ; python_version < '3'\n" for name in _NOT_NEEDED)
    _write(place, head, wanted, arch, upgrade=upgrade, override=unneeded)
    return place


def _write(
    place: Path,
    head: Iterable[str],
    wanted: list[str],
    arch: Arch,
    *,
    upgrade: bool,
    override: str = "",
    constraint: str = "",
) -> None:
    """Resolve by uv for Debian 12 and write the lock."""
    settings = index.pip_settings()
    command = [find_uv_bin(), "pip", "compile", "--no-config", "--quiet", "--no-header"]
    command += ["--format", "pylock.toml", "--output-file", "pylock.toml"]
    command += ["--python-version", PYTHON, "--only-binary", ":all:"]
    command += ["--python-platform", f"{arch}-manylinux_{GLIBC[0]}_{GLIBC[1]}"]
    command += ["--overrides", "override.txt", "--constraints", "constraint.txt"]
    command += ["wanted.txt"]
    if not settings.index_urls:
        command.append("--no-index")
    with (
        console.step(f"resolve {place.name} of {place.parent.name}"),
        files.scratch(paths.build_dir()) as folder,
    ):
        (folder / "wanted.txt").write_text("\n".join(wanted) + "\n", encoding="utf-8")
        (folder / "override.txt").write_text(override, encoding="utf-8")
        (folder / "constraint.txt").write_text(constraint, encoding="utf-8")
        if place.is_file() and not upgrade:
            made = place.read_text(encoding="utf-8")
            (folder / "pylock.toml").write_text(made, encoding="utf-8")
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(settings),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PatchsetError(
                f"uv could not resolve: {tail(done.stderr, 3000)}",
                "where the index lacks a version that upstream asks for, name another "
                "in overrides.TARGET.txt beside the lock, with the reason as a "
                "comment; 'pip config list' shows which indexes are asked",
            )
        made = (folder / "pylock.toml").read_text(encoding="utf-8")
    select = create_compatible_tags_selector(image_tags(arch))
    machine = f"sys_platform == 'linux' and platform_machine == '{arch}'"
    lines = [
        *(f"# {line}" for line in head),
        'lock-version = "1.0"',
        'created-by = "vllm-mtp-patches"',
        f'environments = ["{machine}"]',
        f'requires-python = "=={PYTHON}.*"',
    ]
    for package in Pylock.from_dict(tomllib.loads(made)).packages:
        tagged = (
            (w, parse_wheel_filename(w.filename)[-1]) for w in package.wheels or ()
        )
        try:
            wheel = _locked(package, list(islice(select(tagged), 1))).wheel
        except ValueError as error:
            raise PatchsetError(
                f"the index has no wheel of {package.name} {package.version} with a "
                "sha256 and a size",
                "name another version in overrides.TARGET.txt beside the lock, or "
                "use an index that states them (PEP 691, PEP 700), such as PyPI",
            ) from error
        lines += [
            "",
            "[[packages]]",
            f'name = "{package.name}"',
            f'version = "{package.version}"',
            f'wheels = [{{ path = "{wheel.file}", size = {wheel.size}, '
            f'hashes = {{ sha256 = "{wheel.sha256}" }} }}]',
        ]
    files.write_text(place, "\n".join(lines) + "\n")


def image_tags(arch: Arch) -> list[Tag]:
    """Return the wheel tags that the image's Python takes, best first (PEP 425, PEP
    600).
    """
    platforms = [f"manylinux_2_{minor}" for minor in range(GLIBC[1], 4, -1)]
    platforms += ["manylinux2014", "manylinux2010", "manylinux1", "linux"]
    platforms = [f"{platform}_{arch}" for platform in platforms]
    python = tuple(map(int, PYTHON.split(".")))
    interpreter = f"cp{PYTHON.replace('.', '')}"
    return [
        *cpython_tags(python, platforms=platforms),
        *compatible_tags(python, interpreter, platforms),
    ]


def environment(settings: Settings) -> dict[str, str]:
    """Return this process's environment, with pip's settings in place of uv's own.

    A lock must hold what everybody can get: folders of this machine count only if pip
    has nothing else. Indexes are variables, not arguments: their URLs may hold
    credentials, and every user can read arguments.
    """
    result = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("UV_") or name.removeprefix("UV_") in _KEPT
    }
    result["UV_HTTP_TIMEOUT"] = str(max(1, round(settings.timeout)))
    remote = [url for url in settings.index_urls if url.startswith("http")]
    if urls := remote or settings.index_urls:
        result |= {
            "UV_DEFAULT_INDEX": urls[0],
            "UV_INDEX": " ".join(urls[1:]),
            "UV_INDEX_STRATEGY": "unsafe-best-match",
            "UV_INSECURE_HOST": " ".join(settings.trusted_hosts),
        }
    optional = {
        "SSL_CERT_FILE": settings.cert,
        "SSL_CLIENT_CERT": settings.client_cert,
        "HTTP_PROXY": settings.proxy,
        "HTTPS_PROXY": settings.proxy,
    }
    return result | {name: value for name, value in optional.items() if value}
