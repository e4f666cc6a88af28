# SPDX-License-Identifier: Apache-2.0
"""Sessions, grouped by reader; each runs a command of the tool or a lane of tests."""

import logging
import os
import re
import sys
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.2.9"
# pip, because its configuration (index, certificates) is what users have.
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_external_run = True
nox.options.sessions = ["lint", "tests", "proofs"]
# Whether nox has uv does not matter here; it would say so in each session.
logging.getLogger("nox").addFilter(lambda line: "uv binary" not in str(line.msg))
# One environment for all sessions.
nox.sessions.SessionRunner.envdir = property(
    lambda runner: str(Path(runner.global_config.envdir, "project").resolve())
)
# On Ctrl-C a command clears away what is half done; nox would kill it at once.
nox.Session.run = partialmethod(nox.Session.run, interrupt_timeout=60.0)

TREES = Path(os.environ.get("PATCHSET_BUILD_DIR") or "build").resolve() / "trees"
LANES = {"PYTHONPATH": str(Path("tests/lanes").resolve())}
HELP = not {"-h", "--help"}.isdisjoint(sys.argv)
RELEASE_NAME = re.compile(r"(v\d+(\.\d+)+|\d+(\.\d+){2,})((rc|\.post)\d+)?")
JUDGES = ("--no-deps", "--require-hashes", "-r", "tests/lanes/judges/requirements.txt")


def install(session: nox.Session, groups: str = "", tree: bool = False) -> None:
    """Install the tool, groups, and for a ``tree`` the tests' and what vLLM imports."""
    session.install("--require-hashes", "-r", "requirements.txt")
    session.install("--no-deps", "-e", ".")
    project = nox.project.load_toml("pyproject.toml")
    if wanted := groups.split() + (["test"] if tree else []):
        session.install(*nox.project.dependency_groups(project, *wanted))
    if tree and not HELP:
        session.install("torch==2.13.0")  # to be imported: any build will do
        session.install("--no-deps", "-r", "tests/requirements.txt")


