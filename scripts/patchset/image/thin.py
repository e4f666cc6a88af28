# SPDX-License-Identifier: Apache-2.0
"""Thin images: one small layer on an image that stays in its registry.

Made without an engine. The layout holds what is new: layers, configurations, manifests.
A layer has the files in which a patched wheel differs, as a plain tar file: what
compresses better differs between versions of zlib, and the digest is to be the same on
every machine.
"""

import copy
import io
import re
import tarfile
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath
from typing import Any

from patchset import console, doctor, files
from patchset.errors import PatchsetError
from patchset.image import labels, layout, sbom
from patchset.release import GOARCH, Arch, Target
from patchset.series.apply import PatchedRelease
from patchset.series.patched_files import Change
from patchset.wheel import metadata, overlay, record
from patchset.wheel.archive import Wheel, plain_mode

#: Where vLLM's own Dockerfiles install it.
SITES: dict[Target, str] = {
    "cuda": "usr/local/lib/python3.12/dist-packages",
    "cpu": "opt/venv/lib/python3.12/site-packages",
}
#: The doctor's name in an image, below ``/usr/local/bin``.
DOCTOR = "vllm-mtp-doctor"
#: What an index names of a configuration.
_PLATFORM = {"architecture", "os", "variant"}
#: Docker's older name of the type of a layer.
_DOCKER = "application/vnd.docker.image.rootfs.diff.tar"


def build(
    patched: PatchedRelease, bases: Sequence[layout.Part], base_name: str, out: Path
) -> Path:
    """Write a thin image into the folder ``out``, on one base or on one each arch."""
    release = patched.pin
    wheels: dict[Arch, Path] = {}
    blobs: list[bytes] = []
    entries: list[dict[str, Any]] = []
    for part in bases:
        wheel = wheels[part.arch] = overlay.build(patched, part.arch)
        with console.step(f"make the layer for {GOARCH[part.arch]}"):
            layer = _layer(wheel, patched)
        said = labels.labels(patched, wheel) | {
            labels.BASE_NAME: base_name,
            labels.BASE_DIGEST: part.digest,
        }
        parts = _image(part, layer, said, f"series {patched.digest} on {release.name}")
        blobs += [layer, *parts]
        platform = {name: part.config[name] for name in _PLATFORM & part.config.keys()}
        entries.append(layout.descriptor(parts[-1], layout.MANIFEST, platform=platform))
    top = entries[0]
    if len(entries) > 1:
        index = {"schemaVersion": 2, "mediaType": layout.INDEX, "manifests": entries}
        blobs.append(layout.dump(index))
        top = layout.descriptor(blobs[-1], layout.INDEX)
    with files.lock(out), files.atomic_folder(out) as temp:
        layout.write(temp / "image", top, labels.tags(patched)[0], blobs)
        below = {f"base-{part.arch}": part.digest for part in bases}
        sbom.write(temp, patched, top["digest"], wheels, below)
    return out


def _image(
    base: layout.Part, layer: bytes, said: dict[str, str], did: str
) -> tuple[bytes, bytes]:
    config = copy.deepcopy(base.config)
    config["created"] = said[labels.CREATED]
    config["config"] = config.get("config") or {}
    config["config"]["Labels"] = {**base.labels, **said}
    config["rootfs"]["diff_ids"].append(layout.digest(layer))
    if config.get("history"):
        by = f"vllm-mtp-patches: {did}"
        config["history"].append({"created": said[labels.CREATED], "created_by": by})
    written = layout.dump(config)
    manifest = {
        "schemaVersion": 2,
        "mediaType": layout.MANIFEST,
        "config": layout.descriptor(written, layout.CONFIG),
        "layers": [
            *map(_as_oci, base.manifest["layers"]),
            layout.descriptor(layer, layout.LAYER),
        ],
        "annotations": {
            name: said[name] for name in (labels.BASE_NAME, labels.BASE_DIGEST)
        },
    }
    return written, layout.dump(manifest)


def _as_oci(entry: dict[str, Any]) -> dict[str, Any]:
    kind = str(entry.get("mediaType")).replace(_DOCKER, layout.LAYER)
    kind = kind.replace(".gzip", "+gzip")
    if not kind.startswith(layout.LAYER):
        raise PatchsetError(
            f"the base has a layer of the type {kind[:100]}", "choose another base"
        )
    return {"mediaType": kind, "digest": entry["digest"], "size": entry["size"]}


def stock_info(patched: PatchedRelease) -> str:
    """Return the official image's ``.dist-info`` folder of vLLM."""
    local = "+cpu" if patched.target == "cpu" else ""
    site = SITES[patched.target]
    return f"{site}/vllm-{patched.pin.version}{local}.dist-info"


def _layer(wheel_file: Path, patched: PatchedRelease) -> bytes:
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
    for hidden in [stock_info(patched), *(f"{root}/{name}" for name in gone)]:
        folder, _, name = hidden.rpartition("/")
        members[f"{folder}/.wh.{name}"] = (0o644, b"")
    members[f"usr/local/bin/{DOCTOR}"] = (0o755, Path(doctor.__file__).read_bytes())
    return _tar(members, patched.pin.source_date_epoch)


def _site_files(
    wheel: Wheel, changes: Iterable[Change], site: str
) -> tuple[dict[str, tuple[int, bytes]], list[str]]:
    """Return files with their modes, and names to hide, both below the site folder."""
    info = wheel.dist_info
    inside = [change for change in changes if overlay.inside_wheel(change.path)]
    existed = {change.path: change.stock is not None for change in inside}
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
