# SPDX-License-Identifier: Apache-2.0
"""Sessions, grouped by reader; each runs a command of the tool or a lane of tests."""

import ctypes.util
import functools
import logging
import os
import re
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
# pip, because its configuration (index, certificates) is what users have.
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_external_run = True
nox.options.sessions = ["lint", "tests", "proofs"]
logging.getLogger("nox").addFilter(lambda line: "uv binary" not in str(line.msg))
# One environment for all sessions.
nox.sessions.SessionRunner.envdir = property(
    lambda runner: str(Path(runner.global_config.envdir, "project").resolve())
)
# On Ctrl-C a command clears away what is half done; nox would kill it at once.
nox.Session.run = functools.partialmethod(nox.Session.run, interrupt_timeout=60.0)

TREES = Path(os.environ.get("PATCHSET_BUILD_DIR") or "build").resolve() / "trees"
LANES = {"PYTHONPATH": str(Path("tests/lanes").resolve())}
HELP = not {"-h", "--help"}.isdisjoint(sys.argv)
RELEASE_NAME = re.compile(r"v\d+(\.\d+)+|\d+(\.\d+){2,}")
PYPROJECT = nox.project.load_toml("pyproject.toml")
BFCL = ("--no-deps", "--require-hashes", "-r", "tests/lanes/bfcl/requirements.txt")

session = functools.partial(nox.session, default=False)


def install(session: nox.Session, *groups: str, lane: bool = False) -> None:
    """Install the tool from its lock, dependency groups, and what a vLLM tree imports.

    With ``-- --help`` no tree is imported.
    """
    try:
        session.install("--require-hashes", "-r", "requirements.txt")
        session.install("--no-deps", "-e", ".")
        if groups:
            session.install(*nox.project.dependency_groups(PYPROJECT, *groups))
        if lane and not HELP:
            # Nothing is computed with it; any build will do.
            session.install("torch==2.13.0")
            session.install("--no-deps", "-r", "tests/requirements.txt")
    except nox.command.CommandFailed:
        again = f"nox -R -s {session.name}"
        session.error(f"pip failed, see above; without a network, later: {again}")


def patchset(session: nox.Session, command: str, *arguments: str) -> None:
    """Run a command of the tool."""
    session.run("python", "-m", "patchset", command, *arguments)


def command(name: str, text: str) -> None:
    """Make a session of a command of the tool."""

    def run(session: nox.Session) -> None:
        install(session)
        patchset(session, name, *session.posargs)

    run.__doc__ = text
    session(run, name=name)


