# SPDX-License-Identifier: Apache-2.0
"""Bring an installed vLLM to the content of a patched wheel; runs in the image that is being built, as root.

Only the standard library: the image decides which Python this is.
"""

import importlib.metadata
import os
import shutil
import sys
import zipfile
from pathlib import Path, PurePosixPath


def main(wheel_file, release):
    try:
        installed = importlib.metadata.distribution("vllm")
    except importlib.metadata.PackageNotFoundError:
        return f"the image has no vLLM for {sys.executable}"
    if installed.version.partition("+")[0] != release:
        return f"the image has vLLM {installed.version}, not {release}"
    site = Path(installed.locate_file("")).resolve()
    record = installed.read_text("RECORD") or ""
    with zipfile.ZipFile(wheel_file) as wheel:
        names = [name for name in wheel.namelist() if not name.endswith("/")]
        for name in names:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or ".data/" in name:
                return f"{wheel_file} has {name}, which is for another folder"
        differing = [
            name for name in names if ".dist-info/" not in name and not same(wheel, name, site / name)
        ]
        compiled = [name for name in differing if name.endswith(".so")]
        if compiled:
            return f"compiled files of the image differ from the wheel's: {', '.join(compiled[:5])}"
        for name in differing:
            write(wheel, name, site / name)
        deleted = delete(installed, site, set(names))
        replace_metadata(wheel, names, installed, site, record)
    print(f"{len(differing)} files written, {len(deleted)} deleted below {site}")
    for name in sorted(differing)[:40]:
        print(f"  {name}")
    return None


def write(wheel, name, place):
    """Put one file of the wheel in its place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.unlink()
    with wheel.open(name) as source, place.open("wb") as target:
        shutil.copyfileobj(source, target)
    place.chmod(0o755 if wheel.getinfo(name).external_attr >> 16 & 0o111 else 0o644)
    forget_bytecode(place)


def same(wheel, name, place):
    """Whether the installed file is the wheel's."""
    if not place.is_file() or place.stat().st_size != wheel.getinfo(name).file_size:
        return False
    with wheel.open(name) as source, place.open("rb") as there:
        while True:
            ours, theirs = source.read(1 << 20), there.read(1 << 20)
            if ours != theirs:
                return False
            if not ours:
                return True


def delete(installed, site, names):
    """Delete what the installed release has and the wheel has not; the files deleted."""
    gone = []
    for file in installed.files or ():
        name = file.as_posix()
        ours = name.startswith("vllm/") and "__pycache__" not in name
        if ours and name not in names and (site / name).is_file():
            (site / name).unlink()
            forget_bytecode(site / name)
            gone.append(name)
    return gone


def forget_bytecode(place):
    """Stale bytecode would run in place of the new file: image layers clamp the times that Python compares."""
    for compiled in (place.parent / "__pycache__").glob(f"{place.stem}.cpython-*.pyc"):
        compiled.unlink()


def replace_metadata(wheel, names, installed, site, record):
    """The new .dist-info in place of the old one; what the installer added (its name, the scripts) is kept."""
    inside = [name for name in names if ".dist-info/" in name]
    new = site / inside[0].split("/")[0]
    old = site / f"vllm-{installed.version}.dist-info"
    added = {name: (old / name).read_bytes() for name in ("INSTALLER", "REQUESTED") if (old / name).is_file()}
    shutil.rmtree(old)
    for name in inside:
        write(wheel, name, site / name)
    with (new / "RECORD").open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in record.splitlines() if line.startswith("../"))
        for name, content in added.items():
            (new / name).write_bytes(content)
            file.write(f"{new.name}/{name},,\n")


if __name__ == "__main__":
    os.umask(0o022)
    error = main(sys.argv[1], sys.argv[2])
    if error:
        sys.exit(f"error: {error}")
