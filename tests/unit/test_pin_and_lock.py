# SPDX-License-Identifier: Apache-2.0
"""Pins and locks of a real index on loopback, with small wheels of the real layout."""

import hashlib
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.pylock import is_valid_pylock_path
from uv import find_uv_bin

from conftest import EPOCH, NEW_FILE, Project, lay, replaced, tar, zipped
from package_index import PackageIndex, configured
from patchset import release
from patchset.errors import PatchsetError, UnavailableError, UsageError
from patchset.image import skopeo
from patchset.inputs import lock, pin
from patchset.series.read import lines

CUDA = "vllm-1.3.0-{build}cp38-abi3-manylinux_2_28_{arch}.whl"
#: The last upload of several for one platform.
BEST = CUDA.format(build="10-", arch="x86_64")
CPU = "vllm_cpu-1.3.0-cp38-abi3-manylinux_2_28_x86_64.whl"
SDIST = "vllm-1.3.0.tar.gz"


def wheel(
    name: str,
    version: str,
    requires: tuple[str, ...] = (),
    note: str = "",
) -> bytes:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {text}\n" for text in requires)
    # So large that it is seen when a wheel is downloaded whole.
    code = random.Random(note).randbytes(600_000).hex()
    files = {
        f"{name}/__init__.py": f"# {code}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
        f"{info}/RECORD": "",
    }
    return zipped({path: text.encode() for path, text in files.items()})


def sdist(text: str = "__commit_id__ = commit_id = 'g0123abcde'\n") -> bytes:
    members = {
        "vllm-1.3.0/vllm/_version.py": text,
        "vllm-1.3.0/PKG-INFO": (
            "Name: vllm\nRequires-Dist: torch==2.5.0\n"
            "Requires-Dist: torch==9 ; extra == 'x'\n"
        ),
        "vllm-1.3.0/setup.py": "raise SystemExit('executed')\n",
    }
    return tar(members, form="w:gz")


def release_files() -> dict[str, bytes]:
    """Return a release with a second upload for x86_64, a CPU wheel, and what the
    wheels require.
    """
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
    for name in (
        CUDA.format(build="", arch="x86_64"),
        BEST,
        CUDA.format(build="9-", arch="x86_64"),
        CUDA.format(build="", arch="aarch64"),
        "vllm-1.3.0-cp38-abi3-macosx_11_0_arm64.whl",
    ):
        files[name] = wheel("vllm", "1.3.0", requires, note=name)
    torch = wheel("torch", "2.5.0", ("cuda-lib", "maths"))
    files["torch-2.5.0-py3-none-any.whl"] = torch
    for name in ("cuda_lib-1.0", "maths-1.0", "only_x86-1.0", "dep-1.0", "dep-1.1"):
        project, version = name.split("-")
        files[f"{name}-py3-none-any.whl"] = wheel(project, version)
    return files


@pytest.fixture
def index(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PackageIndex]:
    with configured(release_files(), monkeypatch, hashes=True) as running:
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
        monkeypatch.setattr(skopeo, "today", lambda _: None)  # of another registry
        yield running


@pytest.fixture
def pinned(index: PackageIndex, project: Project) -> release.Release:
    project.run("pin", "v1.3.0")
    return release.load("v1.3.0")


def is_of(content: bytes, artifact: release.Artifact) -> bool:
    """Return whether a pin is of these bytes."""
    pinned = (artifact.sha256, artifact.size)
    return pinned == (hashlib.sha256(content).hexdigest(), len(content))


def test_pin_has_every_input(index: PackageIndex, pinned: release.Release) -> None:
    assert (pinned.commit, pinned.torch, pinned.revision) == ("0123abcde", "2.5.0", 1)
    assert pinned.source_date_epoch == EPOCH
    assert pinned.image == "docker.io/vllm/vllm-openai:v1.3.0"
    assert pinned.wheel("cuda", "x86_64").file == BEST
    inputs = [pinned.sdist, *pinned.wheels["cuda"].values()]
    inputs += pinned.wheels["cpu"].values()
    assert len(inputs) == 4
    assert all(is_of(index.files[one.file], one) for one in inputs)
    whole = [name for name, ranges in index.downloads() if not ranges]
    assert not any(name.endswith(".whl") for name in whole)


