# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an image, and with it the delta against its base (CycloneDX 1.6, JSON)."""

from __future__ import annotations

import json
import tarfile
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from patchset.attest.inputs import Inputs
from patchset.base import files
from patchset.base.errors import PatchsetError
from patchset.base.release import GOARCH, Arch, Release
from patchset.locks.wheelhouse import Locked
from patchset.series import order
from patchset.wheel.archive import Wheel
from patchset.wheel.changed_files import changed_files

#: Media type, as CycloneDX registered it.
MEDIA_TYPE = "application/vnd.cyclonedx+json"
#: Names of properties start so.
_OWN = "vllm-mtp-patches:"
_MAX_STATUS = 64 << 20


def sbom(
    made: Inputs,
    release: Release,
    wheels: dict[Arch, Path],
    *,
    locks: Iterable[Locked] = (),
    rootfs: Path | None = None,
) -> bytes:
    """The bill of materials, the same whenever it is written.

    ``locks`` are the dependencies and ``rootfs`` the base of a full image; a thin one's base has a bill of its own.
    """
    components = [_vllm(release, arch, wheel) for arch, wheel in sorted(wheels.items())]
    components += _delta(next(iter(wheels.values())), made)
    incomplete = []
    if made.base is not None:
        base = {
            "type": "container",
            "bom-ref": "base",
            "name": made.base.reference,
            "version": made.base.digest,
            "description": "the image below the layer; what is in it its own publisher says",
            "hashes": [_sha256(made.base.digest.removeprefix("sha256:"))],
        }
        components.append(base)
        incomplete.append("base")
    components += [_python(locked) for locked in sorted(locks, key=lambda entry: entry.name)]
    if rootfs is not None:
        components += debian_packages(rootfs)
    created = datetime.fromtimestamp(release.source_date_epoch, UTC)
    digest = made.digest.removeprefix("sha256:")
    found: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, made.digest)}",
        "version": 1,
        "metadata": {
            "timestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "container",
                "bom-ref": "image",
                "name": "vllm-mtp-patches",
                "version": f"{made.release}-mtp.{release.revision}",
                "purl": f"pkg:oci/vllm-mtp-patches@{quote(made.digest, safe='')}",
                "hashes": [_sha256(digest)],
            },
        },
        "components": components,
        "dependencies": [
            {"ref": "image", "dependsOn": sorted(component["bom-ref"] for component in components)}
        ],
    }
    if incomplete:
        found["compositions"] = [{"aggregate": "incomplete", "assemblies": incomplete}]
    return (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode()


def _sha256(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest}


def _vllm(release: Release, arch: Arch, wheel: Path) -> dict[str, Any]:
    """The patched vLLM, with its ancestor and each patch."""
    version = wheel.name.split("-")[1]
    target = "cpu" if version.endswith(".cpu") else "cuda"
    official = release.wheel(target, arch)  # type: ignore[arg-type]
    patches = [
        {"type": "unofficial", "diff": {"url": f"patches/{_place(release, patch.entry)}"}}
        for patch in order.read(release)
    ]
    return {
        "type": "library",
        "bom-ref": f"vllm-{arch}",
        "name": "vllm",
        "version": version,
        "purl": f"pkg:pypi/vllm@{quote(version, safe='')}?file_name={quote(wheel.name, safe='')}",
        "hashes": [_sha256(files.sha256_file(wheel))],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "pedigree": {
            "ancestors": [
                {
                    "type": "library",
                    "name": official.project,
                    "version": release.version,
                    "purl": f"pkg:pypi/{official.project}@{release.version}?file_name={quote(official.file, safe='')}",
                    "hashes": [_sha256(official.sha256)],
                }
            ],
            "patches": patches,
        },
        "properties": [{"name": f"{_OWN}architecture", "value": GOARCH[arch]}],
    }


def _place(release: Release, entry: str) -> str:
    return entry.removeprefix("../") if entry.startswith("../") else f"{release.name}/{entry}"


def _delta(wheel_file: Path, made: Inputs) -> list[dict[str, Any]]:
    """The files of vLLM that are otherwise than in the release, hence than in a base that has it."""
    found = []
    with Wheel(wheel_file) as wheel:
        for path, digests in sorted(changed_files(wheel).items()):
            before, now = digests["stock"], digests["patched"]
            change = "added" if before is None else "removed" if now is None else "modified"
            component: dict[str, Any] = {"type": "file", "bom-ref": f"file-{path}", "name": path}
            if now is not None:
                component["hashes"] = [_sha256(now)]
            component["properties"] = [{"name": f"{_OWN}change", "value": change}]
            if before is not None:
                component["properties"].append({"name": f"{_OWN}stock-sha256", "value": before})
            found.append(component)
    return found


def _python(locked: Locked) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": f"pypi-{locked.name}",
        "name": locked.name,
        "version": str(locked.version),
        "purl": f"pkg:pypi/{locked.name}@{quote(str(locked.version), safe='')}",
        "hashes": [_sha256(digest) for digest in sorted(locked.sha256)],
    }


def debian_packages(rootfs: Path) -> list[dict[str, Any]]:
    """The packages that dpkg's own list in a root file system names.

    Raises:
        PatchsetError: the tar file has no such list.
    """
    found = []
    for paragraph in _status(rootfs).split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[:1] != " "
        )
        if not {"Package", "Version", "Architecture"} <= fields.keys() or "installed" not in fields.get(
            "Status", ""
        ):
            continue
        name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
        found.append(
            {
                "type": "library",
                "bom-ref": f"deb-{name}-{arch}",
                "name": name,
                "version": version,
                "purl": f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={arch}",
            }
        )
    return sorted(found, key=lambda component: component["bom-ref"])


def _status(rootfs: Path) -> str:
    try:
        with tarfile.open(rootfs, "r|*") as tar:
            for member in tar:
                if member.name.removeprefix("./") == "var/lib/dpkg/status" and member.size <= _MAX_STATUS:
                    content = tar.extractfile(member)
                    return content.read().decode("utf-8", "replace") if content else ""
    except (tarfile.TarError, OSError) as error:
        raise PatchsetError(f"{rootfs} cannot be read: {error}") from error
    raise PatchsetError(f"{rootfs} has no list of Debian packages")
