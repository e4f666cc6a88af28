# SPDX-License-Identifier: Apache-2.0
"""The exported patch, and the program that applies and undoes it, in each state of an
installed vLLM, which is really made.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from conftest import (
    APT,
    NEW_FILE,
    PARSER,
    SOURCE,
    Project,
    StandIn,
    diff_line,
    git,
    lay,
    mount,
    new_project,
    program,
    ran,
    replaced,
    resize,
    umount,
)

STOCK = {
    **{name: text for name, text in SOURCE.items() if name.startswith("vllm/")},
    "vllm/serve/api.py": PARSER,
    "vllm/serve/gone.py": "GONE = 1\n",
    "vllm/table.json": "[1]\n",
}
CHANGED = ("vllm/parser.py", "vllm/serve/api.py")
NEW = ("vllm/fresh/reader.py", "vllm/reader.py")
PATCHED = STOCK | dict.fromkeys(CHANGED, PARSER.replace("line 5\n", "five\n"))
PATCHED |= dict.fromkeys(NEW, "READ = 1\n")
del PATCHED["vllm/serve/gone.py"]
#: The next revision of the same patch.
REVISED = PATCHED | {"vllm/reader.py": "READ = 2\n"}
REVISED |= {"vllm/parser.py": PARSER.replace("line 5\n", "5\n")}
DELETED = (
    "diff --git a/vllm/serve/gone.py b/vllm/serve/gone.py\ndeleted file mode 100644\n"
    "--- a/vllm/serve/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-GONE = 1\n"
)
#: What the program and the tools need beside sh.
PROGRAMS = """
awk cat chmod cp cut dirname env grep head ls mkdir mv python3 rm rmdir sed sha256sum
sort tail
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a series that changes, adds and deletes files."""
    test = "tests/test_parser.py"
    diffs = [diff_line(5, "five", path) for path in (*CHANGED, test)] + [DELETED]
    diffs += [NEW_FILE.replace("vllm/reader.py", path) for path in NEW]
    with pytest.MonkeyPatch.context() as environment:
        folder = tmp_path_factory.mktemp("exported")
        project = new_project(folder, {**STOCK, test: PARSER}, environment)
        project.add_patch("first", "".join(diffs))
        project.run("refresh")
        return Path(project.run("export").stdout.strip())


@pytest.fixture(params=["patch", "git"])
def tools(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Make a PATH that has one of the two programs which apply a patch."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in (*PROGRAMS.split(), request.param):
        # The python3 on the PATH may be a script, such as pyenv's.
        program = sys.executable if name == "python3" else shutil.which(name)
        if not program:
            pytest.skip(f"{APT}{name}")
        (folder / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Make a folder like site-packages."""
    return lay(tmp_path / "site packages", STOCK)


SH = shutil.which("dash") or "/bin/sh"


def command(exported: Path, action: str, site: object) -> list[str]:
    return [SH, str(exported / "patch-vllm.sh"), action, str(site)]


