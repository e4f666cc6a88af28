# SPDX-License-Identifier: Apache-2.0
"""Mode source: compile modules of the patched tree with vLLM's own build backend.

Only vLLM's own modules are compiled. Those of other projects (flash-attention,
FlashMLA, DeepGEMM and more) and of crates are the official wheel's.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from uv import find_uv_bin

from patchset import console, files, git, paths, process
from patchset.errors import PatchsetError, UsageError
from patchset.inputs import fetch, lock
from patchset.inputs.lock import Locked
from patchset.release import Arch, Release
from patchset.series.apply import PatchedRelease, patched_tree
from patchset.wheel import overlay
from patchset.wheel.archive import Wheel

#: CMake links this library; it comes with a GPU's driver.
DRIVER = "libcuda.so.1"
#: Where the toolkit's packages make a CUDA root.
_CUDA_ROOT = "nvidia/cu13"
_CUTLASS = re.compile(
    r"(vllm/third_party/\w+/cutlass)/(?:include|tools/util/include)/."
)
_OWN = re.compile(r"^\s*define_extension_target\(\s*(\w+)", re.MULTILINE)
_SETUP = re.compile(r"CMakeExtension\(\s*name=\"vllm\.(\w+)\"")
_EXTERNAL = re.compile(r"^\s*include\(cmake/external_projects/[\w.]+\)$", re.MULTILINE)
#: Asks for a compiler that only other projects need.
_NEWER_GCC = re.compile(
    r"^if ?\([^()]*CMAKE_CXX_COMPILER_VERSION VERSION_LESS \"\d+\"\)\s*"
    r"message\(FATAL_ERROR[^\0]*?DeepGEMM[^\0]*?^endif\(\)$",
    re.MULTILINE,
)


def build(
    patched: PatchedRelease,
    arch: Arch,
    names: tuple[str, ...] = (),
    *,
    archs: str = "9.0",
    jobs: int | None = None,
) -> Path:
    """Compile modules and build the wheel, in ``build/wheels/<release>/cuda-source``.

    ``names`` chooses modules, all of vLLM's own without any. What was compiled stays in
    ``build/source/<release>-<arch>``, where the next run continues.
    """
    release = patched.pin
    if patched.target != "cuda":
        raise UsageError("modules are compiled for cuda only", "use --target cuda")
    overlay.check_series(patched, "source")
    packages = lock.read(release, "build", arch)
    tree = patched_tree(release)
    names = choose(tree, names)
    pinned = patched.wheel(arch)
    official = fetch.artifact(pinned)
    key = re.sub(r"[^0-9A-Za-z.+]+", "_", archs)
    folder = paths.build_dir() / "source" / f"{release.name}-{arch}-{key}"
    python = toolchain(packages)
    with files.lock(folder), files.explain_full_disk(folder), Wheel(official) as stock:
        prepare(tree, folder / "tree")
        cutlass = cutlass_headers(stock, folder / "cutlass")
        env = environment(release, folder, python, cutlass, archs, jobs)
        compiled = {
            name: content
            for name, content in compile_modules(folder, python, names, env).items()
            if name not in stock.members or stock.read(name) != content
        }
        out = paths.build_dir() / "wheels" / release.name / f"{patched.target}-source"
        return overlay.write(out, stock, patched, pinned, compiled)


def choose(tree: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return modules to compile, of those that ``CMakeLists.txt`` itself defines."""
    cmake = (tree / "CMakeLists.txt").read_text()
    own = set(_OWN.findall(cmake))
    listed = dict.fromkeys(_SETUP.findall((tree / "setup.py").read_text()))
    known = [name for name in listed if name in own]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(
            f"vLLM has no CUDA module {', '.join(unknown)} of its own",
            f"it has {', '.join(known)}",
        )
    # Modules of other targets cannot be asked for by their absence.
    return names or tuple(name for name in known if name not in ("_C", "_rocm_C"))


