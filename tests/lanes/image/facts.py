# SPDX-License-Identifier: Apache-2.0
"""Print, as JSON, what the lane asks about an image; runs inside it."""

import importlib.metadata
import json
import os
import stat
from pathlib import Path

#: What building leaves behind when it is not careful.
TRACES = (
    "/etc/apt/apt.conf.d/99mmdebstrap",
    "/etc/pip.conf",
    "/etc/uv/uv.toml",
    "/root/.cache",
    "/root/.config",
    "/mnt/wheels/",
    "/var/lib/apt/lists/*_Packages*",
    "/var/log/*.log",
    "/tmp/*.whl",
)


def privileged() -> list[str]:
    modes = (
        (path, path.lstat().st_mode)
        for top in ("/usr", "/opt", "/etc")
        for path in Path(top).rglob("*")
    )
    wanted = stat.S_ISUID | stat.S_ISGID
    return [str(path) for path, mode in modes if stat.S_ISREG(mode) and mode & wanted]


vllm = importlib.metadata.distribution("vllm")
site = Path(str(vllm.locate_file("")))
compiled = [
    *list((site / "vllm").rglob("*.pyc"))[:500],
    *list((site / "torch").rglob("*.pyc"))[:500],
]
flags = {int.from_bytes(path.open("rb").read(8)[4:8], "little") for path in compiled}
print(
    json.dumps(
        {
            "version": vllm.version,
            "uid": os.getuid(),
            "home": os.environ.get("HOME"),
            "home_writable": os.access("/home/vllm/.cache/huggingface", os.W_OK),
            "venv_writable": os.access("/opt/venv", os.W_OK),
            "bytecode_flags": sorted(flags),
            "privileged": privileged(),
            "left": [
                str(path) for trace in TRACES for path in Path("/").glob(trace[1:])
            ],
        }
    )
)
