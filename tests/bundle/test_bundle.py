# SPDX-License-Identifier: Apache-2.0
"""A bundle's script from the first delivery to the line that says no GPU is visible: no network, a Python like the host's.

Takes minutes and some gigabytes: ``nox -s gpu-bundle-check``. The host's torch is the wheel of the same version.
"""

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gpu import build_dir
from gpu.bundle import resolve
from gpu.bundle.parts import MOST_PART, SCRIPT
from gpu.rehearsal import Host, deliveries
from patchset.locks import uv

#: What one run of the script may take, and the script of the kernels.
SLICE, KERNELS = 480, "kernel-cells.pyz"
#: A process of its own without any network device but an inactive loopback, and root of nothing.
ALONE = ["unshare", "--map-root-user", "--net"]


@pytest.fixture(scope="module")
def bundle(pytestconfig: pytest.Config) -> Path:
    folder = Path(pytestconfig.getoption("--bundle") or build_dir() / "bundle").resolve()
    if not (folder / SCRIPT).is_file():
        pytest.fail(f"{folder} is no bundle; nox -s gpu-bundle makes one")
    return folder


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> dict[str, Any]:
    with zipfile.ZipFile(bundle / SCRIPT) as script:
        found: dict[str, Any] = json.loads(script.read("manifest.json"))
    return found


@pytest.fixture(scope="module")
def host(pytestconfig: pytest.Config, manifest: dict[str, Any]) -> Path:
    """The Python of an environment with what the bundle counts on, and nothing else."""
    if given := pytestconfig.getoption("--host"):
        return Path(given) / "bin" / "python"
    folder = build_dir() / "host"
    if not (folder / "READY").is_file():
        python = pytestconfig.getoption("--python") or _python()
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        wanted = [f"{n}=={v}" if v else n for n, v in manifest["host"].items() if n != "python"]
        # Triton 3.6's interpreter, which stands for the GPU here, works with numpy 2.3 and fails with 2.5.
        wanted.append("numpy<2.4")
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *wanted], check=True)
        (folder / "READY").touch()
    return folder / "bin" / "python"


def _python() -> str:
    found = subprocess.run(
        [uv.binary(), "python", "find", "--no-project", resolve.PYTHON],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        pytest.fail(f"no Python {resolve.PYTHON} here; name one with --python")
    return found.stdout.strip()


def run(host: Path, bundle: Path, kept: Path, *deliveries: Path) -> subprocess.CompletedProcess[str]:
    alone = kept.parent / "alone"
    alone.mkdir(exist_ok=True)
    shutil.copyfile(bundle / SCRIPT, alone / SCRIPT)
    words = [
        *map(str, deliveries),
        "--store",
        str(kept),
        "--out",
        str(kept.parent / "out"),
        "--seconds",
        "3000",
    ]
    bare = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "UV_"))
    }
    return subprocess.run(
        [*ALONE, str(host), str(alone / SCRIPT), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=alone,
        env=bare | {"PIP_CONFIG_FILE": os.devnull, "CUDA_VISIBLE_DEVICES": ""},
    )


def test_there_is_no_network_where_the_script_runs(host: Path) -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=2)"
    said = subprocess.run([*ALONE, str(host), "-c", code], capture_output=True, text=True, check=False)
    assert "Network is unreachable" in said.stderr


def test_a_bundle_runs_up_to_the_gpu(
    host: Path, bundle: Path, manifest: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "store"
    names = [part["name"] for part in manifest["parts"]]
    assert all(part["size"] <= MOST_PART for part in manifest["parts"])
    said = None
    for number, name in enumerate(names):
        call = tmp_path / "call" / str(number)
        call.mkdir(parents=True)
        shutil.copyfile(bundle / name, call / name)
        said = run(host, bundle, kept, call)
        if number < len(names) - 1:
            assert said.returncode == 3, said.stdout + said.stderr
    assert said is not None
    lines = said.stdout.splitlines()
    with capsys.disabled():
        print("\n" + said.stdout)
    assert said.returncode == 1, said.stderr
    assert lines[-1].startswith("no GPU is visible"), said.stdout + said.stderr
    imported = [line for line in lines if "modules of the server are imported" in line]
    assert len(imported) == 2 * len(manifest["releases"])
    assert all("97 scenarios of tool-eval-bench" in line for line in imported), said.stdout
    # What the host gave is what the bundle counts on, and what comes with it.
    counted = {name.replace("-", "_") for name in manifest["host"]} | {
        "torchgen",
        "functorch",
        "cuda",
        "nvidia",
    }
    for line in imported:
        given = line.partition("from the host ")[2].split(", ")
        assert set(given) <= counted, line
    again = run(host, bundle, kept)  # nothing is delivered, unpacked or installed a second time
    assert again.stdout.splitlines()[-1] == lines[-1]
    assert "modules of the server" not in again.stdout


def test_a_delivery_with_a_lent_hosts_limits(
    host: Path, bundle: Path, manifest: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first host is lost with half of the parts; the second gets as far as the GPU, with time left for slices."""
    parts = [bundle / part["name"] for part in manifest["parts"]]
    scripts = [bundle / SCRIPT]
    for name, lost in (("first", True), ("second", False)):
        lent = Host(tmp_path / name)
        calls = deliveries(parts, lent.most_bytes - scripts[0].stat().st_size)
        for number, delivered in enumerate(calls[: len(calls) // 2] if lost else calls):
            said = lent.call(
                f"{name} host: parts {', '.join(file.name for file in delivered)}"
                + (", install, import" if not lost and number == len(calls) - 1 else ""),
                [*delivered, *scripts],
                lambda disk, folder: run(host, bundle, disk / "store", folder),
            )
            assert said.returncode == (1 if not lost and number == len(calls) - 1 else 3), (
                said.stdout + said.stderr
            )
        if lost:
            lent.lose()
    assert said.stdout.splitlines()[-1].startswith("no GPU is visible"), said.stdout + said.stderr
    slices = int((lent.most_held - lent.held) // SLICE)
    with capsys.disabled():
        print("", *lent.minutes(), f"{slices} slices of {SLICE} s are left", sep="\n")
    assert slices >= 2


def test_the_kernel_cells_run_on_the_hosts_triton(host: Path, bundle: Path, tmp_path: Path) -> None:
    """In Triton's interpreter, since there is no GPU; upstream's tests want pytest, which this host need not have."""
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copyfile(bundle / KERNELS, alone / KERNELS)
    words = ["--out", str(tmp_path), "--device", "cpu", "--seeds", "1", "--seconds", "600"]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    said = subprocess.run(
        [*ALONE, str(host), str(alone / KERNELS), *words],
        capture_output=True,
        text=True,
        check=False,
        env=bare,
    )
    found = json.loads((tmp_path / "kernels.json").read_text())
    assert len(found["versions"]) == 4, said.stdout + said.stderr
    assert all(version["rows"] and "wrong" not in version for version in found["versions"]), said.stdout
