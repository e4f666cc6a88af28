# SPDX-License-Identifier: Apache-2.0
"""Wheels of mode source: modules compiled from a made-up tree, by the real compiler."""

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from conftest import (
    OFFICIAL,
    SOURCE,
    Project,
    build_wheel,
    diff_line,
    lay,
    make_sdist,
    official_files,
    pin_official,
    release_toml,
)
from patchset.errors import UsageError
from patchset.wheel import source
from patchset.wheel.archive import Wheel

CMAKE = """\
cmake_minimum_required(VERSION 3.26)
if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS "11.3")
  message(FATAL_ERROR "GCC >= 11.3 is required")
endif()
define_extension_target(
  _C
  SOURCES csrc/_C.c)
  define_extension_target(
    spinloop
  )
if (VLLM_GPU_LANG STREQUAL "CUDA"
    AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS "13")
  message(FATAL_ERROR
    "GCC >= 13 is required (found ${CMAKE_CXX_COMPILER_VERSION}). "
    "The DeepGEMM and DeepSelect dependencies use <format>")
endif()
if (VLLM_GPU_LANG STREQUAL "CUDA")
    include(cmake/external_projects/deepgemm.cmake)
    include(cmake/utils.cmake)
endif()
"""
SETUP = """\
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def CMakeExtension(name, optional=False):
    sources = [f"csrc/{name.rpartition('.')[2]}.c"]
    return Extension(name, sources, py_limited_api=True, optional=optional)


class cmake_build_ext(build_ext):
    def run(self):
        raise SystemExit("would copy other projects' folders")


setup(
    name="vllm",
    ext_modules=[
        CMakeExtension(name="vllm._C"),
        CMakeExtension(name="vllm.spinloop"),
        CMakeExtension(name="vllm._deep_gemm_C", optional=True),
    ],
    cmdclass={"build_ext": cmake_build_ext},
)
"""
MODULE = "#include <Python.h>\n" + "".join(f"/* {n} */\n" for n in range(9))
MODULE += "const char *told = __FILE__;\nPyObject *PyInit__C(void) { return NULL; }\n"
MODE = ("--mode", "source", "--modules", "_C")
CUTLASS = "vllm/third_party/fmha/cutlass"


@pytest.fixture
def compiled(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Make a release whose source has a module, and this Python in the toolchain's
    place.
    """
    tree = SOURCE | {
        "CMakeLists.txt": CMAKE,
        "setup.py": SETUP,
        "csrc/_C.c": MODULE,
    }
    project.pin.write_text(release_toml(make_sdist(project.downloads, tree)))
    contents = official_files("vllm")
    cutlass = (f"{CUTLASS}/include/cutlass/version.h", f"{CUTLASS}/LICENSE")
    contents |= dict.fromkeys(cutlass, b"#define CUTLASS_MAJOR 4\n")
    pin_official(project, contents)
    lock = 'lock-version = "1.0"\ncreated-by = "a test"\npackages = []\n'
    lay(project.root / "patches/locks/v1.2.0", {"pylock.build-x86_64.toml": lock})
    project.add_patch("0001-native", diff_line_of_module())
    python = Path(sys.prefix) / "bin" / "python"
    monkeypatch.setattr(source, "toolchain", lambda packages: python)
    return project


def diff_line_of_module() -> str:
    """Return a patch of the compiled source, and one of a Python file."""
    hunk = "@@ -3,7 +3,7 @@\n" + "".join(f" /* {n} */\n" for n in range(1, 4))
    hunk += "-/* 4 */\n+/* four */\n" + "".join(f" /* {n} */\n" for n in range(5, 8))
    native = "diff --git a/csrc/_C.c b/csrc/_C.c\n--- a/csrc/_C.c\n+++ b/csrc/_C.c\n"
    return native + hunk + diff_line(5, "five", "vllm/parser.py")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="compiling needs gcc")
def test_a_module_is_the_same_bytes_in_another_folder(
    compiled: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--mode source" in compiled.run("build-wheel", status=1).stderr
    wheel = build_wheel(compiled, *MODE)
    with zipfile.ZipFile(wheel) as made:
        module = made.read("vllm/_C.abi3.so")
        assert b"five" in made.read("vllm/parser.py")
    assert module.startswith(b"\x7fELF") and str(tmp_path).encode() not in module
    assert "has other content" in compiled.run("verify", str(wheel), status=1).stdout
    compiled.run(
        "verify",
        str(wheel),
        "--allow-compiled",
        out=("compiled vllm/_C.abi3.so", "0 deviations"),
    )
    first = wheel.read_bytes()
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "elsewhere"))
    assert build_wheel(compiled, *MODE).read_bytes() == first


@pytest.mark.skipif(shutil.which("gcc") is None, reason="compiling needs gcc")
def test_a_compiler_that_fails_leaves_no_wheel(compiled: Project) -> None:
    compiled.run("apply")
    broken = diff_line_of_module().replace("+/* four */", "+#error broken")
    compiled.diff("0001-native").unlink()
    compiled.series.write_text("")
    compiled.add_patch("0001-native", broken)
    compiled.run(
        "build-wheel", *MODE, status=1, err=("#error broken", "ended with status")
    )
    assert not list(compiled.root.glob("build/wheels/**/*.whl"))


def test_only_vllms_own_modules_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "setup.py").write_text(SETUP)
    assert source.choose(tmp_path, ()) == ("spinloop",)
    assert source.choose(tmp_path, ("_C",)) == ("_C",)
    with pytest.raises(UsageError, match="no CUDA module _deep_gemm_C of its own"):
        source.choose(tmp_path, ("_deep_gemm_C",))


def test_other_projects_are_taken_out_of_the_tree(compiled: Project) -> None:
    compiled.run("apply")
    folder = compiled.root / "build/copy"
    for _ in "ab":  # the second run finds what the first one left
        source.prepare(compiled.patched, folder)
        text = (folder / "CMakeLists.txt").read_text()
        assert "external_projects" not in text and "DeepGEMM" not in text
        assert "11.3" in text and "include(cmake/utils.cmake)" in text
    assert "four" in (folder / "csrc/_C.c").read_text()


def test_headers_of_cutlass(compiled: Project, tmp_path: Path) -> None:
    compiled.run("apply")
    with Wheel(compiled.downloads / OFFICIAL) as stock:
        made = source.cutlass_headers(stock, tmp_path / "cutlass")
        assert (made / "include/cutlass/version.h").is_file()
        assert not (made / "LICENSE").exists()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="linking needs gcc")
def test_a_cuda_root_of_packages_is_completed(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "lib/libcudart.so.13").touch()
    (tmp_path / "include/cuda.h").write_text("CUresult cuInit(unsigned);\n")
    source.complete_cuda(tmp_path)
    assert (tmp_path / "lib64/libcudart.so").resolve().name == "libcudart.so.13"
    driver = (tmp_path / "lib/stubs/libcuda.so").read_bytes()
    assert b"libcuda.so.1" in driver and b"cuInit" in driver


def test_what_cannot_be_compiled(compiled: Project) -> None:
    build = ("build-wheel", "--mode", "source", "--target", "cpu")
    assert "cuda only" in compiled.run(*build, status=2).stderr
    assert (
        "for --mode source"
        in compiled.run("build-wheel", "--jobs", "2", status=2).stderr
    )
