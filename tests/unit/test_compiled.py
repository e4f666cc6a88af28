# SPDX-License-Identifier: Apache-2.0
"""Mode source up to the compiler: what CMake files say, sources, the tree, the machine, and what Ninja says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import wheels
from conftest import Project, make_sdist

from patchset import git
from patchset.compiled import (
    cmake,
    ninja,
    preflight,
    symbols,
    third_party,
    toolchain,
    toolchain_lock,
    worktree,
)
from patchset.compiled.cmake import Source
from patchset.errors import MissingToolError, PatchsetError, UnavailableError, UsageError
from patchset.release import Release, load

TOP = """\
cmake_minimum_required(VERSION 3.26)
# set(CUTLASS_REVISION "v0")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS "11.3")
  message(FATAL_ERROR "GCC >= 11.3 is required (found ${CMAKE_CXX_COMPILER_VERSION}).")
endif()
set(TORCH_SUPPORTED_VERSION_CUDA "2.0.0")
define_extension_target(small DESTINATION vllm LANGUAGE CXX SOURCES csrc/small.cpp)
if(VLLM_GPU_LANG STREQUAL "CUDA")
  SET(CUTLASS_ENABLE_HEADERS_ONLY ON CACHE BOOL "Enable only the header library")
  set(CUTLASS_REVISION "v4.7.1")
  if (DEFINED ENV{VLLM_CUTLASS_SRC_DIR})
    set(VLLM_CUTLASS_SRC_DIR $ENV{VLLM_CUTLASS_SRC_DIR})
  endif()
  if(VLLM_CUTLASS_SRC_DIR)
    FetchContent_Declare(cutlass SOURCE_DIR ${VLLM_CUTLASS_SRC_DIR})
  else()
    FetchContent_Declare(
      cutlass
      GIT_REPOSITORY https://host.example/cutlass.git
      # in sync with the line above
      GIT_TAG ${CUTLASS_REVISION}
      GIT_SHALLOW TRUE)
  endif()
endif()
define_extension_target(_C LANGUAGE CUDA SOURCES ${SRC})
if(VLLM_GPU_LANG STREQUAL "HIP")
  define_extension_target(_rocm_C LANGUAGE HIP)
  include(cmake/external_projects/only_hip.cmake)
endif()

# DeepGEMM and DeepSelect host code uses C++20 <format>.
if (VLLM_GPU_LANG STREQUAL "CUDA"
    AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
    AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS "13")
  message(FATAL_ERROR
    "GCC >= 13 is required to build vLLM with CUDA (found ${CMAKE_CXX_COMPILER_VERSION}). "
    "The DeepGEMM and DeepSelect dependencies use C++20 <format> in host code, "
    "See: https://host.example/issues/58158")
endif()
if (VLLM_GPU_LANG STREQUAL "CUDA")
  include(cmake/external_projects/deepgemm.cmake)
  include(cmake/external_projects/kernels.cmake)
endif ()
"""

DEEPGEMM = """\
if (DEFINED ENV{DEEPGEMM_SRC_DIR})
  set(DEEPGEMM_SRC_DIR $ENV{DEEPGEMM_SRC_DIR})
endif()
if(DEEPGEMM_SRC_DIR)
  message(STATUS "local")
else()
  set(_REPO "https://host.example/DeepGEMM.git")
  set(_TAG "0820030756945b2daec208e8e8255268360f337d")
  FetchContent_Populate(deepgemm SOURCE_DIR "${_src}" GIT_REPOSITORY "${_REPO}" GIT_TAG "${_TAG}"
    GIT_SUBMODULES "third-party/cutlass" "third-party/deep_jit" GIT_PROGRESS TRUE)
endif()
install(FILES "${_dg}/_C.py" DESTINATION x)
add_custom_target(_deep_gemm_C)
"""

KERNELS = """\
if (DEFINED ENV{KERNELS_SRC_DIR})
  FetchContent_Declare(kernels SOURCE_DIR $ENV{KERNELS_SRC_DIR})
else()
  if (VLLM_TARGET_DEVICE STREQUAL "rocm")
    set(GIT "https://host.example/rocm.git")
    set(TAG "669b31acc1dd1b3fd93286afd5db67f65d9f7557")
  else()
    set(GIT "https://host.example/kernels.git")
    set(TAG "v3.5.1")
  endif()
  FetchContent_Declare(kernels GIT_REPOSITORY ${GIT} GIT_TAG ${TAG} SOURCE_SUBDIR python/kernels)