def run(
    exported: Path, action: str, site: object, *, before: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Run the program; its exit status and its one sentence."""
    argv = [*before, *command(exported, action, site)]
    done = subprocess.run(argv, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert said.count("\n") == 1, said
    return done.returncode, said


def refuses(exported: Path, action: str, site: Path, words: str, status: int) -> None:
    ended, said = run(exported, action, site)
    assert ended == status and words in said


def tree(site: Path) -> dict[str, str]:
    """Return what is in a folder: the texts of files, and what else there is."""
    return {
        file.relative_to(site).as_posix(): (
            f"-> {file.readlink()}"
            if file.is_symlink()
            else file.read_text()
            if file.is_file()
            else "an empty folder"
        )
        for file in site.rglob("*")
        if not file.is_dir() or not any(file.iterdir())
    }


ALL = STOCK | PATCHED


def series_of(files: dict[str, str]) -> dict[str, str]:
    """Return those of the files that the series changes, adds or deletes."""
    return {
        path: text
        for path, text in files.items()
        if STOCK.get(path) != PATCHED.get(path)
    }


#: For each state: what apply, undo and state answer, the exit status and words of the
#: sentence. With 0, apply and undo have done it; else nothing has changed.
Answers = tuple[tuple[int, str], tuple[int, str], tuple[int, str]]
LEFT = "stock, but with {} files that an earlier patch left: "


def refused(words: str) -> Answers:
    return (1, words), (1, words), (1, words)


STATES: dict[str, Answers] = {
    "stock": ((0, "patched: "), (0, "nothing to undo"), (3, "stock: ")),
    "patched": ((0, "already patched: "), (0, "stock again: "), (0, "patched: ")),
    "half applied": ((0, "patched: "), (0, "stock again: "), (1, "half patched")),
    "half undone": ((0, "patched: "), (0, "stock again: "), (1, "half patched")),
    "left by it": (
        (0, "patched, with 2 files of an earlier patch replaced: "),
        (0, "stock again, with 2 files of an earlier patch removed: "),
        (1, LEFT.format(2)),
    ),
    "left by another revision": (
        (0, "patched, with 2 files of an earlier patch replaced: "),
        (0, "stock again, with 2 files of an earlier patch removed: "),
        (1, LEFT.format(2)),
    ),
    "another revision": refused("or of another revision of the patch"),
    "another release": refused("this is vLLM 1.3.0, not 1.2.0: "),
    "changed by hand": refused("1 of 5 files of vLLM 1.2.0"),
    "a file missing": refused("such as vllm/parser.py, are changed by something"),
    "symbolic links": ((1, "links: run UV_LINK_M"), (0, "nothing"), (3, "stock: ")),
    "hard links": ((0, "patched: "), (0, "nothing to undo"), (3, "stock: ")),
    "no right": ((1, "vllm: Permission denied"), (0, "nothing"), (3, "stock: ")),
    "no right below": ((1, "no right to write in vllm/s"), (0, "no"), (3, "stock: ")),
    "read-only": ((1, "vllm: Read-only file system"), (0, "no"), (3, "stock: ")),
    "not replaceable": ((1, "api.py cannot be replaced"), (0, "no"), (3, "stock: ")),
    "a development version": ((0, "patched: "), (0, "nothing"), (3, "stock: ")),
    "a repository": ((0, "patched: "), (0, "nothing to undo"), (3, "stock: ")),
    "odd settings": ((0, "patched: "), (0, "nothing to undo"), (3, "stock: ")),
    "a patched wheel": ((0, "already"), (1, "wheel is installed"), (0, "patched: ")),
    "no vLLM": ((2, "there is no vLLM"), (2, "no vLLM"), (2, "no vLLM")),
}
VERSION = STOCK["vllm/_version.py"]
#: The files that bring a stock vLLM into a state.
LAID = {
    "patched": PATCHED,
    "a patched wheel": PATCHED | {"vllm-1.2.0+mtp.1.dist-info/patchset.json": "{}"},
    "half applied": {path: PATCHED[path] for path in (*NEW, CHANGED[0])},
    "half undone": {path: PATCHED[path] for path in CHANGED},
    "left by it": {path: PATCHED[path] for path in NEW},
    "left by another revision": {path: REVISED[path] for path in NEW},
    "another revision": REVISED,
    "another release": {
        "vllm/_version.py": VERSION.replace("1.2.0", "1.3.0"),
        "vllm/parser.py": "parser of 1.3.0\n",
    },
    "changed by hand": {"vllm/parser.py": PARSER + "more\n"},
    "a development version": {
        "vllm/_version.py": VERSION.replace("1.2.0", "1.2.1.dev3+g0123")
    },
}
#: Runs a program as root without root's right to write everywhere.
UNPRIVILEGED = ("/usr/bin/setpriv", "--bounding-set=-dac_override")


def make(state: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Bring a stock vLLM into a state; what the program is run by."""
    lay(site, LAID.get(state, {}))
    match state:
        case "patched" | "a patched wheel":
            (site / "vllm/serve/gone.py").unlink()
        case "a file missing":
            (site / "vllm/parser.py").unlink()
        case "symbolic links" | "hard links":
            cache = shutil.copytree(site, site.with_name("cache"))
            for file in filter(Path.is_file, site.rglob("*")):
                file.unlink()
                way = "symlink_to" if state == "symbolic links" else "hardlink_to"
                getattr(file, way)(cache / file.relative_to(site))
        case "no right" | "no right below":
            (site / "vllm" / ("serve" if "below" in state else "")).chmod(0o555)
            if os.geteuid() == 0:
                if subprocess.run([*UNPRIVILEGED, "/bin/true"]).returncode:
                    pytest.skip("no setpriv")
                return UNPRIVILEGED
        case "read-only":
            mount(site, "--bind", str(site))
            mount(site, "-o", "remount,bind,ro")
        case "not replaceable":
            mount(file := site / "vllm/serve/api.py", "--bind", str(file))
        case "a repository" | "odd settings":
            git = shutil.which("git", path=os.defpath) or pytest.skip(f"{APT}git")
            subprocess.run([git, "init", "-q", str(site.parent)], check=True)
            if state == "odd settings":
                text = "[core]\nautocrlf = true\n[apply]\nignoreWhitespace = change\n"
                lay(site.parent, {".gitconfig": text})
                for name, value in {
                    "HOME": str(site.parent),
                    "GIT_DIR": str(site.parent / ".git"),
                    "POSIXLY_CORRECT": "1",
                    "TMPDIR": "/nowhere",
                    "CDPATH": "/",
                }.items():
                    monkeypatch.setenv(name, value)
        case "no vLLM":
            shutil.rmtree(site / "vllm")
    return ()


@pytest.mark.parametrize("action", ["apply", "undo"])
@pytest.mark.parametrize("state", STATES)
def test_each_state_is_ended_or_left(
    exported: Path,
    tools: Path,
    site: Path,
    state: str,
    action: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = make(state, site, monkeypatch)
    found = tree(site)
    rest = {path: text for path, text in found.items() if path not in series_of(ALL)}
    goal = PATCHED if action == "apply" else STOCK
    apply, undo, shown = STATES[state]
    status, words = apply if action == "apply" else undo
    try:
        said = run(exported, "state", site, before=before)
        assert said[0] == shown[0] and shown[1] in said[1], said
        assert tree(site) == found
        for again in range(2):
            said = run(exported, action, site, before=before)
            assert said[0] == status, said
            assert words in said[1] or (again and not status), said
            changed = not status and said[1].split()[0] not in ("nothing", "already")
            assert tree(site) == (rest | series_of(goal) if changed else found), said
            found = tree(site)
    finally:
        if state == "read-only":
            umount(site)
        elif state == "not replaceable":
            umount(site / "vllm/serve/api.py")
    if state == "hard links":
        assert tree(site.with_name("cache")) == STOCK


@pytest.mark.parametrize("stop", ["INT", "TERM", "KILL"])
@pytest.mark.parametrize("action", ["apply", "undo"])
def test_it_is_stopped_at_each_of_its_steps(
    exported: Path,
    site: Path,
    action: str,
    stop: str,
    tmp_path: Path,
    stand_in: StandIn,
) -> None:
    """Nothing has changed; after a kill, the next run ends or undoes what was begun."""
    start, goal = (STOCK, PATCHED) if action == "apply" else (PATCHED, STOCK)
    count, at = tmp_path / "count", tmp_path / "at"
    for name in ("cp", "mv", "rm"):
        # Before what it does, or behind it.
        step = f"echo >>{count}; ! cmp -s {count} {at} || kill -{stop} 0"
        stand_in(
            name, f'{step}\n{shutil.which(name)} "$@"\nended=$?\n{step}; exit $ended'
        )

    def stopped(point: int) -> tuple[int, str]:
        shutil.rmtree(site)
        lay(site, start)
        count.write_text("")
        at.write_text("\n" * point)
        done = subprocess.run(
            command(exported, action, site),
            capture_output=True,
            text=True,
            start_new_session=True,
        )
        return done.returncode, done.stderr

    assert stopped(0) == (0, "") and tree(site) == goal
    for point in range(1, count.read_text().count("\n") + 1, 4):
        ended, said = stopped(point)
        if stop == "KILL":
            assert ended == -signal.SIGKILL
            again, wanted = [("apply", PATCHED), ("undo", STOCK)][point // 4 % 2]
            assert run(exported, again, site)[0] == 0
            assert tree(site) == wanted
        elif ended:
            assert ended == {"INT": 130, "TERM": 143}[stop], (point, said)
            assert said == "patch-vllm.sh: interrupted: nothing is changed\n"
            assert tree(site) == start
        else:
            assert tree(site) == goal


@pytest.mark.parametrize("action", ["apply", "undo"])
def test_a_full_disk_changes_nothing(
    exported: Path, tools: Path, disk: Path, action: str
) -> None:
    start, goal = (STOCK, PATCHED) if action == "apply" else (PATCHED, STOCK)
    seen = set()
    for pages in range(0, 80, 3):
        site = lay(disk / str(pages), start)
        resize(disk, shutil.disk_usage(disk).used + pages * 4096)
        status, said = run(exported, action, site)
        assert tree(site) == (start if status else goal), said
        assert not status or "No space left" in said, said
        seen.add(status)
        resize(disk, 64 << 20)
        shutil.rmtree(site)
    assert seen == {0, 1}


def test_two_runs_at_once(exported: Path, site: Path, stand_in: StandIn) -> None:
    fifo, mv = site.with_name("fifo"), f'exec {shutil.which("mv")} "$@"'
    os.mkfifo(fifo)
    stand_in("mv", f"read -r line <{fifo}\n{mv}")
    argv = command(exported, "apply", site)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as first:
        with fifo.open("w"):  # the first waits at its first file
            words = f"process {first.pid} is at work"
            for action in ("apply", "undo"):
                refuses(exported, action, site, words, 1)
            stand_in("mv", mv)
        assert first.wait() == 0
    assert tree(site) == PATCHED


def test_a_run_in_another_container(
    exported: Path, site: Path, stand_in: StandIn
) -> None:
    """Its lock is seen and its processes are not; without one, no file is lost."""
    handle = os.open(site / "vllm", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    for action in ("apply", "undo"):
        refuses(exported, action, site, "another run is at work", 1)
    assert tree(site) == STOCK
    os.close(handle)
    # One was killed; its number has a process that runs the program, or will.
    argv = [SH, "-c", "read -r line", "patch-vllm.sh"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as other:
        (site / f"vllm/.patch-vllm-{other.pid}").mkdir()
        assert run(exported, "undo", site)[0] == 0
        assert tree(site) == STOCK
        other.communicate()
    stand_in("mv", f'{shutil.which("mv")} "$@"\nrm -r vllm/.patch-vllm-*')
    refuses(exported, "apply", site, "run it again", 1)
    assert all((site / path).exists() for path in CHANGED)


@pytest.mark.parametrize("also", [{}, {"vllm/reader.py/not-a-file": ""}])
def test_nobody_reads_what_it_says(
    exported: Path, site: Path, also: dict[str, str]
) -> None:
    """Its sentence ends it, and nothing is left of its work."""
    lay(site, also)
    reading, writing = os.pipe()
    os.close(reading)
    subprocess.run(command(exported, "apply", site), stdout=writing, stderr=writing)
    os.close(writing)
    assert tree(site) == (STOCK | also if also else PATCHED)


def test_modes_and_bytecode(exported: Path, site: Path) -> None:
    parser, cached = site / "vllm/parser.py", site / "vllm/__pycache__"
    lay(cached, {"parser.cpython-312.pyc": "old", "other.cpython-312.pyc": "other"})
    parser.chmod(0o664)
    (site / "vllm/serve/api.py").chmod(0o775)
    narrow = ("/bin/sh", "-c", 'umask 77; "$@"', "-")
    assert run(exported, "apply", site, before=narrow)[0] == 0
    changed = (*CHANGED, *NEW, "vllm/fresh")
    modes = [(site / file).stat().st_mode & 0o777 for file in changed]
    assert modes == [0o664, 0o775, 0o644, 0o644, 0o755]
    assert [file.name for file in cached.iterdir()] == ["other.cpython-312.pyc"]


def test_what_it_cannot_do_is_said(
    exported: Path, tools: Path, site: Path, tmp_path: Path
) -> None:
    found = tree(site)
    alone = shutil.copytree(exported, tmp_path / "copy")
    (patch,) = alone.glob("*.patch")
    whole = patch.read_text()
    for damaged in (whole[:-90], whole.replace("+five", "+six"), ""):
        patch.write_text(damaged)
        refuses(alone, "apply", site, "nothing is changed", 1)
        assert tree(site) == found
    second = shutil.copy(patch, alone / "vllm-1.2.0-mtp.2.patch")
    refuses(alone, "apply", site, "2 patches lie beside it", 2)
    for file in (patch, Path(second)):
        file.unlink()
    refuses(alone, "apply", site, "copy the whole folder", 2)
    for tool in ("awk", "grep", "sha256sum"):
        (tools / tool).rename(tools / "away")
        refuses(exported, "apply", site, f"because {tool} is missing", 1)
        (tools / "away").rename(tools / tool)
    for tool in ("patch", "git"):
        (tools / tool).unlink(missing_ok=True)
    assert run(exported, "apply", site)[0] == 1 and tree(site) == found
    help_, wrong = (
        subprocess.run([exported / "patch-vllm.sh", *words], capture_output=True)
        for words in (["--help"], ["apply", "one", "two"])
    )
    assert (help_.returncode, help_.stdout) == (0, wrong.stderr)
    assert wrong.returncode == 2 and b"usage: patch-vllm.sh" in wrong.stderr


def test_a_patch_that_is_busyboxs(exported: Path, tools: Path, site: Path) -> None:
    """It takes no option of GNU's."""
    (tools / "patch").unlink(missing_ok=True)
    program(tools / "patch", "exit 1")
    status, said = run(exported, "apply", site)
    words = "patched: " if (tools / "git").exists() else "neither GNU patch nor git"
    assert words in said and status == words.startswith("neither")


@pytest.mark.parametrize("kind", ["before.sha256", "after.sha256", "patch"])
def test_a_folder_that_is_not_whole(
    exported: Path, site: Path, tmp_path: Path, kind: str
) -> None:
    """By half a list of sums, files of vLLM itself would be new ones, to be undone."""
    alone = shutil.copytree(exported, tmp_path / "copy")
    (file,) = alone.glob(f"*.{kind}")
    parts = re.split("(?m)^(?=diff |[0-9a-f]{64} )", file.read_text())[1:]
    for cut in ([], parts[:-1], parts[1:], None):
        file.write_text("".join(cut)) if cut is not None else file.unlink()
        for action in ("undo", "apply", "state"):
            status, said = run(alone, action, site)
            assert status and "copy the whole folder" in said
            assert tree(site) == STOCK


def test_it_finds_what_python_imports(
    exported: Path, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install, too; and not what lies in the folder it is started in."""
    monkeypatch.chdir(lay(tmp_path / "here", {"vllm/__init__.py": ""}))
    venv.create(tmp_path / "venv")
    checkout = lay(tmp_path / "checkout", STOCK)
    (purelib,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    python = tmp_path / "venv/bin/python"
    assert run(exported, "state", python) == (
        2,
        f"patch-vllm.sh: {python} finds no vLLM: name its folder, or another Python\n",
    )
    wordy = "import atexit\nprint('hello')\natexit.register(print, 'bye')\n"
    lay(purelib, {"editable.pth": f"{checkout}\n", "sitecustomize.py": wordy})
    assert run(exported, "state", "/") == (
        2,
        "patch-vllm.sh: there is no vLLM in /\n",
    )
    for place in (tmp_path / "venv", python, checkout, checkout / "vllm"):
        assert run(exported, "apply", place)[0] == 0
        assert tree(checkout) == PATCHED
        assert run(exported, "undo", place)[0] == 0
        assert tree(checkout) == STOCK


def test_the_dockerfile_needs_no_network(
    exported: Path, tools: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for no package where patch or git is, and fails where neither is."""
    base, copied = (exported / "Dockerfile").read_text().split("COPY ")
    assert base.endswith("ARG BASE=registry.example/pkg:v1.2.0\nFROM ${BASE}\n")
    files, line = copied.split(" /opt/mtp/\nRUN ")
    names = {file for word in files.split() for file in exported.glob(word)}
    assert {file.name for file in exported.iterdir()} - {"Dockerfile"} == {
        file.name for file in names
    }
    line = line.replace("\\\n", "").replace("sh /opt/mtp", f"{SH} {exported}")
    monkeypatch.setenv("PYTHONPATH", str(site))
    for _ in range(2):
        assert ran([SH, "-c", line]).stderr == ""
        assert tree(site) == PATCHED
    shutil.rmtree(site)
    lay(site, STOCK)
    for tool in ("patch", "git"):
        (tools / tool).unlink(missing_ok=True)
    assert "apt-get" in ran([SH, "-c", line], 1).stderr and tree(site) == STOCK


@pytest.mark.usefixtures("narrow_umask")
def test_a_folder_for_each_release(packaged: Project) -> None:
    packaged.pin_next(PARSER, paths=("vllm/parser.py", "tests/test_parser.py"))
    exported = [
        Path(packaged.run("export", release).stdout.strip())
        for release in ("v1.2.0", "v1.3.0", "v1.2.0")
    ]
    assert [folder.name for folder in exported] == ["v1.2.0", "v1.3.0", "v1.2.0"]
    replaced(packaged.pin, "revision = 1", "revision = 2")
    packaged.run("export", "v1.2.0")
    modes = {file.stat().st_mode & 0o077 for file in exported[0].iterdir()}
    assert modes == {0o55, 0o44}
    assert sorted(file.name for file in exported[0].iterdir()) == [
        "Dockerfile",
        "patch-vllm.sh",
        "vllm-1.2.0-mtp.2.after.sha256",
        "vllm-1.2.0-mtp.2.before.sha256",
        "vllm-1.2.0-mtp.2.patch",
    ]


def test_git_takes_the_mails(own: Project, tmp_path: Path) -> None:
    mails = own.run("export", "--mails", str(tmp_path / "mails")).stdout.split()
    assert [Path(mail).name[:4] for mail in mails] == ["0001", "0002", "0003"]
    own.run("apply")
    git(tmp_path, "clone", "--quiet", str(own.patched.with_name("stock")), "clone")
    git(tmp_path / "clone", "am", "--quiet", *mails)
    text = (tmp_path / "clone/pkg/parser.py").read_text()
    assert text == (own.patched / "pkg/parser.py").read_text()
    assert "is not empty" in (
        own.run("export", "--mails", str(tmp_path / "mails"), status=2).stderr
    )