def lane(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a lane; after ``--results`` write the tables."""
    session.run("python", "-m", module, *arguments, env=LANES)
    if "--results" in arguments and not HELP:
        session.run("python", "-m", "tables", env=LANES)


def releases(tier: str = "") -> list[str]:
    """All pinned releases, those of a tier, or the one of the tier ``default``."""
    pins = sorted(Path("patches").glob("*/release.toml"))
    read = {pin.parent.name: nox.project.load_toml(pin) for pin in pins}
    default = [name for name, pin in read.items() if pin.get("default")]
    own = [name for name, pin in read.items() if pin.get("tier", "frozen") == tier]
    return {"": [*read], "default": default}.get(tier, own)


def arguments(session: nox.Session) -> tuple[list[str], list[str]]:
    """Options, and releases: named, of ``--tier TIER``, ``--all``, or the default."""
    words = list(session.posargs)
    if "--tier" in words:
        place = words.index("--tier")
        found = releases(" ".join(words[place + 1 : place + 2]) or "none")
        if not found:
            session.error("--tier takes maintained or frozen")
        words[place : place + 2] = found
    if "--all" in words:
        words = [word for word in words if word != "--all"] + releases()
    named = [word for word in words if RELEASE_NAME.fullmatch(word)]
    options = [word for word in words if word not in named]
    with_v = [f"v{name.removeprefix('v')}" for name in named]
    return options, list(dict.fromkeys(with_v)) or releases("default")


def trees(session: nox.Session, names: list[str]) -> None:
    """Make both trees of releases, and the default one's, for its chat templates."""
    for name in [] if HELP else dict.fromkeys([*releases("default"), *names]):
        patchset(session, "apply", name)


def server(session: nox.Session, *groups: str) -> None:
    """Install the clients of a real server."""
    if not HELP and not ctypes.util.find_library("numa"):
        session.error("vLLM's CPU build needs libnuma.so.1: apt-get install libnuma1")
    install(session, "cpu", *groups)


def measure(name: str, text: str, *groups: str, alone: bool = False) -> None:
    """Make a session of a lane that takes releases; ``alone`` makes its own trees."""

    def run(session: nox.Session) -> None:
        install(session, "test", *groups, lane=True)
        options, names = arguments(session)
        trees(session, [] if alone else names)
        lane(session, name, *options, *names)

    run.__doc__ = f"Measure: {text}"
    session(run, name=name)


def serve(name: str, text: str, module: str, *words: str, cpu: bool = True) -> None:
    """Make a session of a lane that asks a server."""

    def run(session: nox.Session) -> None:
        (server if cpu else install)(session, *([] if cpu else ["cpu"]))
        lane(session, module, *words, *session.posargs)

    run.__doc__ = text
    session(run, name=name)


# Use: serve it, build it

serve("try", "Use: serve a small model with MTP and call a tool.", "cpu.tryout")
command("build-image", "Use: build an image: -- [RELEASE --base official|debian].")
command("build-wheel", "Use: build a wheel: -- [RELEASE --mode overlay|source].")
command("build-plugin", "Use: build the plugin for a vLLM that stays as it is.")
command("verify", "Use: verify a wheel: -- FILE.")
command("doctor", "Use: say which patches are live: -- [--python PYTHON].")
command("export", "Use: write one patch for an installed vLLM: -- [RELEASE].")


# Patch: change the series


@nox.session
def lint(session: nox.Session) -> None:
    """Patch: check style, types, documents and patches/, by pre-commit."""
    install(session, "lint")
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")
    session.run("pytest", "-q", "tests/unit/test_documents.py")
    patchset(session, "lint")


@nox.session
def tests(session: nox.Session) -> None:
    """Patch: test the tool and the lanes' own parts: -- [PYTEST-ARGUMENTS]."""
    install(session, "test", "gpu")
    session.run("pytest", "-n", "auto", "--dist", "loadfile", *session.posargs)


@nox.session
def proofs(session: nox.Session) -> None:
    """Patch: run patches' proofs without and with them: -- [RELEASE… --patch NAME]."""
    install(session, "test", lane=True)
    options, names = arguments(session)
    patchset(session, "prove", *options, *names)
    for name in [] if HELP or "--patch" in options else names:
        tree = {"VLLM_TREE": str(TREES / name / "patched")}
        quiet = {"VLLM_LOGGING_LEVEL": "ERROR"}
        session.run("pytest", "-q", "tests/patches/modules", env=tree | quiet)


command("apply", "Patch: make a patched tree: -- [RELEASE --discard].")
command("refresh", "Patch: write a tree's commits back: -- [RELEASE | --all].")


# Release: move to another vLLM

command("fetch", "Release: download and verify inputs: -- [RELEASE].")
command("pin", "Release: pin a release from the package index: -- v0.34.0.")
command("rebase", "Release: port the series: -- v0.34.0 [--from RELEASE].")


@session
def drift(session: nox.Session) -> None:
    """Release: ask whether the series fits a source: -- [RELEASE | GIT-REF]."""
    install(session, "test", lane=True)
    patchset(session, "drift", *session.posargs)


@session
def lock(session: nox.Session) -> None:
    """Release: lock an image's packages, or ours: -- [RELEASE | tool | tests]."""
    install(session)
    tool = "--universal --generate-hashes -c tests/requirements.txt pyproject.toml"
    tests = "--override tests/overrides.txt tests/requirements.in"
    own = {
        ("tool",): f"{tool} -o requirements.txt",
        ("tests",): f"{tests} -o tests/requirements.txt",
    }
    if words := own.get(tuple(session.posargs)):
        options = "--quiet --upgrade --no-annotate --no-header --no-emit-index-url"
        command = f"uv pip compile {options} --python-version 3.11 {words}"
        session.run(*command.split())
    else:
        patchset(session, "lock", *session.posargs)


# Measure: judge a release

measure("bench", "the cost of parsing: -- [RELEASE… --quick].", "bench", alone=True)
measure("kernels", "compile and run Triton kernels: -- [RELEASE…].", alone=True)
measure("tokens", "ask scheduler and cache for wrong prefixes: -- [RELEASE…].")


@session
def conformance(session: nox.Session) -> None:
    """Measure: judge releases, or a server: -- [RELEASE… --stock --url URL]."""
    install(session, "test", lane=True)
    options, names = arguments(session)
    names = names if {"--url", "--list"}.isdisjoint(options) else []
    trees(session, names)
    lane(session, "conformance", "--trees", str(TREES), *options, *names)


@session
def clients(session: nox.Session) -> None:
    """Measure: let real agents write files: -- [NAME… --release RELEASE --stock]."""
    install(session, "test", lane=True)
    trees(session, arguments(session)[1])
    lane(session, "clients", *session.posargs)


@session
def engines(session: nox.Session) -> None:
    """Measure: other parsers, the Rust frontend, BFCL: -- [NAME… | bfcl RELEASE…]."""
    install(session, "test", "engines", lane=True)
    options, names = arguments(session)
    trees(session, names)
    if "bfcl" in options:
        options.remove("bfcl")
        session.install(*BFCL)
        lane(session, "bfcl", "--trees", str(TREES), *options, *names)
    else:
        lane(session, "engines", "--trees", str(TREES), *session.posargs)


@session(name="upstream-tests")
def upstream_tests(session: nox.Session) -> None:
    """Measure: vLLM's own tests, stock and patched; its other parsers: -- [RELEASE…]."""
    install(session, "test", lane=True)
    options, names = arguments(session)
    trees(session, names)
    lane(session, "upstream", *options, *names)
    for name in [] if HELP else names:
        both = [str(TREES / name / side) for side in ("stock", "patched")]
        lane(session, "upstream.other_parsers", *both)


serve(
    "cpu-tests",
    "Measure: serve a small model with MTP on the CPU: -- [--all].",
    *("gpu", "v0.32.0", "--target", "cpu", "--seconds", "14400"),
)


def release_first(session: nox.Session) -> list[str]:
    """The arguments behind a release, or the default one; ``--all`` is the lane's own."""
    words = session.posargs
    named = [word for word in words if RELEASE_NAME.fullmatch(word)]
    rest = [word for word in words if word not in named]
    return [*(named or releases("default"))[:1], *rest]


@session
def receipt(session: nox.Session) -> None:
    """Measure: one file that tests a GPU host: -- [RELEASE --target cpu --check FILE]."""
    (server if "cpu" in session.posargs else install)(session, "cpu")
    lane(session, "gpu", *release_first(session))


@session(name="gpu-tests")
def gpu_tests(session: nox.Session) -> None:
    """Measure: run that file here, MTP = 1 to 5: -- [RELEASE --model MODEL]."""
    install(session, "cpu")
    mtp = [f"--mtp={k}" for k in range(1, 6)]
    name, *words = release_first(session)
    lane(session, "gpu", name, "--run", *mtp, "--seconds", "3600", *words)


@session
def results(session: nox.Session) -> None:
    """Measure: run what is missing of results/, hours: -- [RELEASE… --list]."""
    server(session, "test", "bench")
    options, names = arguments(session)
    named = set(session.posargs) - set(options)
    names = names if named else releases()
    if "--list" not in options and not HELP:
        install(session, lane=True)
        session.install(*BFCL)
        trees(session, names)
    codes = [0, 1] if "--list" in options else [0]
    where = ("tables.missing", "--trees", str(TREES), *options, *names)
    session.run("python", "-m", *where, env=LANES, success_codes=codes)
    lane(session, "tables")


@session
def tables(session: nox.Session) -> None:
    """Measure: write the documents' tables, or README's example: -- [--example]."""
    if "--example" not in session.posargs:
        install(session)
        lane(session, "tables", *session.posargs)
        return
    install(session, "test", lane=True)
    options, (name, *_) = arguments(session)
    trees(session, [name])
    both = [str(TREES / name / side) for side in ("stock", "patched")]
    options.remove("--example")
    titles = ("--names", f"vLLM {name}", f"the patched {name}")
    lane(session, "conformance.before_after", *both, *titles, *options)
    if "--check" in options:
        lane(session, "conformance.documented", both[0])


# Publish: an image for others

serve("image-check", "Publish: look at an image: -- IMAGE.", "image", cpu=False)
command("publish", "Publish: push an image: -- REGISTRY/NAME [RELEASE].")
command("reproduce", "Publish: build a published image again: -- REGISTRY/NAME:TAG.")