def prepare(patched: Path, folder: Path) -> None:
    """Check the patched tree out into ``folder``, without other projects.

    The checkout is kept and only changed files are written, for Ninja's sake.
    """
    if not (folder / ".git").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        git.run(folder, "init", "--quiet")
    (folder / ".git" / "index.lock").unlink(missing_ok=True)  # of a killed run
    git.run(folder, "fetch", "--quiet", "--no-tags", str(patched), "HEAD")
    git.run(folder, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    place = folder / "CMakeLists.txt"
    text = _EXTERNAL.sub("", place.read_text())
    place.write_text(_NEWER_GCC.sub("", text))


def cutlass_headers(stock: Wheel, folder: Path) -> Path:
    """Return CUTLASS' headers, as the official wheel has them, unpacked as a folder."""
    if not folder.is_dir():
        tops = {match[1] for name in stock.members if (match := _CUTLASS.match(name))}
        if not tops:
            raise PatchsetError(
                f"{stock.path.name} has no headers of CUTLASS",
                "only a release whose wheel has them can be compiled",
            )
        top = min(tops)
        names = [n for n in filter(_CUTLASS.match, stock.members) if n.startswith(top)]
        with files.scratch(folder.parent) as temp, ZipFile(stock.path) as archive:
            archive.extractall(temp, names)
            (temp / top).rename(folder)
    return folder


def toolchain(packages: list[Locked]) -> Path:
    """Return the Python of the locked toolchain, installed if it is not there yet."""
    sums = sorted(package.wheel.sha256 for package in packages)
    digest = hashlib.sha256("\n".join(sums).encode()).hexdigest()[:12]
    folder = paths.build_dir() / "source" / f"toolchain-{digest}"
    with files.lock(folder):
        if not folder.is_dir():
            wheels = lock.gather(packages)
            with (
                console.step(f"install the compiler's environment into {folder}"),
                files.atomic_folder(folder) as temp,
            ):
                python, uv = temp / "bin" / "python", find_uv_bin()
                # Modules are compiled for it: with its headers, as Debian packages it.
                venv = ["venv", "--relocatable", "--allow-existing"]
                venv += ["--python-preference", "only-system", "--python", lock.PYTHON]
                install = ["pip", "install", "--no-deps", "--no-index", "--python"]
                alone = ["--quiet", "--offline", "--no-cache", "--no-config"]
                process.run([uv, *venv, temp, *alone], prefix="uv")
                process.run([uv, *install, python, *wheels, *alone], prefix="uv")
                complete_cuda(_cuda_root(temp))
    return folder / "bin" / "python"


def complete_cuda(root: Path) -> None:
    """Add what CMake looks for and the packages lack: names, and a driver to link."""
    libraries = root / "lib"
    (root / "lib64").symlink_to("lib")
    for library in sorted(libraries.glob("*.so.*")):
        plain = libraries / f"{library.name.partition('.so.')[0]}.so"
        if not plain.exists():
            plain.symlink_to(library.name)
    stubs = libraries / "stubs"
    stubs.mkdir()
    # It defines all that the header names: the linker leaves out a library that it
    # takes nothing from (--as-needed), and the module would not find the driver.
    names = sorted(
        set(re.findall(r"\bcu[A-Z]\w*", (root / "include" / "cuda.h").read_text()))
    )
    source = stubs / "libcuda.c"
    source.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in names))
    compiler = os.environ.get("CC", "gcc")
    link = ["-shared", f"-Wl,-soname,{DRIVER}", "-o", "libcuda.so", source.name]
    process.run([compiler, *link], prefix=compiler, cwd=stubs)


def compile_modules(
    folder: Path, python: Path, names: tuple[str, ...], env: Mapping[str, str]
) -> dict[str, bytes]:
    """Run the build backend; the modules that it made, by their names in the wheel."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    with console.step(f"compile {', '.join(names)} for {env['TORCH_CUDA_ARCH_LIST']}"):
        driver = Path(__file__).with_name("source_driver.py")
        process.run(
            [python, driver, ",".join(names), folder / "objects", out],
            prefix="build",
            env=env,
            cwd=folder / "tree",
        )
    return {
        file.relative_to(out).as_posix(): file.read_bytes()
        for file in sorted(out.rglob("*.so"))
    }


def environment(
    release: Release,
    folder: Path,
    python: Path,
    cutlass: Path,
    archs: str,
    jobs: int | None,
) -> dict[str, str]:
    """Return the build's variables: of the caller's only programs, compilers and
    ccache.
    """
    cuda = _cuda_root(python.parent.parent)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "TMPDIR", "CC", "CXX") or name.startswith("CCACHE_")
    }
    programs = [str(python.parent), str(cuda / "bin"), kept.get("PATH", os.defpath)]
    # Modules hold no path of this machine, so that they are the same bytes elsewhere.
    maps = [
        f"-ffile-prefix-map={folder}=.",
        f"-ffile-prefix-map={paths.build_dir()}=..",
    ]
    arguments = [
        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
        f"-DCUTLASS_INCLUDE_DIR={cutlass}/include",
        f"-DCUTLASS_TOOLS_UTIL_INCLUDE_DIR={cutlass}/tools/util/include",
    ]
    return kept | {
        "PATH": os.pathsep.join(programs),
        "CUDA_HOME": str(cuda),
        "CUDACXX": str(cuda / "bin" / "nvcc"),
        "CFLAGS": " ".join(maps),
        "CXXFLAGS": " ".join(maps),
        "NVCC_APPEND_FLAGS": " ".join(f"-Xcompiler={flag}" for flag in maps),
        "NVCC_THREADS": "1",
        "MAX_JOBS": str(jobs or os.cpu_count() or 1),
        "CMAKE_ARGS": " ".join(arguments),
        "CMAKE_BUILD_TYPE": "Release",
        "FETCHCONTENT_BASE_DIR": str(folder / "deps"),
        "TORCH_CUDA_ARCH_LIST": archs,
        "VLLM_CUTLASS_SRC_DIR": str(cutlass),
        "VLLM_TARGET_DEVICE": "cuda",
        "VLLM_VERSION_OVERRIDE": release.built_version("cuda"),
        "SOURCE_DATE_EPOCH": str(release.source_date_epoch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        # A build that downloads something fails, and is seen.
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }


def _cuda_root(environment: Path) -> Path:
    return next(environment.glob("lib/python3.*/site-packages")) / _CUDA_ROOT
