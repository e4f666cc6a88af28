# SPDX-License-Identifier: Apache-2.0
"""Mode source: what CMake files say, third-party sources, and the tree that is built."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import cmake_files
import wheels
from conftest import Project, make_sdist
from patchset import git
from patchset.errors import PatchsetError, UnavailableError
from patchset.pins import cmake, third_party
from patchset.pins.cmake import Source
from patchset.release import load
from patchset.source import third_party_sources, worktree

CUTLASS = Source(
    "cutlass", "CMakeLists.txt", "https://host.example/cutlass.git", "v4.7.1", "VLLM_CUTLASS_SRC_DIR"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return cmake_files.write(tmp_path / "patched")


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
    with pytest.raises(PatchsetError, match=r"kernels\.cmake fetches kernels in an unsupported way"):
        cmake.third_party(tree)


def test_the_pin_says_what_the_source_says(project: Project, tree: Path) -> None:
    text = third_party.pin_text(make_sdist(project.downloads, cmake_files.FILES, "1.2.1"), "v1.2.0")
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
    sdist = make_sdist(project.downloads, cmake_files.FILES, "1.2.1")
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
    cmake_files.commit(folder)
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
    for had in third_party_sources.bring(wanted, wheel):
        assert (
            had.folder / "file"
        ).read_text() == "one\n" and had.origin == f"{remote} at {had.source.revision}"
    shutil.rmtree(tmp_path / "remote")
    assert [had.source for had in third_party_sources.bring(wanted, wheel)] == wanted


def test_what_cannot_be_had_is_named_at_once(project: Project, tmp_path: Path) -> None:
    gone = (tmp_path / "gone").as_uri()
    wanted = [Source(name, "x", gone, "v1", "X_SRC_DIR") for name in ("flashmla", "cutlass", "deepgemm")]
    with pytest.raises(UnavailableError) as caught:
        third_party_sources.bring(wanted, official(tmp_path, {}))
    assert all(
        f"{name}: {gone} at v1" in caught.value.message for name in ("flashmla", "cutlass", "deepgemm")
    )
    assert "named flashmla, cutlass, deepgemm, and give it with --third-party" in (caught.value.hint or "")


def test_a_given_checkout_must_be_at_the_pinned_commit(project: Project, tmp_path: Path) -> None:
    head = repository(tmp_path / "given" / "flashmla")
    wheel = official(tmp_path, {})
    right = Source("flashmla", "x", "file:///gone", head, "X_SRC_DIR")
    (had,) = third_party_sources.bring([right], wheel, given=tmp_path / "given")
    assert had.folder == (tmp_path / "given" / "flashmla").resolve()
    wrong = Source("flashmla", "x", "file:///gone", "0" * 40, "X_SRC_DIR")
    with pytest.raises(
        PatchsetError, match=rf"is at {head[:12]}; the release builds flashmla at 000000000000"
    ):
        third_party_sources.bring([wrong], wheel, given=tmp_path / "given")


def test_cutlass_of_the_official_wheel_stands_in(project: Project, tmp_path: Path) -> None:
    header = b"#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 8\n#define CUTLASS_PATCH 0\n"
    top = "vllm/third_party/some/cutlass"
    files = {
        f"{top}/include/cutlass/version.h": header,
        f"{top}/tools/util/include/x.h": b"x",
        f"{top}/docs": b"",
    }
    source = Source("cutlass", "x", (tmp_path / "gone").as_uri(), "v4.7.1", "VLLM_CUTLASS_SRC_DIR")
    (had,) = third_party_sources.bring([source], official(tmp_path, files))
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
    assert (folder / "CMakeLists.txt").read_text().count("endif") == cmake_files.TOP.count("endif") - 1
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if ".git" not in file.parts}
    time.sleep(0.02)
    worktree.prepare(tree, folder, chosen)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    # Somebody's edit is not part of the series.
    (folder / "csrc/small.cpp").write_text("int other;\n")
    worktree.prepare(tree, folder, chosen)
    assert (folder / "csrc/small.cpp").read_text() == cmake_files.FILES["csrc/small.cpp"]
    with_deepgemm = worktree.plan(tree, [modules["small"], modules["_deep_gemm_C"]])
    assert [source.name for source in with_deepgemm.sources] == ["cutlass", "deepgemm"]
    assert with_deepgemm.asks_newer_gcc
    worktree.prepare(tree, folder, with_deepgemm)
    assert (folder / "CMakeLists.txt").read_text() == cmake_files.TOP
    assert (folder / "cmake/external_projects/deepgemm.cmake").read_text() == cmake_files.DEEPGEMM
    (folder / ".git/index.lock").touch()
    # Another commit of the patched tree: what it changes is changed, what it does not keeps its time.
    time.sleep(0.02)
    (tree / "csrc/small.cpp").write_text("int patched;\n")
    cmake_files.commit(tree)
    worktree.prepare(tree, folder, chosen)
    assert (folder / "csrc/small.cpp").read_text() == "int patched;\n"
    assert (folder / "setup.py").stat().st_mtime_ns == before[folder / "setup.py"]