def python(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a lane or the tool; after a lane's ``--results`` write the tables."""
    session.run("python", "-m", module, *arguments, env=LANES)
    if "--results" in arguments and not HELP:
        session.run("python", "-m", "tables", env=LANES)


def releases(*, default: bool = False) -> list[str]:
    """All pinned releases, or the default one."""
    pins = sorted(Path("patches").glob("*/release.toml"))
    read = {pin.parent.name: nox.project.load_toml(pin) for pin in pins}
    return [name for name, pin in read.items() if not default or pin.get("default")]


def arguments(session: nox.Session) -> tuple[list[str], list[str]]:
    """Options, and the releases that are named, of ``--all``, or the default one."""
    words = session.posargs
    named = [word for word in words if RELEASE_NAME.fullmatch(word)]
    options = [word for word in words if word not in (*named, "--all")]
    if "--all" in words or not named:
        return options, releases(default="--all" not in words)
    return options, [f"v{name.removeprefix('v')}" for name in dict.fromkeys(named)]


def apply(session: nox.Session, names: list[str]) -> None:
    """Make both trees of releases, and the default one's, for its chat templates."""
    for name in [] if HELP else dict.fromkeys([*releases(default=True), *names]):
        python(session, "patchset", "apply", name)


def both(name: str) -> list[str]:
    """The stock and the patched tree of a release."""
    return [str(TREES / name / side) for side in ("stock", "patched")]


def command(name: str, text: str, *words: str, **needs: Any) -> None:
    """Make a session of a command of the tool, or of what ``words`` run."""

    def run(session: nox.Session) -> None:
        install(session, **needs)
        python(session, *(words or ("patchset", name)), *session.posargs)

    run.__doc__ = text
    nox.session(run, name=name)


def measure(name: str, text: str, *, own: bool = False, **needs: Any) -> None:
    """Make a session of a lane; ``own``: it is given the arguments as they are."""

    def run(session: nox.Session) -> None:
        install(session, tree=True, **needs)
        options, names = arguments(session)
        names = [] if "--list" in options else names
        apply(session, names)
        python(session, name, *(session.posargs if own else [*options, *names]))

    run.__doc__ = text
    nox.session(run, name=name)


serve = partial(command, groups="cpu")  # of a lane that starts or asks a server
serve("try", "Use: serve a small model with MTP and call a tool.", "cpu.tryout")
command("build-image", "Use: build an image: -- [RELEASE --base official|debian].")
command("build-wheel", "Use: build a wheel: -- [RELEASE --mode overlay|source].")
command("build-plugin", "Use: build the plugin for a vLLM that stays as it is.")
command("verify", "Use: verify a wheel: -- FILE.")
command("doctor", "Use: say which patches are live: -- --python PYTHON.")
command("export", "Use: write one patch for an installed vLLM: -- [RELEASE].")


@nox.session
def lint(session: nox.Session) -> None:
    """Patch: check style, types, documents and patches/, by pre-commit."""
    install(session, "lint")
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")
    python(session, "patchset", "lint")


@nox.session
def tests(session: nox.Session) -> None:
    """Patch: test the tool and the lanes' own parts: -- [PYTEST-ARGUMENTS]."""
    install(session, "test cpu")
    session.run("pytest", "-n", "auto", "--dist", "loadfile", *session.posargs)


@nox.session
def proofs(session: nox.Session) -> None:
    """Patch: run patches' proofs without and with them: -- [RELEASE… --patch NAME]."""
    install(session, tree=True)
    options, names = arguments(session)
    python(session, "patchset", "prove", *options, *names)
    for name in [] if HELP or "--patch" in options else names:
        env = {"VLLM_TREE": both(name)[1], "VLLM_LOGGING_LEVEL": "ERROR"}
        session.run("pytest", "-q", "tests/patches/modules", env=env)


command("apply", "Patch: make a patched tree: -- [RELEASE --discard].")
command("refresh", "Patch: write a tree's commits back: -- [RELEASE | --all].")
command("fetch", "Release: download and verify inputs: -- [RELEASE].")
command("pin", "Release: pin a release from the package index: -- v0.34.0.")
command("rebase", "Release: port the series: -- v0.34.0 [--from RELEASE].")
command("drift", "Release: try the series: -- [RELEASE | GIT-REF].", tree=True)


@nox.session
def lock(session: nox.Session) -> None:
    """Release: lock Python packages, an image's or ours: -- [RELEASE | tool | tests]."""
    install(session)
    own = {
        "tool": "--universal --generate-hashes -c tests/requirements.txt pyproject.toml -o requirements.txt",
        "tests": "--override tests/overrides.txt tests/requirements.in -o tests/requirements.txt",
    }
    if words := own.get(" ".join(session.posargs)):
        options = "--quiet --upgrade --no-annotate --no-header --no-emit-index-url"
        session.run(*f"uv pip compile {options} --python-version 3.11 {words}".split())
    else:
        python(session, "patchset", "lock", *session.posargs)


asked = "Measure: judge tool calls: -- [RELEASE… --stock]."
measure("conformance", asked)
measure("bench", "Measure: the cost of parsing: -- [RELEASE… --quick].", groups="bench")
measure("kernels", "Measure: compile and run kernels: -- [RELEASE…].")
agents = "Measure: let agents write files: -- [NAME… --release RELEASE --both]."
measure("clients", agents, own=True)
measure("tokens", "Measure: ask scheduler and cache for prefixes: -- [RELEASE…].")


@nox.session
def judges(session: nox.Session) -> None:
    """Measure: BFCL, canitoolcall, the Rust frontend: -- JUDGE [RELEASE…]."""
    install(session, tree=True)
    session.install(*JUDGES)
    options, names = arguments(session)
    apply(session, names)
    python(session, "judges", *options, *names)


@nox.session(name="upstream-tests")
def upstream_tests(session: nox.Session) -> None:
    """Measure: vLLM's own tests, stock and patched; its other parsers: -- [RELEASE…]."""
    install(session, tree=True)
    options, names = arguments(session)
    apply(session, names)
    for name in [] if HELP else names:
        python(session, "upstream.other_parsers", *both(name))
    python(session, "upstream", *options, *names)


whole = "Measure: serve a small model with MTP on the CPU: -- [--all]."
serve("cpu-tests", whole, "gpu", "v0.32.0", "--target", "cpu", "--seconds", "14400")


@nox.session
def receipt(session: nox.Session, *words: str) -> None:
    """Measure: one file that tests a GPU host: -- [RELEASE --target cpu --check FILE]."""
    install(session, "cpu")
    # Here --all is the lane's own: all servers of one release.
    options = [one for one in session.posargs if not RELEASE_NAME.fullmatch(one)]
    named = [one for one in session.posargs if one not in options]
    name, *_ = named or releases(default=True)
    python(session, "gpu", name, *words, *options)


@nox.session(name="gpu-tests")
def gpu_tests(session: nox.Session) -> None:
    """Measure: run that file here, MTP = 1 to 5: -- [RELEASE --model MODEL]."""
    receipt(session, "--run", *(f"--mtp={k}" for k in range(1, 6)), "--seconds", "3600")


@nox.session
def results(session: nox.Session) -> None:
    """Measure: run what is missing of results/, hours: -- [RELEASE… | --all]."""
    install(session, "cpu bench", tree=True)
    session.install(*JUDGES)
    options, names = arguments(session)
    apply(session, [] if "--list" in options else names)
    python(session, "tables.missing", *options, *names)
    python(session, "tables")


@nox.session
def tables(session: nox.Session) -> None:
    """Measure: write the documents' tables, or README's example: -- [--example]."""
    options, names = arguments(session)
    install(session, tree="--example" in options)
    if "--example" not in options:
        return python(session, "tables", *options)
    apply(session, names)
    options.remove("--example")
    titles = ("--names", f"vLLM {names[0]}", f"the patched {names[0]}")
    python(session, "conformance.before_after", *both(names[0]), *titles, *options)
    if "--check" in options:
        python(session, "conformance.documented", both(names[0])[0])


serve("image-check", "Publish: look at an image: -- IMAGE.", "image")
command("publish", "Publish: push an image: -- REGISTRY/NAME [RELEASE].")
command("reproduce", "Publish: build a published image again: -- REGISTRY/NAME:TAG.")