endif()
add_custom_target(kernels)
"""

SETUP = """\
ext_modules.append(CMakeExtension(name="vllm.small"))
ext_modules.append(CMakeExtension(name="vllm.kernels", optional=True))
ext_modules.append(CMakeExtension(name="vllm._rocm_C"))
ext_modules.append(
    CMakeExtension(name="vllm._deep_gemm_C", optional=True))
ext_modules.append(CMakeExtension(name="vllm._C"))
"""

FILES = {
    "CMakeLists.txt": TOP,
    "setup.py": SETUP,
    "cmake/external_projects/deepgemm.cmake": DEEPGEMM,
    "cmake/external_projects/kernels.cmake": KERNELS,
    "csrc/small.cpp": "int small;\n",
}

CUTLASS = Source(
    "cutlass", "CMakeLists.txt", "https://host.example/cutlass.git", "v4.7.1", "VLLM_CUTLASS_SRC_DIR"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with CMake files of the forms that vLLM's have, as a git repository."""
    folder = tmp_path / "patched"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    if not (folder / ".git").is_dir():
        git.run(folder, "init", "--quiet")
    git.run(folder, "add", "--all")
    git.run(folder, "commit", "--quiet", "--message", "x", epoch=1_700_000_000)


def test_third_party_sources_are_read_off_the_cmake_files(tree: Path) -> None:
    external = "cmake/external_projects/"
    assert cmake.third_party(tree) == [
        CUTLASS,
        Source(
            "deepgemm", external + "deepgemm.cmake", "https://host.example/DeepGEMM.git",
            "0820030756945b2daec208e8e8255268360f337d", "DEEPGEMM_SRC_DIR",
            ("third-party/cutlass", "third-party/deep_jit"),
        ),
        Source(
            "kernels", external + "kernels.cmake", "https://host.example/kernels.git", "v3.5.1", "KERNELS_SRC_DIR",
            subfolder="python/kernels",
        ),
    ]  # fmt: skip
    assert [(module.name, module.external) for module in cmake.modules(tree)] == [
        ("small", ""),
        ("_C", ""),
        ("kernels", external + "kernels.cmake"),
        ("_deep_gemm_C", external + "deepgemm.cmake"),
    ]
    assert cmake.oldest_gcc(tree) == ["11.3", "13"]


def test_a_way_of_fetching_that_is_not_understood_is_an_error(tree: Path) -> None:
    file = tree / "cmake/external_projects/kernels.cmake"
    file.write_text("FetchContent_Declare(kernels GIT_REPOSITORY ${UNKNOWN} GIT_TAG v1)\n")
    with pytest.raises(
        PatchsetError, match=r"kernels\.cmake fetches kernels in a way that is not understood"
    ):
        cmake.third_party(tree)


def test_the_pin_says_what_the_source_says(project: Project, tree: Path) -> None:
    text = third_party.pin_text(make_sdist(project.downloads, FILES, "1.2.1"), "v1.2.0")
    assert text and 'tag = "v4.7.1"' in text and 'commit = "0820030756945b2daec208e8e8255268360f337d"' in text
    place = third_party.pin_file(load().folder)
    with pytest.raises(PatchsetError, match="does not exist"):
        third_party.check_pin(load(), tree)
    place.write_text(text)
    third_party.check_pin(load(), tree)
    place.write_text(text.replace("v4.7.1", "v4.7.0"))
    with pytest.raises(PatchsetError, match="is not what the CMake files of the source say"):
        third_party.check_pin(load(), tree)


def test_a_pin_is_written_once_and_compared(project: Project) -> None:
    sdist = make_sdist(project.downloads, FILES, "1.2.1")
    folder = load().folder
    assert third_party.write_pin(folder, "v1.2.0", sdist, check=True)
    assert not third_party.pin_file(folder).exists()
    assert third_party.write_pin(folder, "v1.2.0", sdist)
    assert not third_party.write_pin(folder, "v1.2.0", sdist)
    plain = make_sdist(project.downloads, {"pkg/parser.py": ""}, "1.2.2")
    assert not third_party.write_pin(folder, "v1.2.0", plain) and not third_party.write_pin(
        folder, "v1.2.0", None
    )


def repository(folder: Path) -> str:
    """A repository with a tag v1; its HEAD."""
    folder.mkdir(parents=True)
    (folder / "file").write_text("one\n")
    commit(folder)
    git.run(folder, "tag", "v1")
    return git.text(folder, "rev-parse", "HEAD")


def official(folder: Path, extra: dict[str, bytes]) -> Path:
    return wheels.write(
        folder / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl", wheels.contents("vllm") | extra
    )


