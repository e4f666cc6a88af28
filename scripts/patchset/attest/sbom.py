# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an image, and with it the delta against its base (CycloneDX 1.6, JSON)."""

from __future__ import annotations

import hashlib
import posixpath
import re
import tarfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.utils import parse_wheel_filename

from patchset import files
from patchset.attest import labels
from patchset.attest.inputs import Inputs
from patchset.downloads.wheel_metadata import read_metadata
from patchset.errors import PatchsetError
from patchset.release import GOARCH, Arch
from patchset.series.patched_release import PatchedRelease
from patchset.wheel.archive import Wheel
from patchset.wheel.overlay import changed_files

_MAX_STATUS = 64 << 20
_STATUS = "var/lib/dpkg/status"
_SAID = re.compile(rf"{_STATUS}|var/lib/dpkg/info/[^/]+\.md5sums|usr/share/doc/[^/]+/copyright")
#: A paragraph's licence in a machine-readable copyright file (DEP-5).
_LICENCE = re.compile(r"^License: (\S.{0,99})$", re.MULTILINE)

Component = dict[str, Any]


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
    components = [_vllm(patched, arch, wheel) for arch, wheel in sorted(wheels.items())]
    components += _delta(next(iter(wheels.values())))
    if made.base is not None:
        components.append(
            {
                "type": "container",
                "bom-ref": "base",
                "name": made.base.reference,
                "version": made.base.digest,
                "description": "the image below the layer; what is in it its own publisher says",
                "hashes": _sha256(made.base.digest),
            }
        )
    components += sorted(map(_python, installed), key=_ref)
    components += sorted(_debian(rootfs), key=_ref) if rootfs else []
    image = {
        "type": "container",
        "bom-ref": "image",
        "name": "vllm-mtp-patches",
        "version": f"{made.release}-mtp.{patched.pin.revision}",
        "purl": f"pkg:oci/vllm-mtp-patches@{quote(made.digest, safe='')}",
        "hashes": _sha256(made.digest),
    }
    found: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, made.digest)}",
        "version": 1,
        "metadata": {"timestamp": labels.created(patched.pin), "component": image},
        "components": components,
        "dependencies": [{"ref": "image", "dependsOn": sorted(map(_ref, components))}],
    }
    if made.base is not None:
        found["compositions"] = [{"aggregate": "incomplete", "assemblies": ["base"]}]
    return labels.written(found)


def _ref(component: Component) -> str:
    return str(component["bom-ref"])


def _sha256(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}]


def _property(name: str, value: str) -> dict[str, str]:
    return {"name": f"vllm-mtp-patches:{name}", "value": value}


def _vllm(patched: PatchedRelease, arch: Arch, wheel: Path) -> Component:
    """The patched vLLM, with its ancestor and each patch."""
    release, version = patched.pin, wheel.name.split("-")[1]
    official = release.wheel("cpu" if version.endswith(".cpu") else "cuda", arch)
    ancestor = {
        "type": "library",
        "name": official.project,
        "version": release.version,
        "purl": labels.purl(official.project, release.version, official.file),
        "hashes": _sha256(official.sha256),
    }
    urls = [posixpath.normpath(f"patches/{release.name}/{patch.entry}") for patch in patched.patches]
    return {
        "type": "library",
        "bom-ref": f"vllm-{arch}",
        "name": "vllm",
        "version": version,
        "purl": labels.purl("vllm", version, wheel.name),
        "hashes": _sha256(files.sha256_file(wheel)),
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "pedigree": {
            "ancestors": [ancestor],
            "patches": [{"type": "unofficial", "diff": {"url": url}} for url in urls],
        },
        "properties": [_property("architecture", GOARCH[arch])],
    }


def _delta(wheel_file: Path) -> list[Component]:
    """The files of vLLM that are otherwise than in the release, hence than in a base that has it."""
    found = []
    with Wheel(wheel_file) as wheel:
        for path, digests in sorted(changed_files(wheel).items()):
            before, now = digests["stock"], digests["patched"]
            change = "added" if before is None else "removed" if now is None else "modified"
            component: Component = {"type": "file", "bom-ref": f"file-{path}", "name": path}
            if now is not None:
                component["hashes"] = _sha256(now)
            component["properties"] = [_property("change", change)]
            if before is not None:
                component["properties"].append(_property("stock-sha256", before))
            found.append(component)
    return found


def _python(wheel: Path) -> Component:
    """An installed wheel: its own hash, and the licence that its METADATA names."""
    said = read_metadata(wheel)
    name, version, *_ = parse_wheel_filename(wheel.name)
    licence = str(said.get("License") or "").strip()
    # Some METADATA has the whole text of a licence where its name belongs.
    named = [licence] if licence and len(licence) <= 100 and "\n" not in licence else []
    named += [
        text.rpartition(" :: ")[2] for text in said.get_all("Classifier", ()) if text.startswith("License ::")
    ]
    licences: list[dict[str, Any]] = [{"license": {"name": text}} for text in dict.fromkeys(named)]
    if expression := said.get("License-Expression"):
        licences = [{"expression": str(expression)}]
    return {
        "type": "library",
        "bom-ref": f"pypi-{name}",
        "name": str(name),
        "version": str(version),
        "purl": labels.purl(name, str(version), wheel.name),
        "hashes": _sha256(files.sha256_file(wheel)),
    } | ({"licenses": licences} if licences else {})


def _debian(rootfs: Path) -> list[Component]:
    """The packages that dpkg's own list in a root file system names, with the licences of their copyright files, and the
    digest of dpkg's list of the files that are installed."""
    texts, links = _dpkg(rootfs)
    if _STATUS not in texts:
        raise PatchsetError(f"{rootfs} has no list of Debian packages")
    found = []
    for paragraph in texts[_STATUS].decode("utf-8", "replace").split("\n\n"):
        lines = (line for line in paragraph.splitlines() if ": " in line and line[:1] != " ")
        fields = dict(line.split(": ", 1) for line in lines)
        name, version, arch = map(fields.get, ("Package", "Version", "Architecture"))
        if not (name and version and arch) or "installed" not in fields.get("Status", ""):
            continue
        component: Component = {
            "type": "library",
            "bom-ref": f"deb-{name}-{arch}",
            "name": name,
            "version": version,
            "purl": f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={arch}",
        }
        copyright_file = texts.get(f"usr/share/doc/{links.get(name, name)}/copyright", b"")
        if licences := dict.fromkeys(_LICENCE.findall(copyright_file.decode("utf-8", "replace"))):
            component["licenses"] = [{"license": {"name": licence}} for licence in licences]
        for place in (f"var/lib/dpkg/info/{name}.md5sums", f"var/lib/dpkg/info/{name}:{arch}.md5sums"):
            if place in texts:
                digest = hashlib.sha256(texts[place]).hexdigest()
                component["properties"] = [_property("md5sums-sha256", digest)]
        found.append(component)
    return found


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
