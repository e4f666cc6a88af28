# SPDX-License-Identifier: Apache-2.0
"""CMake files of the forms that vLLM's have, a source tree of them, and a torch to build it with."""

from __future__ import annotations

from pathlib import Path

from patchset import git

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


def commit(folder: Path) -> None:
    if not (folder / ".git").is_dir():
        git.run(folder, "init", "--quiet")
    git.run(folder, "add", "--all")
    git.run(folder, "commit", "--quiet", "--message", "x", epoch=1_700_000_000)


def write(folder: Path) -> Path:
    """The files as a git repository."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    commit(folder)
    return folder


def fake_torch(folder: Path, version: str, cuda: str) -> None:
    """A package that says it is torch of this version, for CUDA as given (a Python literal)."""
    (folder / "torch").mkdir(parents=True, exist_ok=True)
    text = f"__version__ = {version!r}\nfrom torch import version\n"
    (folder / "torch/__init__.py").write_text(text)
    (folder / "torch/version.py").write_text(f"cuda = {cuda}\n")
