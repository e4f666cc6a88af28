# SPDX-License-Identifier: Apache-2.0
"""What GPUs there are, and what a server says that it does with them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from gpu import gpus
from patchset.errors import PatchsetError


def visible() -> int:
    """The number of GPUs that a process here may use (``CUDA_VISIBLE_DEVICES`` counts).

    Raises:
        PatchsetError: there is none; the message says in one line why.
    """
    count, why = gpus.visible()
    if count == 0:
        raise PatchsetError(
            why,
            "run it on a host with an NVIDIA GPU",
        )
    return count


_ASK = """\
import json, torch
p = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
print(json.dumps({
    "gpus": [f"{q.name}, {q.total_memory / 2**30:.0f} GiB, sm_{q.major}{q.minor}" for q in p],
    "cuda": torch.version.cuda, "torch": torch.__version__,
}))
"""


def described(
    python: Path | str, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """GPUs, driver, and the CUDA and torch of an environment, for the result."""
    asked = subprocess.run(
        [str(python), "-c", _ASK],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if asked.returncode:
        raise PatchsetError("torch does not see the GPU", asked.stderr.strip()[-800:])
    found: dict[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    return found | {"driver": _driver()}


def _driver() -> str | None:
    try:
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.split("\n")[0].strip() or None


_BACKENDS = re.compile(
    r"Using (\S+) attention backend|Using FlashAttention version (\S+)|(GDN prefill[^\n]{0,120})"
)
#: A server's log is read up to this many bytes.
_MOST_LOG = 8 << 20


def backends(log: Path) -> list[str]:
    """Which attention backends a server says that it uses."""
    with log.open("rb") as file:
        text = file.read(_MOST_LOG).decode("utf-8", errors="replace")
    found = [
        name or (f"FlashAttention {version}" if version else gdn.strip())
        for name, version, gdn in _BACKENDS.findall(text)
    ]
    return list(dict.fromkeys(found))