def test_rebase_pins_what_is_not_pinned_and_drift_pins_nothing(
    index: PackageIndex, project: Project
) -> None:
    project.add_patch("new-file", NEW_FILE)
    project.run("refresh")
    folder = project.root / "patches/releases/v1.3.0"
    assert "new-file" in project.run("drift", "v1.3.0", "--no-proofs").stdout
    assert not folder.exists()
    project.run("rebase", "1.3.0")
    assert release.load("v1.3.0").commit == "0123abcde"
    assert [line.entry for line in lines() if line.takes("v1.3.0")] == ["new-file"]
    assert not project.diff("new-file", "v1.3.0").exists()
    project.run("drift", "--no-proofs", out=("series of v1.2.0 on v1.3.0: it fits",))


def test_a_pin_is_never_made_twice(index: PackageIndex, project: Project) -> None:
    folder = project.root / "patches/releases/v1.3.0"
    project.run("pin", "v1.3.0")
    before = (folder / "release.toml").read_bytes()
    assert "pinned already" in project.run("pin", "1.3.0", status=2).stderr
    assert (folder / "release.toml").read_bytes() == before


def test_pin_has_the_digest_of_the_image_that_is_asked_for(
    index: PackageIndex, project: Project
) -> None:
    pin.make("v1.3.0", lambda name: f"sha256:{'1' * 64}")
    image = release.load("v1.3.0").image
    assert image == f"docker.io/vllm/vllm-openai:v1.3.0@sha256:{'1' * 64}"


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
    assert not (project.root / "patches/releases/v1.3.0").exists()


def versions(
    target: lock.Use = "cuda", arch: release.Arch = "x86_64"
) -> dict[str, str]:
    locked = lock.read(release.load("v1.3.0"), target, arch)
    return {package.name: package.version for package in locked}


@pytest.fixture
def locked(pinned: release.Release, project: Project) -> Path:
    """Make the lock of the release's wheel for CUDA."""
    project.run("lock", "v1.3.0")
    return lock.lock_file(pinned, "cuda", "x86_64")


def test_lock_has_a_wheel_by_its_sum_and_no_index(
    index: PackageIndex, project: Project, locked: Path, tmp_path: Path
) -> None:
    assert is_valid_pylock_path(locked)
    wanted = {
        "cuda-lib": "1.0",
        "dep": "1.1",
        "maths": "1.0",
        "only-x86": "1.0",
        "torch": "2.5.0",
    }
    assert versions() == wanted
    project.run("lock", "v1.3.0", "--arch", "aarch64")
    del wanted["only-x86"]
    assert versions(arch="aarch64") == wanted
    packages = lock.read(release.load("v1.3.0"), "cuda", "x86_64")
    (dep,) = [package for package in packages if package.name == "dep"]
    assert is_of(index.files["dep-1.1-py3-none-any.whl"], dep.wheel)
    first = locked.read_text()
    assert "127.0.0.1" not in first and str(tmp_path) not in first
    index.files["dep-1.2-py3-none-any.whl"] = wheel("dep", "1.2")
    project.run("lock", "v1.3.0")
    assert locked.read_text() == first, "without --upgrade, versions stay"
    project.run("lock", "v1.3.0", "--upgrade")
    assert versions()["dep"] == "1.2"


def test_an_installer_takes_a_lock_that_lies_beside_the_wheels(
    pinned: release.Release, locked: Path, tmp_path: Path
) -> None:
    for file in (locked, *lock.gather(lock.read(pinned, "cuda", "x86_64"))):
        shutil.copy(file, tmp_path)
    beside = tmp_path / locked.name
    # The image's Python is 3.11; uv checks the one that runs the tests.
    running = f"=={sys.version_info.major}.{sys.version_info.minor}.*"
    beside.write_text(beside.read_text().replace("==3.11.*", running))
    install = [
        find_uv_bin(),
        "pip",
        "install",
        "--no-config",
        "--offline",
        "--reinstall",
        "--python-version=3.11",
        f"--target={tmp_path / 'to'}",
    ]
    subprocess.run([*install, "-r", beside], check=True, capture_output=True)
    assert (tmp_path / "to/dep").is_dir()
    beside.write_text(
        re.sub('sha256 = ".{8}', 'sha256 = "00000000', beside.read_text())
    )
    assert subprocess.run([*install, "-r", beside], capture_output=True).returncode != 0


