# SPDX-License-Identifier: Apache-2.0
"""What the attestations of an image say: licences and one hash for each component, the state of the checkout."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import small_base
from conftest import Project
from patchset import files
from patchset.attest import attestation, provenance, sbom
from patchset.image import debian_base, thin
from patchset.registry.layout import Layout
from patchset.release import load
from patchset.series.patched_release import PatchedRelease
from registry_server import host, own_places
from small_base import base, released
from test_wheel import packaged

__all__ = ["base", "host", "own_places", "packaged", "released", "small_base"]

STATUS = """\
Package: libc6
Status: install ok installed
Version: 2.36-9
Architecture: amd64

Package: gone
Status: deinstall ok config-files
Version: 1
Architecture: amd64

Package: libc-bin
Status: install ok installed
Version: 2.36-9
Architecture: amd64
"""


def rootfs(place: Path) -> Path:
    copyright_file = "Format: x\n\nFiles: *\nLicense: LGPL-2.1+\n text\n\nFiles: y\nLicense: GPL-2+\n"
    with tarfile.open(place, "w") as tar:
        for name, text in {
            "./var/lib/dpkg/status": STATUS,
            "./var/lib/dpkg/info/libc6:amd64.md5sums": "0 usr/lib/libc.so.6\n",
            "./usr/share/doc/libc6/copyright": copyright_file,
        }.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("./usr/share/doc/libc-bin")
        link.type, link.linkname = tarfile.SYMTYPE, "libc6"
        tar.addfile(link)
    return place


def wheel(folder: Path, name: str, metadata: str) -> Path:
    place = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as opened:
        opened.writestr(
            f"{name}-1.0.dist-info/METADATA",
            f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{metadata}\n",
        )
    return place


def test_every_component_has_its_licence_and_one_hash(released: Project, base: str, tmp_path: Path) -> None:
    made = thin.build(PatchedRelease(load("v1.2.0")), "cuda", ["x86_64"], base)
    installed = [
        wheel(tmp_path, "one", "License-Expression: MIT OR Apache-2.0"),
        wheel(tmp_path, "two", "License: BSD\nClassifier: License :: OSI Approved :: BSD License"),
        wheel(tmp_path, "long", f"License: {'word ' * 100}"),
    ]
    content = sbom.sbom(
        made.inputs,
        PatchedRelease(load("v1.2.0")),
        made.wheels,
        installed=installed,
        rootfs=rootfs(tmp_path / "x.tar"),
    )
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode()) is None
    found = {component["bom-ref"]: component for component in json.loads(content)["components"]}
    assert found["pypi-one"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert found["pypi-two"]["licenses"] == [
        {"license": {"name": "BSD"}},
        {"license": {"name": "BSD License"}},
    ]
    assert "licenses" not in found["pypi-long"]
    assert found["pypi-one"]["hashes"] == [{"alg": "SHA-256", "content": files.sha256_file(installed[0])}]
    licences = [{"license": {"name": "LGPL-2.1+"}}, {"license": {"name": "GPL-2+"}}]
    assert found["deb-libc6-amd64"]["licenses"] == found["deb-libc-bin-amd64"]["licenses"] == licences
    assert found["deb-libc6-amd64"]["properties"][0]["name"].endswith("md5sums-sha256")
    assert "deb-gone-amd64" not in found


def test_the_provenance_names_the_state_of_the_checkout(
    released: Project, base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = thin.build(PatchedRelease(load("v1.2.0")), "cuda", ["x86_64"], base)

    def said() -> tuple[str, list[str]]:
        found = json.loads(provenance.provenance(made.inputs, load("v1.2.0")))["predicate"]["buildDefinition"]
        commits = [
            entry["digest"]["gitCommit"]
            for entry in found["resolvedDependencies"]
            if entry["name"] == "checkout"
        ]
        return found["internalParameters"]["checkout"], commits

    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", *identity, *words], cwd=released.root, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert said() == ("no commit", [])
    assert "cannot be traced to a commit" in capsys.readouterr().err
    git("init", "--quiet")
    (released.root / ".gitignore").write_text("build\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "x")
    assert said() == ("clean", [git("rev-parse", "HEAD")])
    (released.root / "patches/v1.2.0/notes").write_text("x\n")
    assert said() == ("dirty", [git("rev-parse", "HEAD")])
    held = attestation.read(Layout(made.path))
    assert b"no commit" in held[attestation.PROVENANCE]


def test_the_root_of_debian_is_no_package_of_an_index(released: Project, base: str) -> None:
    made = thin.build(PatchedRelease(load("v1.2.0")), "cuda", ["x86_64"], base).inputs
    source = made.sources[0].model_copy(update={"file": "debian-bookworm-cuda-x86_64-0.tar"})
    content = provenance.provenance(made.model_copy(update={"sources": [source]}), load("v1.2.0"))
    found = json.loads(content)["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert found[0]["uri"] == "file:build/images/base/debian-bookworm-cuda-x86_64-0.tar"


def test_the_base_has_no_setuid_no_package_lists_and_nothing_that_everybody_writes(tmp_path: Path) -> None:
    """The hook as mmdebstrap runs it, on a root of a few files."""
    root = tmp_path / "a root"
    modes = {
        "usr/bin/su": 0o4755, "usr/bin/wall": 0o2755, "etc/shared": 0o666, "etc/plain": 0o644, "bin/tool": 0o755,
        "var/lib/apt/lists/deb_Packages": 0o644, "var/cache/apt/pkgcache.bin": 0o644, "var/log/apt/term.log": 0o644,
        "etc/apt/apt.conf.d/99mmdebstrap": 0o644,
    }  # fmt: skip
    for name, mode in modes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
        (root / name).chmod(mode)
    for folder, mode in {"tmp": 0o1777, "srv": 0o777}.items():
        (root / folder).mkdir()
        (root / folder).chmod(mode)
    hook = debian_base._CLEAN.format("'deb http://deb.debian.org/debian bookworm main'")
    subprocess.run(["sh", "-c", hook, "hook", str(root)], check=True)
    left = {str(path.relative_to(root)): path.stat().st_mode & 0o7777 for path in root.rglob("*")}
    assert left["usr/bin/su"] == left["usr/bin/wall"] == left["bin/tool"] == 0o755
    assert (left["etc/shared"], left["etc/plain"]) == (0o664, 0o644)
    assert left["tmp"] == 0o1777 and left["srv"] == 0o775
    assert not [name for name in left if "lists/" in name or name.endswith((".bin", ".log", "99mmdebstrap"))]
    assert (root / "etc/apt/sources.list").read_text() == "deb http://deb.debian.org/debian bookworm main\n"
