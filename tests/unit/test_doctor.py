# SPDX-License-Identifier: Apache-2.0
"""The doctor in real environments: wheels that pip installed, files that somebody changed, bytecode that is old."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from conftest import Project, diff_line
from patchset import doctor
from wheels import build


def install(folder: Path, wheel: Path) -> Path:
    """The interpreter of a new environment with one wheel in it."""
    venv.create(folder)
    python = folder / "bin/python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, str(wheel)], check=True)
    return python


def site(python: Path) -> Path:
    return next(python.parent.parent.glob("lib/python*/site-packages"))


@pytest.fixture
def patched(packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    return install(tmp_path / "venv", build(packaged))


def ask(python: Path, *arguments: str, status: int = 0, **env: str) -> dict[str, Any]:
    """What the program that images carry says, run as there: with nothing of this project."""
    done = subprocess.run(
        [python, doctor.__file__, "--json", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "", **env},
        cwd=python.parent,
    )
    assert done.returncode == status, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["healthy"] == (status == 0)
    return found


def wrong(found: dict[str, Any]) -> dict[str, str]:
    return {
        check["check"]: check["text"]
        for check in found["checks"]
        if check["status"] == "wrong"
    }


def test_a_patched_environment_is_well(packaged: Project, patched: Path) -> None:
    found = ask(patched)
    assert found["patches"] == {"0001-first": True, "0002-new": True}
    assert set(found["files"].values()) == {"patched"} and not wrong(found)
    shown = packaged.run("doctor", "--python", str(patched)).stdout
    assert "2 of 2 patches of v1.2.0 are live" in shown
    assert packaged.run("doctor", "--python", str(patched), "--quiet").stdout == ""
    shown = packaged.run("doctor", "--root", str(site(patched))).stdout
    assert "2 of 2 patches" in shown and "import vllm" not in shown


def test_a_wheel_of_another_series_than_the_checkouts_is_seen(
    packaged: Project, patched: Path
) -> None:
    packaged.run("refresh")
    assert (
        "ok    release: the files that"
        in packaged.run("doctor", "--python", str(patched)).stdout
    )
    packaged.add_patch("0003-more.diff", diff_line(30, "thirty", "vllm/parser.py"))
    packaged.run("refresh")
    shown = packaged.run("doctor", "--python", str(patched), status=1).stdout
    assert (
        "WRONG release: 1 files are not the files that" in shown
        and "vllm/parser.py" in shown
    )


def test_each_patch_is_judged_by_its_own_files(patched: Path) -> None:
    (site(patched) / "vllm/reader.py").write_text("READ = 2\n")
    found = ask(patched, status=1)
    assert found["patches"] == {"0001-first": True, "0002-new": False}
    assert found["files"] == {"vllm/parser.py": "patched", "vllm/reader.py": "foreign"}
    (site(patched) / "vllm/reader.py").unlink()
    assert "vllm/reader.py is stock" in wrong(ask(patched, status=1))["files"]


@pytest.mark.parametrize(
    ("mode", "status"),
    [
        (py_compile.PycInvalidationMode.CHECKED_HASH, 0),
        (py_compile.PycInvalidationMode.UNCHECKED_HASH, 1),
    ],
)
def test_bytecode_by_hash_counts_only_when_nobody_checks_it(
    patched: Path, mode: py_compile.PycInvalidationMode, status: int
) -> None:
    source = site(patched) / "vllm/parser.py"
    right = source.read_text()
    source.write_text("old = 1\n")
    command = f"import py_compile as c; c.compile({str(source)!r}, invalidation_mode=c.PycInvalidationMode.{mode.name})"
    subprocess.run([patched, "-c", command], check=True)
    source.write_text(right)
    assert ("bytecode" in wrong(ask(patched, status=status))) == bool(status)


def test_another_vllm_that_is_imported_instead(patched: Path, tmp_path: Path) -> None:
    other = tmp_path / "other/vllm"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    assert (
        str(other)
        in wrong(ask(patched, status=1, PYTHONPATH=str(other.parent)))["shadow"]
    )
    (site(patched) / "zz.pth").write_text(
        f"{other.parent}\n"
    )  # behind the site's own: named, and harmless
    assert any(
        c["status"] == "note" and str(other.parent) in c["text"]
        for c in ask(patched)["checks"]
    )


def test_the_rust_frontend(patched: Path) -> None:
    assert (
        "not patched"
        in wrong(ask(patched, status=1, VLLM_USE_RUST_FRONTEND="1"))["rust-frontend"]
    )
    ask(patched, VLLM_USE_RUST_FRONTEND="0")


@pytest.mark.parametrize(("reader", "healthy"), [("1", True), ("0", False)])
def test_a_series_that_leaves_the_rust_frontend(
    reader: str, healthy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    monkeypatch.setenv("VLLM_QWEN_TOOL_READER", reader)
    launcher = tmp_path / "vllm/entrypoints/cli/serve.py"
    launcher.parent.mkdir(parents=True)
    launcher.write_text("def _leave_rust_frontend(args): ...\n")
    looking = doctor.Doctor(tmp_path / "info", {"patches": []})
    looking.rust_frontend()
    assert looking.healthy == healthy


def test_two_owners_of_the_package(patched: Path) -> None:
    info = site(patched) / "vllm-1.2.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("vllm/__init__.py,,\n")
    assert "vllm-1.2.0.dist-info owns" in wrong(ask(patched, status=1))["metadata"]


def test_the_combined_patch_and_a_stock_vllm(
    packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no patchset.json is, the checkout's sums say what the files are."""
    packaged.run("refresh")
    packaged.run("apply")
    wheel = packaged.downloads / "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    python = install(tmp_path / "venv", wheel)
    shown = packaged.run("doctor", "--python", str(python), status=3)
    assert "a stock vLLM" in shown.stderr
    for path in ("vllm/parser.py", "vllm/reader.py"):
        shutil.copy(packaged.patched / path, site(python) / path)
    shown = packaged.run("doctor", "--python", str(python))
    assert "2 of 2 patches of v1.2.0 are live" in shown.stdout
    # Without a name it is the interpreter on the path.
    monkeypatch.setenv("PATH", f"{python.parent}:{os.environ['PATH']}")
    assert "2 of 2 patches" in packaged.run("doctor").stdout
    (site(python) / "vllm/reader.py").unlink()
    assert "vllm/reader.py is stock" in packaged.run("doctor", status=1).stdout
    with zipfile.ZipFile(wheel) as official:
        official.extract("vllm/parser.py", site(python))
    (site(python) / "vllm/reader.py").write_text("READ = 1\n")
    assert "vllm/parser.py is stock" in packaged.run("doctor", status=1).stdout
    for part in site(python).glob("vllm*"):
        shutil.rmtree(part)
    nothing = packaged.run(
        "doctor", "--python", str(python), "--root", str(site(python)), status=2
    )
    assert "no vllm is installed" in nothing.stderr


