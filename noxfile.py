# SPDX-License-Identifier: Apache-2.0
"""Sessions, in one environment. ``nox -s NAME -- --help`` says what one takes."""

import fcntl
import hashlib
import logging
import os
import re
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "tests", "proofs"]
# Nox looks for uv even where no environment is its own; no option turns that off.
logging.getLogger("nox").addFilter(lambda record: "uv binary" not in str(record.msg))

ENVIRONMENT = Path(".nox/project").resolve()
PYTHON = str(ENVIRONMENT / "bin/python")
TREES = Path(os.environ.get("PATCHSET_BUILD_DIR") or "build").resolve() / "trees"
PINS = sorted(Path("patches/releases").glob("v*/release.toml"))
RELEASE = re.compile(r"v?\d+\.\d+\.\d+((rc|\.post)\d+)?")
#: What uv compiles into our own locks; pyproject.toml says how.
LOCKS = {
    "tool": "-c tests/requirements.txt pyproject.toml -o requirements.txt",
    "tests": "--no-generate-hashes --group test --group lint --group server "
    "tests/requirements.in -o tests/requirements.txt",
    "ci": "ci/requirements.in -o ci/requirements.txt",
}
LOCKED = ("--no-deps", "--require-hashes", "-r")
#: In versions of the lock, whichever session installs first.
BOUND = ("-c", "tests/requirements.txt")


def run(session: nox.Session, *words: str) -> None:
    """Run a Python module, such as ``patchset apply``, in the environment."""
    path = f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path, "PYTHONPATH": str(Path("tests/lanes").resolve())}
    call(session, PYTHON, "-m", *words, env=env)


def call(session: nox.Session, *words: str, env: dict[str, str] | None = None) -> None:
    """Run a program. On Ctrl-C it clears away what is half done; nox waits for that."""
    session.run(*words, env=env, external=True, interrupt_timeout=60.0)