def test_sources_come_by_commit_or_tag_and_stay(project: Project, tmp_path: Path) -> None:
    head = repository(tmp_path / "remote")
    wheel = official(tmp_path, {})
    remote = (tmp_path / "remote").as_uri()
    wanted = [Source("a", "x", remote, head, "A_SRC_DIR"), Source("b", "x", remote, "v1", "B_SRC_DIR")]
    for had in third_party.bring(wanted, wheel):
        assert (
            had.folder / "file"
        ).read_text() == "one\n" and had.origin == f"{remote} at {had.source.revision}"
    shutil.rmtree(tmp_path / "remote")
    assert [had.source for had in third_party.bring(wanted, wheel)] == wanted


def test_what_cannot_be_had_is_named_at_once(project: Project, tmp_path: Path) -> None:
    gone = (tmp_path / "gone").as_uri()
    wanted = [Source(name, "x", gone, "v1", "X_SRC_DIR") for name in ("flashmla", "cutlass", "deepgemm")]
    with pytest.raises(UnavailableError) as caught:
        third_party.bring(wanted, official(tmp_path, {}))
    assert all(
        f"{name}: {gone} at v1" in caught.value.message for name in ("flashmla", "cutlass", "deepgemm")
    )
    assert "named flashmla, cutlass, deepgemm, and give it with --third-party" in (caught.value.hint or "")


def test_a_given_checkout_must_be_at_the_pinned_commit(project: Project, tmp_path: Path) -> None:
    head = repository(tmp_path / "given" / "flashmla")
    wheel = official(tmp_path, {})
    right = Source("flashmla", "x", "file:///gone", head, "X_SRC_DIR")
    (had,) = third_party.bring([right], wheel, given=tmp_path / "given")
    assert had.folder == (tmp_path / "given" / "flashmla").resolve()
    wrong = Source("flashmla", "x", "file:///gone", "0" * 40, "X_SRC_DIR")
    with pytest.raises(
        PatchsetError, match=rf"is at {head[:12]}; the release builds flashmla at 000000000000"
    ):
        third_party.bring([wrong], wheel, given=tmp_path / "given")


def test_cutlass_of_the_official_wheel_stands_in(project: Project, tmp_path: Path) -> None:
    header = b"#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 8\n#define CUTLASS_PATCH 0\n"
    top = "vllm/third_party/some/cutlass"
    files = {
        f"{top}/include/cutlass/version.h": header,
        f"{top}/tools/util/include/x.h": b"x",
        f"{top}/docs": b"",
    }
    source = Source("cutlass", "x", (tmp_path / "gone").as_uri(), "v4.7.1", "VLLM_CUTLASS_SRC_DIR")
    (had,) = third_party.bring([source], official(tmp_path, files))
    assert "which is 4.8.0 where the release builds with 4.7.1" in had.origin
    assert (had.folder / "tools/util/include/x.h").is_file() and not (had.folder / "docs").exists()


def test_the_tree_leaves_out_what_no_module_needs(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    modules = {module.name: module for module in cmake.modules(tree)}
    chosen = worktree.plan(tree, [modules["small"]])
    assert [source.name for source in chosen.sources] == ["cutlass"] and not chosen.asks_newer_gcc
    worktree.prepare(tree, folder, chosen)
    for name in ("deepgemm", "kernels"):
        assert (folder / f"cmake/external_projects/{name}.cmake").read_text() == worktree.LEFT_OUT
    assert cmake.oldest_gcc(folder) == ["11.3"]
    assert (folder / "CMakeLists.txt").read_text().count("endif") == TOP.count("endif") - 1
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if ".git" not in file.parts}
    time.sleep(0.02)
    worktree.prepare(tree, folder, chosen)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    # Somebody's edit is no part of the series.
    (folder / "csrc/small.cpp").write_text("int other;\n")
    worktree.prepare(tree, folder, chosen)
    assert (folder / "csrc/small.cpp").read_text() == FILES["csrc/small.cpp"]
    with_deepgemm = worktree.plan(tree, [modules["small"], modules["_deep_gemm_C"]])
    assert [source.name for source in with_deepgemm.sources] == ["cutlass", "deepgemm"]
    assert with_deepgemm.asks_newer_gcc
    worktree.prepare(tree, folder, with_deepgemm)
    assert (folder / "CMakeLists.txt").read_text() == TOP
    assert (folder / "cmake/external_projects/deepgemm.cmake").read_text() == DEEPGEMM
    (folder / ".git/index.lock").touch()
    # Another commit of the patched tree: what it changes is changed, what it does not keeps its time.
    time.sleep(0.02)
    (tree / "csrc/small.cpp").write_text("int patched;\n")
    commit(tree)
    worktree.prepare(tree, folder, chosen)
    assert (folder / "csrc/small.cpp").read_text() == "int patched;\n"
    assert (folder / "setup.py").stat().st_mtime_ns == before[folder / "setup.py"]