@pytest.fixture
def unpacked(packaged: Project, tmp_path: Path) -> Path:
    """The folder of an unpacked image where a patched wheel was installed."""
    with zipfile.ZipFile(build(packaged)) as wheel:
        wheel.extractall(tmp_path / "site")
    return tmp_path / "site"


def look(root: Path, *arguments: str, status: int) -> dict[str, Any]:
    return ask(Path(sys.executable), "--root", str(root), *arguments, status=status)


@pytest.mark.parametrize(
    "name",
    [
        "vllm/parser.abi3.so",
        "vllm/reader.cpython-311-x86_64-linux-gnu.so",
        "vllm/parser/__init__.py",
        "vllm/parser/__init__.abi3.so",
        "vllm/__init__.abi3.so",
    ],
)
def test_what_python_imports_instead(unpacked: Path, name: str) -> None:
    place = unpacked / name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"\x7fELF" + bytes(14) + (62).to_bytes(2, "little"))
    assert name in wrong(look(unpacked, status=1))["shadow"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"release": "v9.9.9"}, "patchset.json is of v9.9.9"),
        ({"release": ["v1.2.0"]}, "patchset.json is of"),
        ({"files": {}}, "names no files"),
    ],
)
def test_a_manifest_that_is_of_nothing_is_not_believed(
    unpacked: Path, change: dict[str, object], said: str
) -> None:
    info = next(unpacked.glob("vllm-*.dist-info"))
    made = json.loads((info / "patchset.json").read_text())
    (info / "patchset.json").write_text(json.dumps(made | change))
    assert said in wrong(look(unpacked, status=1))["release"]


def test_a_release_that_the_checkout_does_not_have(
    unpacked: Path, tmp_path: Path
) -> None:
    found = look(unpacked, "--patches", str(tmp_path), status=1)
    assert "has no release v1.2.0" in wrong(found)["release"]


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"files": [], "patches": 3}', "null", "[" * 100_000]
)
def test_a_manifest_that_cannot_be_read_is_none(unpacked: Path, text: str) -> None:
    info = next(unpacked.glob("vllm-*.dist-info"))
    (info / "patchset.json").write_text(text)
    done = subprocess.run(
        [sys.executable, doctor.__file__, "--root", unpacked],
        capture_output=True,
        text=True,
    )
    assert done.returncode == doctor.STOCK and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "vllm/parser.py",
        "vllm/_C.abi3.so",
        "{info}/patchset.json",
        "{info}/RECORD",
        "{info}/METADATA",
    ],
)
def test_a_fifo_is_not_waited_for(unpacked: Path, name: str) -> None:
    info = next(unpacked.glob("vllm-*.dist-info")).name
    place = unpacked / name.format(info=info)
    place.unlink()
    os.mkfifo(place)
    done = subprocess.run(
        [sys.executable, doctor.__file__, "--root", unpacked],
        capture_output=True,
        timeout=60,
    )
    assert done.returncode in (0, 1, doctor.STOCK)
