# SPDX-License-Identifier: Apache-2.0
"""Mode source: what Ninja says made short, and the compiled modules' symbols."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from patchset import console
from patchset.errors import PatchsetError
from patchset.source import backend, from_source, toolchain


def test_what_ninja_says_is_made_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader = backend.Reader(tmp_path / "build.log")
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
    killed = backend.Reader(tmp_path / "build.log")
    killed.line("g++: fatal error: Killed signal terminated program cc1plus")
    assert "ran out of memory: fewer --jobs" in killed.explanation()


def test_durations() -> None:
    assert [console.duration(seconds) for seconds in (4, 600, 7200)] == ["4 s", "10 min", "2 h 0 min"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no compiler")
def test_exported_symbols_are_compared(tmp_path: Path) -> None:
    for name, code in (
        ("here", "int both, here; static int hidden;"),
        ("there", "int both; int there(void) {return 1;}"),
    ):
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{name}.so"], input=code, text=True, cwd=tmp_path, check=True
        )  # fmt: skip
    assert from_source.compare(tmp_path / "here.so", tmp_path / "there.so") == [
        "1 exported symbols in common with the official module, 1 only here, 1 only there",
        "only here: here",
        "only in the official: there",
    ]
    [same] = from_source.compare(tmp_path / "here.so", tmp_path / "here.so")
    assert same == "2 exported symbols, the same as the official module's"
    calls = "int cuMemFree_v2(void); int both(void) { return cuMemFree_v2(); }"
    (tmp_path / "cuda.h").write_text("int cuMemFree(int); /* cuMemFree_v2 CUresult */\n")
    toolchain._stand_in(tmp_path / "cuda.h", tmp_path / "stubs")
    for name, driver in (("with", ["-Wl,--as-needed", "-Lstubs", "-lcuda"]), ("without", [])):
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{name}.so", *driver],
            input=calls, text=True, cwd=tmp_path, check=True,
        )  # fmt: skip
    different = from_source.compare(tmp_path / "here.so", tmp_path / "with.so")
    assert different[-1] == "not linked with, as the official is: libcuda.so.1"
    with pytest.raises(
        PatchsetError, match=r"without\.so calls cuMemFree_v2 of the CUDA driver and is not linked"
    ):
        from_source.compare(tmp_path / "without.so", tmp_path / "with.so")
    (tmp_path / "text").write_text("x")
    with pytest.raises(PatchsetError, match="text cannot be read"):
        from_source.compare(tmp_path / "text", tmp_path / "here.so")