@pytest.fixture
def ready(project: Project, tree: Path) -> tuple[Release, Path, worktree.Plan]:
    """A release, its tree, and a plan of its modules; the toolchain is the user's own."""
    modules = [module for module in cmake.modules(tree) if not module.external]
    return load(), tree, worktree.plan(tree, modules)


def check(ready: tuple[Release, Path, worktree.Plan], jobs: int | None = None) -> preflight.Machine:
    release, tree, chosen = ready
    return preflight.check(release, this_machine(), tree, chosen, jobs, True)


def this_machine() -> object:
    from patchset.commands import options

    return options.this_machine()


def compiler(folder: Path, says: str) -> str:
    program = folder / "some-g++"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    program.chmod(0o755)
    return str(program)


GCC = "g++ (Debian {v}-1) {v}\nCopyright (C) 2022 Free Software Foundation, Inc."


def test_a_missing_or_old_compiler_is_said_before_anything_is_compiled(
    ready: tuple[Release, Path, worktree.Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    with pytest.raises(MissingToolError, match=r"there is no C\+\+ compiler"):
        check(ready)
    monkeypatch.setenv("CXX", compiler(tmp_path, GCC.format(v="10.2.1")))
    with pytest.raises(MissingToolError, match=r"is GCC 10\.2\.1; these modules need 11\.3 or newer"):
        check(ready)
    monkeypatch.setenv("CXX", compiler(tmp_path, GCC.format(v="12.2.0")))
    assert check(ready).compiler == "g++ (Debian 12.2.0-1) 12.2.0"
    release, tree, _ = ready
    everything = worktree.plan(tree, cmake.modules(tree))
    with pytest.raises(MissingToolError, match="need 13 or newer") as caught:
        check((release, tree, everything))
    assert "vLLM's own modules alone need no such new one" in (caught.value.hint or "")


def test_too_little_disk_or_memory_is_said(
    ready: tuple[Release, Path, worktree.Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, GCC.format(v="12.2.0")))
    free = preflight.free_memory()
    assert check(ready, jobs=3).jobs == 3
    assert 1 <= check(ready).jobs <= max(1, free // preflight.PER_CUDA_JOB + 1)
    monkeypatch.setattr(preflight, "PER_CUDA_JOB", 1 << 60)
    with pytest.raises(PatchsetError, match=r"one compiler needs up to .* GB of memory, and .* GB are free"):
        check(ready)
    monkeypatch.setattr(preflight, "OBJECTS", 1 << 60)
    with pytest.raises(PatchsetError, match=r"compiling needs .* GB in .*build, and .* GB are free"):
        check(ready)


def test_another_processor_is_refused(ready: tuple[Release, Path, worktree.Plan]) -> None:
    release, tree, chosen = ready
    other = "aarch64" if os.uname().machine == "x86_64" else "x86_64"
    with pytest.raises(UsageError, match=f"modules for {other} are compiled on {other}"):
        preflight.check(release, other, tree, chosen, None, True)


def test_a_build_folder_with_a_space_is_refused(
    ready: tuple[Release, Path, worktree.Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "my build"))
    with pytest.raises(UsageError, match="has a space in its name"):
        check(ready)


def fake_torch(folder: Path, version: str, cuda: str) -> None:
    (folder / "torch").mkdir(parents=True, exist_ok=True)
    text = f"__version__ = {version!r}\nfrom torch import version\n"
    (folder / "torch/__init__.py").write_text(text)
    (folder / "torch/version.py").write_text(f"cuda = {cuda}\n")


def test_a_torch_of_another_version_is_refused(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "cuda/bin").mkdir(parents=True)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    python = Path(sys.executable)
    for version, cuda, words in (
        ("2.1.0", "'12.1'", "has torch 2.1.0; v1.2.0 is compiled with torch 2.0.0"),
        ("2.0.0+cpu", "None", "is built without CUDA"),
        ("2.0.0", "'12.1'", "has no CUDA compiler"),
    ):
        fake_torch(tmp_path, version, cuda)
        with pytest.raises(UsageError, match=words):
            toolchain.own(python, load())
    (tmp_path / "cuda/bin/nvcc").write_text(
        "#!/bin/sh\necho 'Cuda compilation tools, release 12.1, V12.1.66'\n"
    )
    (tmp_path / "cuda/bin/nvcc").chmod(0o755)
    assert toolchain.own(python, load()).nvcc_version() == "12.1.66"


def test_a_release_without_a_lock_of_its_tools_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match=r"v1\.2\.0 has no requirements\.build\.lock"):
        toolchain.place(load())


def test_what_ninja_says_is_made_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader = ninja.Reader(tmp_path / "build.log")
    reader.line("[1/4] Building CXX object a.o")
    reader.line("/x/a.h:3:1: warning: unused [-Wunused]")
    reader.line("[2/4] Building CUDA object CMakeFiles/m.dir/b.cu.o")
    reader.line("FAILED: [code=1] CMakeFiles/m.dir/c.cu.o")
    reader.line("nvcc " + "-DX " * 200)
    reader.line('/x/c.cu(7): error: identifier "y" is undefined')
    reader.line("ninja: build stopped: subcommand failed.")
    assert (reader.done, reader.total, reader.warnings) == (2, 4, 1)
    said = reader.explanation()
    assert said.startswith("c.cu.o could not be made\n  /x/c.cu(7): error: identifier")
    assert str(tmp_path / "build.log") in said and max(map(len, said.splitlines())) < 200
    assert "1 of 4 files" in capsys.readouterr().err
    killed = ninja.Reader(tmp_path / "build.log")
    killed.line("g++: fatal error: Killed signal terminated program cc1plus")
    assert "ran out of memory: fewer --jobs" in killed.explanation()


def test_durations() -> None:
    assert [ninja.duration(seconds) for seconds in (4, 600, 7200)] == ["4 s", "10 min", "2 h 0 min"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no compiler")
def test_exported_symbols_are_compared(tmp_path: Path) -> None:
    for name, code in (
        ("here", "int both, here; static int hidden;"),
        ("there", "int both; int there(void) {return 1;}"),
    ):
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{name}.so"], input=code, text=True, cwd=tmp_path, check=True
        )  # fmt: skip
    found = symbols.compare(tmp_path / "here.so", tmp_path / "there.so")
    assert (found.common, found.only_here, found.only_official) == (1, ["here"], ["there"])
    assert "the same as" in symbols.compare(tmp_path / "here.so", tmp_path / "here.so").words()
    calls = "int cuMemFree_v2(void); int both(void) { return cuMemFree_v2(); }"
    (tmp_path / "cuda.h").write_text("int cuMemFree(int); /* cuMemFree_v2 CUresult */\n")
    toolchain._stand_in(tmp_path / "cuda.h", tmp_path / "stubs")
    for name, driver in (("with", ["-Wl,--as-needed", "-Lstubs", "-lcuda"]), ("without", [])):
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{name}.so", *driver],
            input=calls, text=True, cwd=tmp_path, check=True,
        )  # fmt: skip
    assert symbols.compare(tmp_path / "here.so", tmp_path / "with.so").not_linked == ["libcuda.so.1"]
    with pytest.raises(
        PatchsetError, match=r"without\.so calls cuMemFree_v2 of the CUDA driver and is not linked"
    ):
        symbols.compare(tmp_path / "without.so", tmp_path / "with.so")
    (tmp_path / "text").write_text("x")
    with pytest.raises(PatchsetError, match="text cannot be read"):
        symbols.exported(tmp_path / "text")


def test_what_compiles_is_read_off_the_tree(project: Project, tree: Path) -> None:
    (tree / "docker").mkdir()
    (tree / "docker/Dockerfile").write_text("FROM x\nARG CUDA_VERSION=13.0.3\nARG CUDA_VERSION\n")
    assert toolchain_lock.cuda_version(tree) == "13.0"
    with pytest.raises(PatchsetError, match=r"has none of requirements/build/cuda\.txt"):
        toolchain_lock.make(load(), tree)
    (tree / "requirements/build").mkdir(parents=True)
    (tree / "requirements/build/cuda.txt").write_text("# mirrored\ntorch==2.0.0  # why\n-r other.txt\n")
    with pytest.raises(PatchsetError, match=r"cuda\.txt: '-r other\.txt'"):
        toolchain_lock.make(load(), tree)
    (tree / "docker/Dockerfile").write_text("ARG CUDA_VERSION=12.9.1\n")
    with pytest.raises(
        UsageError, match=r"built with CUDA 12\.9, whose packages do not make one CUDA root"
    ) as caught:
        toolchain_lock.make(load(), tree)
    assert "--python PYTHON (with CUDA_HOME set)" in (caught.value.hint or "")
    (tree / "docker/Dockerfile").write_text("FROM x\n")
    with pytest.raises(PatchsetError, match="does not name CUDA_VERSION"):
        toolchain_lock.cuda_version(tree)
