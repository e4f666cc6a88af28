# SPDX-License-Identifier: Apache-2.0
"""Official wheels in small, of the same layout as vLLM's."""

from __future__ import annotations

import hashlib
import io
import random
import zipfile
from collections.abc import Mapping
from pathlib import Path

from conftest import PARSER, Project
from patchset.wheel import record

NAME = "vllm-1.2.0+mtp.1-cp38-abi3-manylinux_2_28_x86_64.whl"
OFFICIAL = "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
INFO = "vllm-1.2.0.dist-info"
NEW = "diff --git a/vllm/reader.py b/vllm/reader.py\nnew file mode 100644\n--- /dev/null\n+++ b/vllm/reader.py\n@@ -0,0 +1 @@\n+READ = 1\n"

VERSION_FILE = """\
from __future__ import annotations

__version__ = version = '1.2.0'
__version_tuple__ = version_tuple = (1, 2, 0)

__commit_id__ = commit_id = 'g0123456789'
"""

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: 1.2.0
Summary: made up
Requires-Dist: torch==2.0.0

Version: 1.2.0 in the text below the fields stays.
"""

SOURCE = {
    "vllm/__init__.py": "from ._version import __version__\n",
    "vllm/parser.py": PARSER,
    "vllm/_version.py": VERSION_FILE,
    "tests/test_parser.py": PARSER,
    "csrc/kernel.cu": PARSER,
}


def contents(project: str) -> dict[str, bytes]:
    """The files of an official wheel but for RECORD, with a compiled module that the source has not."""
    info = f"{project}-1.2.0.dist-info"
    files = {
        name: text.encode() for name, text in SOURCE.items() if name.startswith("vllm/")
    }
    files["vllm/table.json"] = ",".join(str(n * n % 1009) for n in range(9000)).encode()
    files["vllm/_C.abi3.so"] = random.Random(3).randbytes(300_000)
    files[f"{info}/METADATA"] = METADATA.format(name=project.replace("_", "-")).encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-linux_x86_64\n"
    )
    files[f"{info}/top_level.txt"] = b"vllm\n"
    return files


def recorded(files: Mapping[str, bytes], info: str = INFO) -> dict[str, bytes]:
    """These files with a RECORD that is right."""
    lines = [record.line(name, content) for name, content in files.items()]
    lines.append(record.Line(f"{info}/RECORD", "", ""))
    return {**files, f"{info}/RECORD": record.render(lines)}


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Zip them up, deflated, as setuptools does."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2023, 11, 14, 22, 13, 20))
            info.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def official(project: Project, files: Mapping[str, bytes]) -> None:
    """Pin a wheel of these files as the only official one."""
    toml = project.folder / "release.toml"
    toml.write_text(toml.read_text().partition("[wheels")[0])
    pin(project, "cuda", OFFICIAL, recorded(files))


def pin(
    project: Project,
    target: str,
    name: str,
    files: Mapping[str, bytes],
    arch: str = "x86_64",
) -> None:
    """Pin a wheel of these files for a target in the project's release.toml."""
    content = zipped(files)
    (project.downloads / name).write_bytes(content)
    with (project.folder / "release.toml").open("a") as toml:
        toml.write(
            f'\n[wheels.{target}.{arch}]\nproject = "vllm"\nfile = "{name}"\n'
            f'sha256 = "{hashlib.sha256(content).hexdigest()}"\nsize = {len(content)}\n'
        )


def build(project: Project, *arguments: str) -> Path:
    return Path(project.run("build-wheel", *arguments).stdout.split()[1])
