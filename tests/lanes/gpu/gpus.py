# SPDX-License-Identifier: Apache-2.0
"""How many GPUs there are: asked of the driver's library, before anything large is made or loaded."""

from __future__ import annotations

import ctypes

#: CUDA driver API: CUDA_ERROR_NO_DEVICE.
_NO_DEVICE = 100


def visible() -> tuple[int, str]:
    """The number of GPUs that a process here may use (``CUDA_VISIBLE_DEVICES`` counts), and why there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0, "no GPU is visible: the driver's library libcuda.so.1 is not here"
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status not in (0, _NO_DEVICE):
        return 0, f"no GPU is visible: the driver ends with CUDA error {status}"
    return (
        count.value,
        "" if count.value else "no GPU is visible: the driver finds no device",
    )
