# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an image, and with it the delta against its base (CycloneDX 1.6, JSON)."""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.utils import parse_wheel_filename

from patchset.attest.inputs import Inputs
from patchset.base import files
from patchset.base.errors import PatchsetError
from patchset.base.release import GOARCH, Arch, Release
from patchset.downloads.wheel_metadata import read_metadata
from patchset.series.patched_release import PatchedRelease
from patchset.wheel.archive import Wheel
from patchset.wheel.overlay import changed_files

#: Media type, as CycloneDX registered it.
MEDIA_TYPE = "application/vnd.cyclonedx+json"
#: Names of properties start so.
_OWN = "vllm-mtp-patches:"
_MAX_STATUS = 64 << 20
_STATUS = "var/lib/dpkg/status"
_SAID = re.compile(rf"{_STATUS}|var/lib/dpkg/info/[^/]+\.md5sums|usr/share/doc/[^/]+/copyright")
#: A paragraph's licence in a machine-readable copyright file (DEP-5).
_LICENCE = re.compile(r"^License: (\S.{0,99})$", re.MULTILINE)
#: Some METADATA has the whole text of a licence where its name belongs.
_SHORT = 100


def sbom(
    made: Inputs,
    patched: PatchedRelease,
    wheels: dict[Arch, Path],
    *,
    installed: Iterable[Path] = (),
    rootfs: Path | None = None,
) -> bytes:
    """The bill of materials, the same whenever it is written.

    ``installed`` are the wheels of the dependencies and ``rootfs`` the base of a full image; a thin one's base has a bill
    of its own.
    """
    release = patched.pin
    components = [_vllm(patched, arch, wheel) for arch, wheel in sorted(wheels.items())]
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
    components += sorted(map(_python, installed), key=lambda component: str(component["bom-ref"]))
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


def _vllm(patched: PatchedRelease, arch: Arch, wheel: Path) -> dict[str, Any]:
    """The patched vLLM, with its ancestor and each patch."""
    release, version = patched.pin, wheel.name.split("-")[1]
    target = "cpu" if version.endswith(".cpu") else "cuda"
    official = release.wheel(target, arch)  # type: ignore[arg-type]
    patches = [
        {"type": "unofficial", "diff": {"url": f"patches/{_place(release, patch.entry)}"}}
        for patch in patched.patches
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


def _python(wheel: Path) -> dict[str, Any]:
    """An installed wheel: its own hash, and the licence that its METADATA names."""
    said = read_metadata(wheel)
    name, version, *_ = parse_wheel_filename(wheel.name)
    licence = str(said.get("License") or "").strip()
    named = [licence] if licence and len(licence) <= _SHORT and "\n" not in licence else []
    named += [
        text.rpartition(" :: ")[2] for text in said.get_all("Classifier", ()) if text.startswith("License ::")
    ]
    if expression := said.get("License-Expression"):
        licences: list[dict[str, Any]] = [{"expression": str(expression)}]
    else:
        licences = [{"license": {"name": text}} for text in dict.fromkeys(named)]
    return {
        "type": "library",
        "bom-ref": f"pypi-{name}",
        "name": str(name),
        "version": str(version),
        "purl": f"pkg:pypi/{name}@{quote(str(version), safe='')}?file_name={quote(wheel.name, safe='')}",
        "hashes": [_sha256(files.sha256_file(wheel))],
    } | ({"licenses": licences} if licences else {})


def debian_packages(rootfs: Path) -> list[dict[str, Any]]:
    """The packages that dpkg's own list in a root file system names, with the licences of their copyright files, and the
    digest of dpkg's list of the files that are installed."""
    texts, links = _dpkg(rootfs)
    if _STATUS not in texts:
        raise PatchsetError(f"{rootfs} has no list of Debian packages")
    found = []
    for paragraph in texts[_STATUS].decode("utf-8", "replace").split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[:1] != " "
        )
        if not {"Package", "Version", "Architecture"} <= fields.keys() or "installed" not in fields.get(
            "Status", ""
        ):
            continue
        name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": f"deb-{name}-{arch}",
            "name": name,
            "version": version,
            "purl": f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={arch}",
        }
        copyright_file = texts.get(f"usr/share/doc/{links.get(name, name)}/copyright", b"").decode(
            "utf-8", "replace"
        )
        if licences := dict.fromkeys(_LICENCE.findall(copyright_file)):
            component["licenses"] = [{"license": {"name": licence}} for licence in licences]
        for place in (f"var/lib/dpkg/info/{name}.md5sums", f"var/lib/dpkg/info/{name}:{arch}.md5sums"):
            if place in texts:
                digest = hashlib.sha256(texts[place]).hexdigest()
                component["properties"] = [{"name": f"{_OWN}md5sums-sha256", "value": digest}]
        found.append(component)
    return sorted(found, key=lambda component: str(component["bom-ref"]))


def _dpkg(rootfs: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """What dpkg and the packages say of themselves, by path; and whose documents stand in another package's folder."""
    texts: dict[str, bytes] = {}
    links: dict[str, str] = {}
    try:
        with tarfile.open(rootfs, "r|*") as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                if member.issym() and name.startswith("usr/share/doc/"):
                    links[name.removeprefix("usr/share/doc/")] = member.linkname.rpartition("/")[2]
                elif member.isreg() and _SAID.fullmatch(name) and member.size <= _MAX_STATUS:
                    content = tar.extractfile(member)
                    texts[name] = content.read() if content else b""
    except (tarfile.TarError, OSError) as error:
        raise PatchsetError(f"{rootfs} cannot be read: {error}") from error
    return texts, links
