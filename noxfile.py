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
GRACE = 60.0
nox.Session.run = functools.partialmethod(nox.Session.run, interrupt_timeout=GRACE)

BUILD = Path(os.environ.get("PATCHSET_BUILD_DIR") or "build").resolve()
TREES = BUILD / "trees"
LANES = {"PYTHONPATH": str(Path("tests/lanes").resolve())}
HELP = not {"-h", "--help"}.isdisjoint(sys.argv)
RELEASE_NAME = re.compile(r"v\d+(\.\d+)+|\d+(\.\d+){2,}")
PYPROJECT = nox.project.load_toml("pyproject.toml")

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


def commands(reader: str, texts: dict[str, str]) -> None:
    """Make a session of each of these commands of the tool."""
    for name, text in texts.items():

        def run(session: nox.Session) -> None:
            install(session)
            patchset(session, session.name, *session.posargs)

        run.__doc__ = f"{reader}: {text}."
        session(run, name=name)


def lane(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a lane; after ``--results`` write the tables."""
    session.run("python", "-m", module, *arguments, env=LANES)
    if "--results" in arguments and not HELP:
        session.run("python", "-m", "tables", env=LANES)


def releases(default: bool = False, tier: str | None = None) -> list[str]:
    """The pinned releases, the default one, or those of a tier."""
    pins = sorted(Path("patches").glob("*/release.toml"))
    read = {pin.parent.name: nox.project.load_toml(pin) for pin in pins}
    return [
        name
        for name, pin in read.items()
        if (pin.get("default") or not default)
        and (tier is None or pin.get("tier", "frozen") == tier)
    ]


def arguments(session: nox.Session) -> tuple[list[str], list[str]]:
    """Options, and releases: named, of ``--tier TIER``, ``--all``, or the default."""
    words = list(session.posargs)
    while "--tier" in words:
        place = words.index("--tier")
        tier = words[place + 1] if place + 1 < len(words) else ""
        if not (found := releases(tier=tier)):
            session.error(f"no tier {tier!r}; there are maintained and frozen")
        words[place : place + 2] = found
    if "--all" in words:
        words = [word for word in words if word != "--all"] + releases()
    named = [word for word in words if RELEASE_NAME.fullmatch(word)]
    options = [word for word in words if word not in named]
    with_v = [f"v{name.removeprefix('v')}" for name in named]
    return options, list(dict.fromkeys(with_v)) or releases(default=True)


def trees(session: nox.Session, names: list[str]) -> None:
    """Make the stock and the patched tree of releases."""
    for name in [] if HELP else dict.fromkeys(names):
        patchset(session, "apply", name)


def server(session: nox.Session, *groups: str) -> None:
    """Install the clients of a real server."""
    if not HELP and not ctypes.util.find_library("numa"):
        session.error("vLLM's CPU build needs libnuma.so.1: apt-get install libnuma1")
    install(session, "cpu", *groups)


# Use: serve it, build it


@session(name="try")
def try_it(session: nox.Session) -> None:
    """Use: serve a small model with MTP on the CPU and call a tool: -- [--keep]."""
    server(session)
    lane(session, "cpu.tryout", *session.posargs)


commands(
    "Use",
    {
        "build-image": "build a container image: -- [RELEASE --base official|debian]",
        "build-wheel": "build a patched wheel: -- [RELEASE --mode overlay|source]",
        "build-plugin": "build the plugin for a vLLM that stays as it is",
        "verify": "verify a wheel: -- [FILE]",
        "doctor": "say which patches are live: -- [--python PYTHON]",
        "export": "write one patch for an installed vLLM: -- [RELEASE]",
    },
)


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
    """Patch: run each patch's proofs without and with it: -- [RELEASE… | --all]."""
    install(session, "test", lane=True)
    options, names = arguments(session)
    patchset(session, "prove", *options, *names)
    for name in [] if HELP else names:
        tree = {"VLLM_TREE": str(TREES / name / "patched")}
        quiet = {"VLLM_LOGGING_LEVEL": "ERROR"}
        session.run("pytest", "-q", "tests/patches/modules", env=tree | quiet)


commands(
    "Patch",
    {
        "apply": "make a patched tree: -- [RELEASE --upto N]",
        "refresh": "write a tree's commits back as diffs: -- [RELEASE | --all]",
    },
)


# Release: move to another vLLM


commands(
    "Release",
    {
        "fetch": "download and verify the inputs: -- [RELEASE --from-dir DIR]",
        "pin": "pin a release from the package index: -- v0.34.0",
        "rebase": "port the series: -- v0.34.0 [--from RELEASE --continue]",
    },
)


@session
def drift(session: nox.Session) -> None:
    """Release: ask whether the series fits a source: -- [RELEASE | DIR | GIT-REF]."""
    install(session, "test", lane=True)
    patchset(session, "drift", *session.posargs)


@session
def lock(session: nox.Session) -> None:
    """Release: lock an image's packages, or ours: -- [RELEASE | tool | tests]."""
    install(session)
    compile_to = ("--quiet", "--upgrade", "--no-annotate", "--no-header")
    command = ("uv", "pip", "compile", *compile_to, "--no-emit-index-url")
    if session.posargs == ["tool"]:
        lock = ("--universal", "--python-version", "3.11", "--generate-hashes")
        shared = ("-c", "tests/requirements.txt", "pyproject.toml")
        session.run(*command, *lock, *shared, "-o", "requirements.txt")
    elif session.posargs == ["tests"]:
        lock = ("--python-version", "3.11", "--override", "tests/overrides.txt")
        source = ("tests/requirements.in", "-o", "tests/requirements.txt")
        session.run(*command, *lock, *source)
    else:
        patchset(session, "lock", *session.posargs)


# Measure: judge a release


def measured(session: nox.Session, module: str, *groups: str) -> None:
    """Run a lane that takes releases on their trees."""
    install(session, "test", *groups, lane=True)
    options, names = arguments(session)
    # The default release's source has the chat templates.
    trees(session, [*releases(default=True), *names])
    lane(session, module, *options, *names)


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
    trees(session, [*releases(default=True), *names])
    if "bfcl" in options:
        if not HELP:
            pins = ("--require-hashes", "-r", "tests/lanes/bfcl/requirements.txt")
            session.install("--no-deps", *pins)
        options.remove("bfcl")
        lane(session, "bfcl", "--trees", str(TREES), *options, *names)
    else:
        lane(session, "engines", "--trees", str(TREES), *session.posargs)


@session
def tokens(session: nox.Session) -> None:
    """Measure: ask scheduler and KV cache for wrong prefixes: -- [RELEASE…]."""
    measured(session, "tokens")


@session
def kernels(session: nox.Session) -> None:
    """Measure: compile and interpret Triton kernels that a series touches."""
    install(session, "test", lane=True)
    lane(session, "kernels", *session.posargs)


@session(name="upstream-tests")
def upstream_tests(session: nox.Session) -> None:
    """Measure: vLLM's own tests, stock and patched; its other parsers: -- [RELEASE…]."""
    measured(session, "upstream")
    for name in [] if HELP else arguments(session)[1]:
        both = [str(TREES / name / side) for side in ("stock", "patched")]
        lane(session, "upstream.other_parsers", *both)


@session
def bench(session: nox.Session) -> None:
    """Measure: what parsing costs, stock beside patched: -- [RELEASE… --quick]."""
    install(session, "test", "bench", lane=True)
    options, names = arguments(session)
    lane(session, "bench", *options, *names)


@session(name="cpu-tests")
def cpu_tests(session: nox.Session) -> None:
    """Measure: serve a small model with MTP on the CPU: -- [--mtp 0-5 --soak 2000]."""
    server(session)
    hours = ("--mtp", "0-5", "--seconds", "14400")
    lane(session, "gpu", "v0.32.0", "--target", "cpu", *hours, *session.posargs)


@session
def receipt(session: nox.Session) -> None:
    """Measure: one file that tests a GPU host: -- [RELEASE --target cpu --check FILE]."""
    (server if "cpu" in session.posargs else install)(session, "cpu")
    lane(session, "gpu", *session.posargs)


@session(name="gpu-tests")
def gpu_tests(session: nox.Session) -> None:
    """Measure: run that file here, MTP = 1 to 5: -- [RELEASE --model MODEL]."""
    install(session, "cpu")
    hour = ("--mtp", "1-5", "--seconds", "3600")
    lane(session, "gpu", "--run", *hour, *session.posargs)


@session
def results(session: nox.Session) -> None:
    """Measure: run what is missing of results/, hours: -- [RELEASE… --list]."""
    server(session, "test", "bench")
    options, names = arguments(session)
    if "--list" not in options and not HELP:
        install(session, lane=True)
        pins = ("--require-hashes", "-r", "tests/lanes/bfcl/requirements.txt")
        session.install("--no-deps", *pins)
    names = names if session.posargs else releases(tier="maintained")
    trees(session, [] if "--list" in options else [*releases(default=True), *names])
    codes = [0, 1] if "--list" in options else [0]
    where = ("--trees", str(TREES), *options, *names)
    session.run(
        "python", "-m", "tables.missing", *where, env=LANES, success_codes=codes
    )
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


@session(name="image-check")
def image_check(session: nox.Session) -> None:
    """Publish: look at an image from inside; a CPU image serves: -- IMAGE [--gpu]."""
    install(session, "cpu")
    lane(session, "image", *session.posargs)


commands(
    "Publish",
    {
        "publish": "push a built image under its tags: -- REGISTRY/NAME [RELEASE]",
        "reproduce": "build a published image again: -- REGISTRY/NAME:TAG",
    },
)
