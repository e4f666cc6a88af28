# SPDX-License-Identifier: Apache-2.0
"""The layer of a thin image: what a patched wheel has otherwise than the release.

A plain tar file. What compresses better differs between versions of zlib, and the digest
is to be the same on every machine.
"""

from __future__ import annotations

import io
import re
import tarfile
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

from patchset import doctor
from patchset.errors import UsageError
from patchset.release import Release, Target
from patchset.wheel import metadata, record
from patchset.wheel.archive import Wheel, plain_mode
from patchset.wheel.overlay import changed_files

#: Where vLLM's own Dockerfiles install it.
SITES: dict[Target, str] = {
    "cuda": "/usr/local/lib/python3.12/dist-packages",
    "cpu": "/opt/venv/lib/python3.12/site-packages",
}
#: The doctor's name in an image, below ``/usr/local/bin``.
DOCTOR = "vllm-mtp-doctor"
_SITE = re.compile(
    r"(/[A-Za-z0-9._+-]+)+/python3\.(?P<minor>\d+)/(?:site|dist)-packages"
)


@dataclass(frozen=True)
class Place:
    """Where a base has vLLM.

    ``version`` is that of its .dist-info, ``python`` the tag of bytecode: cpython-312.
    """

    site: str
    version: str
    python: str


def place(
    release: Release,
    target: Target,
    site: str | None = None,
    version: str | None = None,
) -> Place:
    """Return where a base has vLLM; by default, where the official image does."""
    version = version or release.version + ("+cpu" if target == "cpu" else "")
    if not re.fullmatch(r"[0-9][A-Za-z0-9.+_]*", version):
        raise UsageError(
            f"{version!r} is not a version", f"it looks like {release.version}"
        )
    site = site or SITES[target]
    match = _SITE.fullmatch(site)
    if match is None or ".." in PurePosixPath(site).parts:
        raise UsageError(
            f"{site} is not a folder of Python packages",
            f"it looks like {SITES['cuda']}",
        )
    return Place(site, version, f"cpython-3{match['minor']}")


def layer(wheel_file: Path, where: Place, epoch: int) -> bytes:
    """Return the layer; its bytes depend on the arguments alone.

    It holds the changed files, the new .dist-info and the doctor, and whiteouts of the
    old .dist-info, of files that the series deletes, and of the bytecode of everything
    that changes.
    """
    with Wheel(wheel_file) as wheel:
        contents, gone = _site_files(wheel, where)
    root = PurePosixPath(where.site.strip("/"))
    members = {f"{root}/{name}": content for name, content in contents.items()}
    # An empty file hides the one that it names (image specification, "Whiteouts").
    for hidden in (root / name for name in gone):
        members[str(hidden.with_name(f".wh.{hidden.name}"))] = (0o644, b"")
    members[f"usr/local/bin/{DOCTOR}"] = (0o755, Path(doctor.__file__).read_bytes())
    return _tar(members, epoch)


def _site_files(
    wheel: Wheel, where: Place
) -> tuple[dict[str, tuple[int, bytes]], list[str]]:
    """Return files with their modes, and names to hide, both below the site folder."""
    info = wheel.dist_info
    gone = [f"vllm-{where.version}.dist-info"]
    existed = {
        path: digests["stock"] is not None
        for path, digests in changed_files(wheel).items()
    }
    existed[metadata.VERSION_FILE] = True
    names = [path for path in existed if path in wheel.members]
    names += [name for name in wheel.members if name.startswith(f"{info}/")]
    contents = {
        name: (plain_mode(wheel.members[name].external_attr >> 16), wheel.read(name))
        for name in names
    }
    for path in existed:
        if path not in wheel.members:
            gone.append(path)
        if existed[path] and path.endswith(".py"):
            source = PurePosixPath(path)
            compiled = f"{source.parent}/__pycache__/{source.stem}.{where.python}"
            # PEP 488
            gone += [f"{compiled}{level}.pyc" for level in ("", ".opt-1", ".opt-2")]
    added = {"INSTALLER": b"vllm-mtp-patches\n", "REQUESTED": b""}
    contents |= {f"{info}/{name}": (0o644, content) for name, content in added.items()}
    lines = record.parse(contents[f"{info}/RECORD"][1])
    lines += [record.line(f"{info}/{name}", content) for name, content in added.items()]
    # The base's scripts stay; RECORD may list a file without its hash.
    (found,) = distributions(path=[str(wheel.path)])
    scripts = found.entry_points.select(group="console_scripts")
    lines += [
        record.Line(f"../../../bin/{name}", "", "") for name in sorted(scripts.names)
    ]
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
            if name in members:
                info.mode, content = members[name]
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
    return out.getvalue()
