# SPDX-License-Identifier: Apache-2.0
"""The wheel of mode source, from the command line to verify; the backend that compiles is a small one that runs gcc."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import wheels
from cmake_files import FILES, fake_torch
from conftest import HEADER, Project, diff_line, make_sdist, release_toml
from patchset.pins import third_party
from patchset.wheel import compiled_modules, record
from test_wheel import build, rewrite

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no compiler"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the wheels here are for x86_64"),
]

SMALL = "".join(f"// line {n}\n" for n in range(1, 10)) + 'const char *small = "as released";\n'

#: What vLLM's setup.py is to the driver, in small: a build_ext with configure() that writes build.ninja.
SETUP = """\
import os, subprocess, sys, time
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

class CMakeExtension(Extension):
    def __init__(self, name, **kwa):
        super().__init__(name, sources=[], **kwa)

SOURCES = {"small": "csrc/small.cpp", "_C": "csrc/kernel.cu"}

class cmake_build_ext(build_ext):
    def configure(self, ext):
        with open(self.build_temp + "/build.ninja", "w") as file:
            for name, source in SOURCES.items():
                file.write(f"build CMakeFiles/{name}.dir/{source}.o: RULE {os.getcwd()}/{source} || order\\n")
                file.write("  FLAGS = -O2" + (" -gencode arch=compute_90a,code=sm_90a\\n" if name == "_C" else "\\n"))

    def build_extensions(self):
        os.makedirs(self.build_temp, exist_ok=True)
        for number, ext in enumerate(self.extensions, 1):
            name = ext.name.rpartition(".")[2]
            print(f"[{number}/{len(self.extensions)}] Building {name}", flush=True)
            if os.environ.get("TORCH_CUDA_ARCH_LIST") == "8.0":
                print(f"FAILED: {name}.o\\ngcc -c {name}\\nx.cu(1): error: no such thing", flush=True)
                sys.exit(1)
            if os.environ.get("TORCH_CUDA_ARCH_LIST") == "8.9":
                with open(self.build_temp + "/asleep", "w") as file:
                    file.write(str(os.getpid()))
                time.sleep(600)
            os.makedirs(self.build_lib + "/vllm", exist_ok=True)
            out = self.build_lib + f"/vllm/{name}.abi3.so"
            subprocess.check_call(["gcc", "-shared", "-fPIC", "-x", "c", SOURCES[name], "-o", out])

    def run(self):
        sys.exit("this copies folders of other projects")

ext_modules = []
ext_modules.append(CMakeExtension(name="vllm.small"))
ext_modules.append(CMakeExtension(name="vllm._C", optional=True))
setup(name="vllm", version="0", ext_modules=ext_modules, rust_extensions=[], cmdclass={"build_ext": cmake_build_ext})
"""


@pytest.fixture
def source(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A release with compiled modules, a Python of one's own that has "torch", and CUTLASS in the official wheel."""
    top = FILES["CMakeLists.txt"].replace("include(", "# include(")
    contents = wheels.SOURCE | {
        "CMakeLists.txt": top,
        "setup.py": SETUP,
        "csrc/small.cpp": SMALL,
        "csrc/kernel.cu": SMALL,
    }
    sdist = make_sdist(project.downloads, contents)
    (project.folder / "release.toml").write_text(release_toml(sdist).replace("[wheels]\n", ""))
    third_party.pin_file(project.folder).write_text(third_party.pin_text(sdist, "v1.2.0") or "")
    cutlass = "vllm/third_party/some/cutlass"
    official = wheels.contents("vllm")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", "official.so"],
        input="int small;", text=True, cwd=tmp_path, check=True,
    )  # fmt: skip
    module = (tmp_path / "official.so").read_bytes()
    official |= {f"{cutlass}/include/cutlass/version.h": b"4.7.1", f"{cutlass}/tools/util/include/x.h": b"x"}
    official |= {"vllm/small.abi3.so": module, "vllm/_C.abi3.so": module}
    place = "vllm-1.2.0.dist-info/RECORD"
    lines = [record.line(name, content) for name, content in official.items() if name != place]
    official[place] = record.render([*lines, record.Line(place, "", "")])
    file = project.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    wheels.pin(project, "cuda", wheels.write(file, official))
    project.add_patch("0001-first.diff", diff_line(5, "five", "vllm/parser.py"))
    fake_torch(tmp_path / "site", "2.0.0", "'12.1'")
    nvcc = tmp_path / "cuda/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.1, V12.1.66'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{tmp_path / 'site'}")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    return project


def arguments(*more: str) -> tuple[str, ...]:
    return ("--mode", "source", "--python", sys.executable, *more)


def native(subject: str = "native") -> str:
    return HEADER.format(subject=subject) + "Native: yes\n"


PATCH = """\
diff --git a/csrc/small.cpp b/csrc/small.cpp
--- a/csrc/small.cpp
+++ b/csrc/small.cpp
@@ -7,4 +7,4 @@
 // line 7
 // line 8
 // line 9
-const char *small = "as released";
+const char *small = "as patched";
"""


