# SPDX-License-Identifier: Apache-2.0
"""The one layer of a thin image: what a patched wheel has otherwise than the release in the base (OCI image layers)."""

from __future__ import annotations

import configparser
import io
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchset.base.errors import UsageError
from patchset.base.release import Release, Target
from patchset.image.context import DOCTOR
from patchset.install import doctor
from patchset.wheel import metadata, record
from patchset.wheel.archive import Wheel, plain_mode
from patchset.wheel.overlay import changed_files

#: Where vLLM's own Dockerfiles install: with the system's Python, and for the CPU into a virtual environment.
SITES: dict[Target, str] = {
    "cuda": "/usr/local/lib/python3.12/dist-packages",
    "cpu": "/opt/venv/lib/python3.12/site-packages",
}
_SITE = re.compile(r"(/[A-Za-z0-9._+-]+)+/python3\.(?P<minor>\d+)/(?:site|dist)-packages")
_WHITEOUT = ".wh."
#: The compiled forms of a module: without, with less and with least assertions (PEP 488).
_OPTIMIZATIONS = ("", ".opt-1", ".opt-2")


@dataclass(frozen=True)
class Place:
    """Where a base has vLLM: the ``site`` folder, and the ``version`` that its .dist-info carries there."""

    site: str
    version: str

    @property
    def python(self) -> str:
        """The tag in the names of bytecode there: ``cpython-312``."""
        match = _SITE.fullmatch(self.site)
        if match is None or ".." in PurePosixPath(self.site).parts:
            raise UsageError(
                f"{self.site} is not a folder of Python packages", f"it looks like {SITES['cuda']}"
            )
        return f"cpython-3{match['minor']}"


def place(release: Release, target: Target, site: str | None, version: str | None) -> Place:
    """Where the official image of a release has vLLM, unless said otherwise."""
    version = version or release.version + ("+cpu" if target == "cpu" else "")
    if not re.fullmatch(r"[0-9][A-Za-z0-9.+_]*", version):
        raise UsageError(f"{version!r} is not a version", f"it looks like {release.version}")
    found = Place(site or SITES[target], version)
    _ = found.python
    return found


def layer(wheel_file: Path, where: Place, epoch: int) -> bytes:
    """The layer as an uncompressed tar file whose bytes depend on the arguments alone.

    It holds the changed files, the new .dist-info and the doctor; whiteouts of the old .dist-info, of files that the
    series deletes and of the bytecode of everything that changes, which would run in place of the new text.
    """
    with Wheel(wheel_file) as wheel:
        contents, gone = _site_files(wheel, where)
    root = where.site.strip("/")
    members = {f"{root}/{name}": content for name, content in contents.items()}
    members |= {f"{root}/{name}": (0o644, b"") for name in map(whiteout, gone)}
    members[f"usr/local/bin/{DOCTOR}"] = (0o755, Path(doctor.__file__).read_bytes())
    return _tar(members, epoch)


def whiteout(name: str) -> str:
    """The name of the empty file that hides ``name`` ("Representing Changes" in the specification)."""
    path = PurePosixPath(name)
    return str(path.with_name(_WHITEOUT + path.name))


def _site_files(wheel: Wheel, where: Place) -> tuple[dict[str, tuple[int, bytes]], list[str]]:
    info = wheel.dist_info
    contents: dict[str, tuple[int, bytes]] = {}
    gone = [f"vllm-{where.version}.dist-info"]

    def put(name: str) -> None:
        mode = plain_mode(wheel.members[name].external_attr >> 16)
        contents[name] = (mode, wheel.read(name))

    touched = {path: digests["stock"] is not None for path, digests in changed_files(wheel).items()}
    for path, existed in (touched | {metadata.VERSION_FILE: True}).items():
        if path in wheel.members:
            put(path)
        else:
            gone.append(path)
        if existed and path.endswith(".py"):
            gone += _bytecode(path, where.python)
    for name in wheel.members:
        if name.startswith(f"{info}/"):
            put(name)
    added = {"INSTALLER": b"vllm-mtp-patches\n", "REQUESTED": b""}
    contents |= {f"{info}/{name}": (0o644, content) for name, content in added.items()}
    lines = record.parse(contents[f"{info}/RECORD"][1])
    lines += [record.line(f"{info}/{name}", content) for name, content in added.items()]
    # The base's scripts stay; RECORD may list a file without its hash.
    lines += [record.Line(f"../../../bin/{name}", "", "") for name in _scripts(wheel)]
    contents[f"{info}/RECORD"] = (0o644, record.render(lines))
    return contents, gone


def _bytecode(path: str, python: str) -> list[str]:
    source = PurePosixPath(path)
    return [f"{source.parent}/__pycache__/{source.stem}.{python}{level}.pyc" for level in _OPTIMIZATIONS]


def _scripts(wheel: Wheel) -> list[str]:
    """The names of the programs that an installer makes for a wheel (entry points specification)."""
    name = f"{wheel.dist_info}/entry_points.txt"
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(wheel.read(name).decode("utf-8") if name in wheel.members else "")
    return sorted(parser["console_scripts"]) if parser.has_section("console_scripts") else []


def _tar(members: dict[str, tuple[int, bytes]], epoch: int) -> bytes:
    """Sorted, of one time and of root; every folder on the way is named, so that no engine invents its permissions."""
    folders = {str(parent) for name in members for parent in PurePosixPath(name).parents} - {"."}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted({*folders, *members}):
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
