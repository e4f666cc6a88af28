# SPDX-License-Identifier: Apache-2.0
"""The layer of a thin image: the files in which a patched wheel differs.

A plain tar file. What compresses better differs between versions of zlib, and the
digest is to be the same on every machine.
"""

import io
import re
import tarfile
from collections.abc import Iterable
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

from patchset import doctor
from patchset.release import Target
from patchset.series.apply import PatchedRelease
from patchset.series.patched_files import Change
from patchset.wheel import metadata, record
from patchset.wheel.archive import Wheel, plain_mode
from patchset.wheel.overlay import inside_wheel

#: Where vLLM's own Dockerfiles install it.
SITES: dict[Target, str] = {
    "cuda": "usr/local/lib/python3.12/dist-packages",
    "cpu": "opt/venv/lib/python3.12/site-packages",
}
#: The doctor's name in an image, below ``/usr/local/bin``.
DOCTOR = "vllm-mtp-doctor"


def stock_info(patched: PatchedRelease) -> str:
    """Return the official image's ``.dist-info`` folder of vLLM."""
    local = "+cpu" if patched.target == "cpu" else ""
    site = SITES[patched.target]
    return f"{site}/vllm-{patched.pin.version}{local}.dist-info"


def layer(wheel_file: Path, patched: PatchedRelease) -> bytes:
    """Return the layer; its bytes depend on the arguments alone.

    It holds the changed files, the new .dist-info and the doctor, and whiteouts of the
    old .dist-info, of files that the series deletes, and of the bytecode of everything
    that changes.
    """
    with Wheel(wheel_file) as wheel:
        contents, gone = _site_files(wheel, patched.changes, SITES[patched.target])
    root = PurePosixPath(SITES[patched.target])
    members = {f"{root}/{name}": content for name, content in contents.items()}
    # An empty file hides the one that it names (image specification, "Whiteouts").
    for hidden in [
        stock_info(patched),
        *(f"{root}/{name}" for name in gone),
    ]:
        folder, _, name = hidden.rpartition("/")
        members[f"{folder}/.wh.{name}"] = (0o644, b"")
    members[f"usr/local/bin/{DOCTOR}"] = (0o755, Path(doctor.__file__).read_bytes())
    return _tar(members, patched.pin.source_date_epoch)


def _site_files(
    wheel: Wheel, changes: Iterable[Change], site: str
) -> tuple[dict[str, tuple[int, bytes]], list[str]]:
    """Return files with their modes, and names to hide, both below the site folder."""
    info = wheel.dist_info
    existed = {c.path: c.stock is not None for c in changes if inside_wheel(c.path)}
    existed[metadata.VERSION_FILE] = True
    names = [path for path in existed if path in wheel.members]
    names += [name for name in wheel.members if name.startswith(f"{info}/")]
    contents = {
        name: (plain_mode(wheel.mode(name)), wheel.read(name)) for name in names
    }
    gone = [path for path in existed if path not in wheel.members]
    tag = "cpython-" + "".join(re.findall(r"python(3)\.(\d+)", site)[0])
    for source in map(PurePosixPath, existed):
        if existed[str(source)] and source.suffix == ".py":  # PEP 488
            compiled = f"{source.parent}/__pycache__/{source.stem}.{tag}"
            gone += [f"{compiled}{level}.pyc" for level in ("", ".opt-1", ".opt-2")]
    added = {"INSTALLER": b"vllm-mtp-patches\n", "REQUESTED": b""}
    contents |= {f"{info}/{name}": (0o644, content) for name, content in added.items()}
    lines = record.parse(contents[f"{info}/RECORD"][1])
    lines += [record.line(f"{info}/{name}", content) for name, content in added.items()]
    # The base's scripts stay; RECORD may list a file without its hash.
    (found,) = distributions(path=[str(wheel.path)])
    scripts = found.entry_points.select(group="console_scripts")
    bins = [f"../../../bin/{name}" for name in sorted(scripts.names)]
    lines += [record.Line(name, "", "") for name in bins]
    contents[f"{info}/RECORD"] = (0o644, record.render(lines))
    return contents, gone


def _tar(members: dict[str, tuple[int, bytes]], epoch: int) -> bytes:
    """Write members, sorted, of one time and of root.

    Every folder on the way is named, so that no engine invents its permissions.
    """
    parents = {
        str(parent) for name in members for parent in PurePosixPath(name).parents
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted({*parents - {"."}, *members}):
            info = tarfile.TarInfo(name)
            info.mtime = epoch
            info.type, info.mode, content = tarfile.DIRTYPE, 0o755, b""
            if name in members:
                info.type, (info.mode, content) = tarfile.REGTYPE, members[name]
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()