def test_the_cpu_lock_takes_the_torch_of_the_index(
    pinned: release.Release, project: Project
) -> None:
    project.run("lock", "v1.3.0", "--target", "cpu")
    assert versions("cpu") == {
        "cuda-lib": "1.0",
        "dep": "1.1",
        "maths": "1.0",
        "torch": "2.5.0",
    }
    with pytest.raises(UsageError) as caught:
        versions()
    assert "nox -s pin -- --lock v1.3.0 --target cuda" in str(caught.value.hint)


def test_overrides_and_constraints(index: PackageIndex, project: Project) -> None:
    index.files[BEST] = wheel("vllm", "1.3.0", ("torch==2.5.0", "dep>=5"))
    project.run("pin", "v1.3.0")
    project.run("lock", "v1.3.0", status=1, err=("dep>=5", "overrides"))
    folder = project.root / "patches/locks/v1.3.0"
    lay(folder, {"overrides.cuda.txt": "# the index lacks dep 5\ndep>=1\n"})
    project.run("lock", "v1.3.0")
    assert versions()["dep"] == "1.1"
    constraint = "# dep 1.1 does not go with torch 2.5\ndep<1.1\n"
    lay(folder, {"constraints.cuda.txt": constraint})
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
    pinned: release.Release, locked: Path, old: str, new: str
) -> None:
    replaced(locked, old, new)
    with pytest.raises(PatchsetError, match="cannot be read"):
        lock.read(pinned, "cuda", "x86_64")


def test_a_wheel_with_odd_metadata_ends_in_a_message(
    index: PackageIndex, project: Project
) -> None:
    index.files[BEST] = zipped(
        {"vllm-1.3.0.dist-info/METADATA": b"Requires-Dist: torch==2.5.\xff\n"}
    )
    project.run("pin", "v1.3.0")
    project.run("lock", "v1.3.0", status=1, err=("no METADATA that can be read",))


@pytest.mark.parametrize("name", ["latest", "v1.2", "V1.2.0", "1.2", "v1"])
def test_a_name_that_is_nearly_a_release(project: Project, name: str) -> None:
    project.run(
        "apply",
        name,
        status=2,
        err=(f"unknown release {name}\n", "did you mean v1.2.0?"),
    )
    assert "did you mean" not in project.run("apply", "v1.20", status=2).stderr


@pytest.mark.parametrize("commit", ["0ab", "0" * 5000])
def test_a_pin_that_no_command_could_read_is_not_written(
    index: PackageIndex, project: Project, commit: str
) -> None:
    index.files[SDIST] = sdist(f"__commit_id__ = commit_id = 'g{commit}'\n")
    assert "commit: " in project.run("pin", "v1.3.0", status=1).stderr
    assert not (project.root / "patches/releases/v1.3.0/release.toml").exists()


def test_a_release_is_pinned_by_its_own_name(
    index: PackageIndex, project: Project
) -> None:
    project.run(
        "pin", "1.3", status=2, err=("no release v1.3\n", "did you mean v1.3.0?")
    )
    assert not (project.root / "patches/releases/v1.3").exists()


@pytest.mark.parametrize(
    "line",
    ["size = 1" + "0" * 30, "size = true", "size = 1.0", "x = " + "[" * 5000],
)
def test_what_is_no_pin(project: Project, line: str) -> None:
    name = line.partition(" ")[0]
    text = re.sub(rf"(?m)^{name} = .*$", line, project.pin.read_text())
    project.pin.write_text(text if line in text else f"{line}\n{text}")
    project.run("apply", status=1, err=("release.toml", "by hand"))