def install(session: nox.Session, *groups: str, tree: bool = False) -> None:
    """Install the tool's packages, groups of them, and what a ``tree`` imports."""
    try:
        ENVIRONMENT.parent.mkdir(exist_ok=True)
        with (ENVIRONMENT.parent / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                session.log("another nox installs here: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            install_alone(session, *groups, tree=tree)
    except OSError as error:
        away = "as root, remove .nox and build if root made them; or make a new clone"
        session.error(f"{error.filename}: {error.strerror}; {away}")


def install_alone(session: nox.Session, *groups: str, tree: bool) -> None:
    """Install, while no other nox does."""
    if not is_whole(ENVIRONMENT):
        call(session, sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT))
    (site,) = ENVIRONMENT.glob("lib/python3*/site-packages")
    (site / "patchset.pth").write_text(str(Path("scripts").resolve()))
    pip(session, *LOCKED, "requirements.txt")
    for group in [*groups, *(["test"] if tree else [])]:
        pip(session, *(LOCKED if ".txt" in group else [*BOUND, "--group"]), group)
    if tree:
        pip(session, *BOUND, "torch==2.13.0")  # to be imported: any build will do
        pip(session, "--no-deps", "-r", "tests/requirements.txt")


def is_whole(environment: Path) -> bool:
    """Return whether Python and pip are there, and each package to its last file."""
    sites = [*environment.glob("lib/python3*/site-packages")]
    names = {info.name for site in sites for info in site.glob("*.dist-info")}
    # pip writes INSTALLER last, and moves what it replaces aside as ~NAME.
    last = {file.parent.name for site in sites for file in site.glob("*/INSTALLER")}
    return (
        len(sites) == 1
        and (environment / "bin/python").exists()
        and any(name.startswith("pip-") for name in names)
        and names <= last
        and not any(sites[0].glob("~*"))
    )


def pip(session: nox.Session, *words: str) -> None:
    """Run ``pip install``, unless it has run with the same words and files."""
    read = [Path(word).read_text() for word in words if word.endswith(".txt")]
    read += [Path("pyproject.toml").read_text()] if "--group" in words else []
    done = ENVIRONMENT / hashlib.sha256("\0".join([*words, *read]).encode()).hexdigest()
    if not done.exists():
        run(session, "pip", "install", "--quiet", *words)
        done.touch()


def trees(session: nox.Session, *groups: str) -> tuple[list[str], list[str]]:
    """Make the trees of releases: those named, --all, or the default; with options."""
    install(session, *groups, tree=True)
    names = [word for word in session.posargs if RELEASE.fullmatch(word)]
    options = [word for word in session.posargs if word not in (*names, "--all")]
    # A reader is asked alone, without a tree.
    if "--all" in session.posargs or not (names or "--reader" in session.posargs):
        every = "--all" in session.posargs
        pins = {pin.parent.name: nox.project.load_toml(pin) for pin in PINS}
        names = [name for name, pin in pins.items() if every or "default" in pin]
    if not {"-h", "--help", "--list", "--reader"} & set(options):
        for name in names:
            run(session, "patchset", "apply", name)
    return options, [f"v{name.removeprefix('v')}" for name in names]


def command(name: str, text: str, *words: str, group: str = "") -> None:
    """Make a session of a command of the tool, or of the module that ``words`` name."""

    def session(session: nox.Session) -> None:
        install(session, *group.split())
        run(session, *(words or ("patchset", name)), *session.posargs)

    session.__doc__ = text
    nox.session(session, name=name)


def lane(name: str, text: str, module: str = "", group: str = "") -> None:
    """Make a session of a lane that looks at trees; ``--results`` writes the tables."""

    def session(session: nox.Session) -> None:
        options, names = trees(session, *group.split())
        run(session, module or name, *options, *names)
        if "--results" in options or name == "results":
            run(session, "tables")

    session.__doc__ = text
    nox.session(session, name=name)


doubled = "Ask a stock and a patched server for the same tool call: [--serve]"
command("try", doubled, "server.tryout", group="server")
command("build-image", "Build an image: [RELEASE --base official|debian]")
command("build-wheel", "Build a wheel: [RELEASE --mode overlay|source|plugin]")
command("export", "Write one patch for an installed vLLM: [RELEASE]")
command("doctor", "Check which patches are live: --python PYTHON")
command("publish", "Push an image and its tags: REGISTRY/NAME [RELEASE --sign]")
command("reproduce", "Build a published image again: REGISTRY/NAME:TAG")


@nox.session
def verify(session: nox.Session) -> None:
    """Check a wheel, or an image's contents: FILE | IMAGE"""
    install(session, "server")
    names = [word for word in session.posargs if not word.startswith("-")]
    image = names and not names[-1].endswith(".whl")
    run(session, *(["image"] if image else ["patchset", "verify"]), *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, documents and patches/"""
    install(session, "lint")
    run(session, "pre_commit", "run", "--all-files", "--show-diff-on-failure")
    run(session, "patchset", "lint")


@nox.session
def tests(session: nox.Session) -> None:
    """Test the tool and the lanes: [PYTEST-ARGUMENTS]"""
    install(session, "test", "server")
    run(session, "pytest", "-n", "auto", "--dist", "loadfile", *session.posargs)


@nox.session
def proofs(session: nox.Session) -> None:
    """Prove patches, without and with each: [RELEASE… --patch NAME]"""
    options, names = trees(session)
    run(session, "patchset", "prove", *options, *names)


command("apply", "Make a patched tree: [RELEASE --discard]")
command("refresh", "Write a tree's commits back as diffs: [RELEASE | --all]")


@nox.session
def pin(session: nox.Session) -> None:
    """Pin a release, or lock packages: v0.34.0 | --lock [RELEASE | tool | tests]"""
    install(session)
    words = [word for word in session.posargs if word != "--lock"]
    if "--lock" not in session.posargs:
        run(session, "patchset", "pin", *words)
    elif ours := LOCKS.get(" ".join(words)):
        run(session, "uv", "pip", "compile", "--quiet", "--upgrade", *ours.split())
    else:
        run(session, "patchset", "lock", *words)


@nox.session
def rebase(session: nox.Session) -> None:
    """Port the series, or try it: v0.34.0 | --try [RELEASE | GIT-REF]"""
    attempt = "--try" in session.posargs
    install(session, tree=attempt)
    words = [word for word in session.posargs if word != "--try"]
    run(session, "patchset", "drift" if attempt else "rebase", *words)


judge = "tests/lanes/judges/requirements.txt"
lane("conformance", "Judge tool calls by the suite: [RELEASE… --stock]")
lane("bench", "Measure the cost of parsing: [RELEASE… --quick]")
lane("grammars", "Say outputs under a grammar: [RELEASE… --stock]", group=judge)
lane("kernels", "Compile and run Triton kernels: [RELEASE…]")
lane("clients", "Let real agents write files: [NAME… RELEASE --both]")
lane("peers", "Ask other engines' parsers: [NAME… --frames N]", group=judge)
lane("prefix-cache", "Test prefix caching with MTP: [RELEASE…]", "prefix_cache")
lane("history", "Send replies back as history: [RELEASE… --both]", group=judge)
lane("upstream-tests", "Run vLLM's own tests: [RELEASE…]", "upstream")
lane("judges", "Ask a judge that is not ours: NAME [RELEASE…]", group=judge)
lane("results", "Run what results/ lacks", "tables.missing", f"server {judge}")
served = "Make a file that tests a host with MTP, or run it: [RELEASE --run]"
command("receipt", served, "server", group="server")


@nox.session
def tables(session: nox.Session) -> None:
    """Write the documents' tables, or the README's example: [--example --check]"""
    if "--example" not in session.posargs:
        install(session, "server")
        return run(session, "tables", *session.posargs)
    options, (name, *_) = trees(session)
    options.remove("--example")
    both = [str(TREES / name / side) for side in ("stock", "patched")]
    titles = ("--names", f"vLLM {name}", f"the patched {name}")
    run(session, "conformance.before_after", *both, *titles, *options)
    if "--check" in options:
        run(session, "conformance.documented", both[0])