def test_modules_are_compiled_named_and_verified(source: Project) -> None:
    done = source.run("build-wheel", *arguments("--modules", "small"))
    assert "1 exported symbols, the same as the official module's" in done.stderr
    assert "1 of 1 files: Building small" in done.stderr
    wheel = Path(done.stdout.split()[1])
    with zipfile.ZipFile(wheel) as archive:
        assert b"as released" in archive.read("vllm/small.abi3.so")
        assert archive.getinfo("vllm/small.abi3.so").external_attr >> 16 & 0o777 == 0o755
    refused = source.run("verify", str(wheel), status=1).stdout
    assert "WRONG    vllm/small.abi3.so: compiled by g" in refused and "1 deviations" in refused
    said = source.run("verify", str(wheel), "--allow-compiled").stdout
    assert "vllm/small.abi3.so: compiled by g" in said and "no GPU code, torch 2.0.0" in said
    assert "vllm/_C.abi3.so: the official wheel's" in said
    assert "mode source" in said and "0 deviations" in said
    both = build(source, *arguments())
    assert (
        "nvcc 12.1.66 for sm_90a, torch 2.0.0" in source.run("verify", str(both), "--allow-compiled").stdout
    )


def test_verify_sees_another_module_than_the_one_compiled(source: Project) -> None:
    wheel = build(source, *arguments("--modules", "small"))
    rewrite(wheel, "vllm/small.abi3.so", b"\x7fELF of somebody")
    message = source.run("verify", str(wheel), status=1).stdout
    assert "vllm/small.abi3.so: is not the file that the wheel says was compiled" in message


def test_a_wheel_cannot_call_python_files_compiled(source: Project) -> None:
    wheel = build(source, *arguments("--modules", "small"))
    name = "vllm-1.2.0+mtp.1.dist-info/patchset.json"
    with zipfile.ZipFile(wheel) as archive:
        notes = archive.read(name)
    forged = notes.replace(b'"vllm/small.abi3.so": "', b'"vllm/__init__.py": "')
    assert compiled_modules.read(notes) is not None and compiled_modules.read(forged) is None
    for broken in (b"", b"[]", b'{"compiled": 3}', notes.replace(b'"third-party"', b'"other"')):
        assert compiled_modules.read(broken) is None
    rewrite(wheel, name, forged)
    message = source.run("verify", str(wheel), status=1).stdout
    assert (
        "patchset.json: is not" in message
        and "vllm/small.abi3.so: is not the official wheel's file" in message
    )


def test_a_native_patch_is_compiled_and_cannot_be_left_out(source: Project) -> None:
    source.add_patch("0002-native.diff", PATCH, native())
    message = source.run("build-wheel", *arguments("--modules", "_C"), status=2).stderr
    assert "the series changes csrc/small.cpp, which small may be compiled from" in message
    wheel = build(source, *arguments("--modules", "small"))
    with zipfile.ZipFile(wheel) as archive:
        assert b"as patched" in archive.read("vllm/small.abi3.so")
        assert not any(name.startswith("csrc") for name in archive.namelist())
    assert "0 deviations" in source.run("verify", str(wheel), "--allow-compiled").stdout
    # By default what the series changes, and no more.
    said = source.run("verify", str(build(source, *arguments())), "--allow-compiled").stdout
    assert "vllm/small.abi3.so: compiled" in said and "vllm/_C.abi3.so: the official wheel's" in said


def test_a_header_may_concern_every_module(source: Project) -> None:
    new = "diff --git a/csrc/x.h b/csrc/x.h\nnew file mode 100644\n--- /dev/null\n+++ b/csrc/x.h\n@@ -0,0 +1 @@\n+#define X\n"
    source.add_patch("0002-native.diff", new, native())
    message = source.run("build-wheel", *arguments("--modules", "small"), status=2).stderr
    assert "the series changes csrc/x.h, which _C may be compiled from" in message
    assert "next:  --modules small,_C, or no --modules: what the series changes" in message
    build(source, *arguments())


def test_a_failure_names_the_file_and_the_log(source: Project) -> None:
    message = source.run("build-wheel", *arguments("--arch", "8.0", "--modules", "small"), status=1).stderr
    assert (
        "the modules did not compile:\nsmall.o could not be made\n  x.cu(1): error: no such thing" in message
    )
    assert "build.log" in message and "what is compiled already stays" in message


def test_an_interrupted_build_ends_its_compilers_and_leaves_no_wheel(source: Project) -> None:
    command = [
        sys.executable,
        "-m",
        "patchset",
        "build-wheel",
        *arguments("--arch", "8.9", "--modules", "small"),
    ]
    running = subprocess.Popen(command, cwd=source.root, stderr=subprocess.PIPE, text=True)
    asleep = source.root / "build/source/v1.2.0-x86_64-8.9/objects/asleep"
    deadline = time.monotonic() + 100
    while not (asleep.is_file() and asleep.read_text()):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "run the same command again" in said
    with pytest.raises(ProcessLookupError):
        os.kill(int(asleep.read_text()), 0)
    assert not list((source.root / "build").glob("wheels/**/*.whl"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--modules", "unknown"), "there is no module unknown"),
        (("--arch", "9"), "'9' is not a list of CUDA architectures"),
        (("--arch", "hopper"), "there is no architecture hopper"),
        (("--target", "cpu"), "modules are compiled for cuda only"),
    ],
)
def test_wrong_choices_are_refused(source: Project, options: tuple[str, ...], words: str) -> None:
    assert words in source.run("build-wheel", *arguments(*options), status=2).stderr


def test_options_of_mode_source_are_refused_elsewhere(source: Project) -> None:
    assert "are for --mode source" in source.run("build-wheel", "--modules", "small", status=2).stderr


def test_rust_and_metadata_are_not_compiled_here(source: Project) -> None:
    source.add_patch("0002-rust.diff", PATCH.replace("csrc/small.cpp", "rust/x.rs"), native())
    message = source.run("build-wheel", *arguments(), status=1).stderr
    assert "which a source wheel cannot carry" in message and "crates" in message
    assert "nox -s build-image -- v1.2.0 --target cuda --mode source" in message
