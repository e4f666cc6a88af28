# SPDX-License-Identifier: Apache-2.0
"""Sessions are thin: each runs one command of the tool in scripts/patchset, or one folder of tests."""

import ctypes.util
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
# pip, because it is pip's configuration (index, certificates, find-links) that users set up. Help needs no environment.
HELP = "--" in sys.argv and not {"-h", "--help"}.isdisjoint(sys.argv[sys.argv.index("--") :])
nox.options.default_venv_backend = "none" if HELP else "virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_external_run = True
nox.options.sessions = ["lint", "tests", "proofs"]
# On Ctrl-C a command clears away what is half done; nox would kill it after half a second.
GRACE = 60.0
nox.Session.run = functools.partialmethod(nox.Session.run, interrupt_timeout=GRACE)

RELEASE_NAME = re.compile(r"v\d+(\.\d+)+|\d+(\.\d+){2,}")
PYPROJECT = nox.project.load_toml("pyproject.toml")
BUILD = Path(os.environ.get("PATCHSET_BUILD_DIR") or "build").resolve()
TREES = BUILD / "trees"


#: What a session runs, where that is not the command of the tool that is called as it is.
MODULES = {
    "proofs": "patchset prove", "conformance": "conformance", "upstream-tests": "upstream", "bench": "bench",
    "bench-instructions": "bench.instructions", "bench-pipeline": "bench.pipeline", "clients": "clients", "tokens": "tokens",
    "e2e-cpu": "cpu", "try": "cpu.tryout", "gpu-tests": "gpu", "gpu-bundle": "gpu.bundle", "image-check": "image",
    "bfcl": "bfcl", "engines": "engines", "rust-frontend": "engines",
}  # fmt: skip


def install(session: nox.Session, *packages: str) -> None:
    """Install packages into the session's environment; with ``-- --help`` show the session's options instead."""
    if HELP:
        show_help(session)
    try:
        session.install(*packages, interrupt_timeout=GRACE)
    except nox.command.CommandFailed:
        session.error(f"pip failed, see above; without a network, once installed: nox -R -s {session.name}")


def show_help(session: nox.Session) -> None:
    """The options, by any environment that is there already; nothing is made, installed or changed."""
    own = Path(".nox") / session.name / "bin" / "python"
    pythons = [own, *sorted(Path(".nox").glob("*/bin/python")), Path(sys.executable)]
    command = MODULES.get(session.name, f"patchset {session.name}").split()
    for python in filter(Path.exists, pythons):
        done = subprocess.run(
            [python, "-B", "-m", *command, "--help"],
            env={**os.environ, "PYTHONPATH": "scripts:tests/lanes"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 0:
            print(done.stdout)
            session.skip("this was its help")
    session.skip(
        "no options, or none that can be shown before an environment is made: nox -l, README.md, tests/*/README.md"
    )


def patchset(session: nox.Session, command: str) -> None:
    """Run one command of the tool with the session's own arguments."""
    install(session, "-e", ".")
    session.run("python", "-m", "patchset", command, *session.posargs)


def groups(session: nox.Session, *names: str) -> None:
    """Install the project with some of its dependency groups (PEP 735)."""
    install(session, "-e", ".", *nox.project.dependency_groups(PYPROJECT, *names))


def cpu_server(session: nox.Session) -> None:
    """Install what asks a vLLM on the CPU, and look for the library that its binaries need before anything is made."""
    if not HELP and not ctypes.util.find_library("numa"):
        session.error("vLLM's CPU build needs libnuma.so.1, which is not here: apt-get install libnuma1")
    groups(session, "cpu")


def in_process_lane(session: nox.Session) -> None:
    """Install what importing a vLLM tree needs; its torch computes nothing, so any build of it does."""
    install(session, "-e", ".", "torch==2.13.0")
    install(session, "--no-deps", "-r", "tests/requirements.txt")


def make_trees(session: nox.Session, names: Iterable[str]) -> None:
    """Make the stock and the patched tree of each release."""
    for name in names:
        session.run("python", "-m", "patchset", "apply", name)


def releases(default: bool = False, tier: str | None = None) -> list[str]:
    """The pinned releases, or only the one that is the default, or those of a tier."""
    pins = {
        pin.parent.name: nox.project.load_toml(pin) for pin in sorted(Path("patches").glob("*/release.toml"))
    }
    return [
        name
        for name, pin in pins.items()
        if (pin.get("default") or not default) and (tier is None or pin.get("tier", "frozen") == tier)
    ]


def read_arguments(session: nox.Session) -> tuple[list[str], list[str]]:
    """The session's arguments, and the releases among them: named with their v; --tier TIER is replaced by its releases."""
    arguments = [
        f"v{word.removeprefix('v')}" if RELEASE_NAME.fullmatch(word) else word for word in session.posargs
    ]
    while "--tier" in arguments:
        place = arguments.index("--tier")
        tier = arguments[place + 1] if place + 1 < len(arguments) else ""
        if not (found := releases(tier=tier)):
            session.error(f"no release is of the tier {tier!r}; there are maintained and frozen")
        arguments[place : place + 2] = found
    return arguments, [word for word in arguments if RELEASE_NAME.fullmatch(word)]


@nox.session
def lint(session: nox.Session) -> None:
    """Check code style, types, documents and the patch headers; needs no network once installed."""
    groups(session, "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("codespell")
    session.run("pytest", "-q", "tests/unit/test_documents.py")
    session.run("python", "-m", "patchset", "lint")


@nox.session
def tests(session: nox.Session) -> None:
    """Test the tool itself, and the parts of the cpu lane that need no server."""
    groups(session, "test", "gpu")
    session.run(
        "pytest", "-n", "auto", "--dist", "loadfile", "--ignore", "tests/unit/test_small_modules.py", *session.posargs
    )


@nox.session(default=False)
def kills(session: nox.Session) -> None:
    """Kill commands at random moments, and compare what the next run makes with an undisturbed one: -- [-k NAME]."""
    groups(session, "test")
    session.run("pytest", "-m", "slow", "tests/unit/test_kills.py", *session.posargs)


@nox.session(default=False)
def pin(session: nox.Session) -> None:
    """Pin a release from the package index: -- v0.34.0."""
    patchset(session, "pin")


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Lock what an image of a release installs: -- [RELEASE --target cuda|cpu]."""
    patchset(session, "lock")


@nox.session(default=False)
def fetch(session: nox.Session) -> None:
    """Download and verify the inputs of a release: -- [RELEASE --from-dir DIR]."""
    patchset(session, "fetch")


@nox.session(default=False)
def apply(session: nox.Session) -> None:
    """Make the patched tree of a release: -- [RELEASE --upto N --without NAME]."""
    patchset(session, "apply")


@nox.session(default=False)
def refresh(session: nox.Session) -> None:
    """Write the commits of the patched tree back as diffs, and what is generated: -- [RELEASE | --all]."""
    patchset(session, "refresh")


@nox.session(default=False)
def share(session: nox.Session) -> None:
    """Find the fewest diffs of a patch for all releases that have it: -- [PATCH... --dry-run --context 2]."""
    patchset(session, "share")


@nox.session(default=False)
def rebase(session: nox.Session) -> None:
    """Port a series to another release: -- v0.34.0 [--from RELEASE --dry-run --continue]."""
    patchset(session, "rebase")


@nox.session(default=False)
def drift(session: nox.Session) -> None:
    """Ask whether the default series still fits a source: -- [RELEASE | DIR | GIT-REF]."""
    in_process_lane(session)
    session.run("python", "-m", "patchset", "drift", *session.posargs)


@nox.session(default=False)
def bisect(session: nox.Session) -> None:
    """Find the patch, or the release, at which a conformance case's verdict changes: -- CASE [--releases]."""
    in_process_lane(session)
    session.run("python", "-m", "patchset", "bisect", *session.posargs)


@nox.session(name="new-patch", default=False)
def new_patch(session: nox.Session) -> None:
    """Set up the header and the proof of a new patch: -- NAME [--release RELEASE]."""
    patchset(session, "new-patch")


@nox.session
def proofs(session: nox.Session) -> None:
    """Test the conformance suite; run each patch's proofs without and with it: -- [RELEASE... | --tier TIER | --all]."""
    in_process_lane(session)
    arguments, named = read_arguments(session)
    session.run("python", "-m", "patchset", "prove", *arguments)
    for release in releases() if "--all" in arguments else named or releases(default=True):
        tree = TREES / release / "patched"
        session.run(
            "pytest", "-q", "tests/patches/modules", env={"VLLM_TREE": str(tree), "VLLM_LOGGING_LEVEL": "ERROR"}
        )


@nox.session(name="oldest-pydantic", default=False)
def oldest_pydantic(session: nox.Session) -> None:
    """Test the making of deltas with the oldest pydantic that the releases allow: -- [RELEASE...]."""
    in_process_lane(session)
    install(session, "pydantic==2.12.0")
    names = read_arguments(session)[0] or releases(default=True)
    make_trees(session, names)
    for name in names:
        tree = TREES / name / "patched"
        session.run("pytest", "-q", "tests/patches/modules/test_models.py", env={"VLLM_TREE": str(tree)})


@nox.session(default=False)
def conformance(session: nox.Session) -> None:
    """Judge releases or a server by the suite: -- [RELEASE... | --tier TIER | --all | --stock --quick --url URL]."""
    in_process_lane(session)
    arguments, named = read_arguments(session)
    result = BUILD / "conformance.json"
    if keep := "--results" in arguments:
        result.unlink(missing_ok=True)
        arguments = [argument for argument in arguments if argument != "--results"] + ["--json", str(result)]
    if not ({"--url", "--list"} & set(arguments)):
        chosen = releases() if "--all" in arguments else named or releases(default=True)
        session.log(f"judging {', '.join(chosen)}: some minutes each on two cores")
        make_trees(session, chosen)
        arguments = [word for word in arguments if word not in {"--all", *named}] + chosen
    with session.chdir("tests/lanes"):
        session.run(
            "python",
            "-m",
            "conformance",
            "--trees",
            str(TREES),
            *arguments,
            success_codes=[0, 1] if keep else [0],
        )
    if keep:
        session.run("python", "-m", "patchset", "results", str(result))
        session.run("python", "-m", "patchset", "tables")


@nox.session(name="before-after", default=False)
def before_after(session: nox.Session) -> None:
    """Show one answer as clients of the stock and the patched release receive it: -- [RELEASE --write | --check]."""
    in_process_lane(session)
    arguments, named = read_arguments(session)
    options = [argument for argument in arguments if argument not in named]
    release = (named or releases(default=True))[0]
    session.run("python", "-m", "patchset", "apply", release)
    trees = TREES / release
    lane = {"PYTHONPATH": "tests/lanes"}
    session.run(
        "python", "-m", "conformance.before_after", str(trees / "stock"), str(trees / "patched"),
        "--names", f"vLLM {release}", f"the patched {release}", *options, env=lane,
    )  # fmt: skip
    if "--check" in options:
        session.run("python", "-m", "conformance.documented", str(trees / "stock"), env=lane)


@nox.session(default=False)
def clients(session: nox.Session) -> None:
    """Let real agents write real files, and judge them: -- [NAME... --release RELEASE --stock --k 0,3,5]."""
    in_process_lane(session)
    # The default release's source has the chat templates.
    arguments, named = read_arguments(session)
    make_trees(session, dict.fromkeys([*releases(default=True), *named]))
    places = ["--trees", str(TREES), "--build", str(BUILD / "clients")]
    session.run("python", "-m", "clients", *places, *arguments, env={"PYTHONPATH": "tests/lanes"})
    if "--results" in arguments:
        session.run("python", "-m", "patchset", "tables")


@nox.session(default=False)
def tokens(session: nox.Session) -> None:
    """Ask the scheduler and KV cache of releases whether cached prefixes are right: -- RELEASE... [--soak --results]."""
    in_process_lane(session)
    arguments, named = read_arguments(session)
    make_trees(session, named)
    session.run("python", "-m", "tokens", *arguments, env={"PYTHONPATH": "tests/lanes"})
    if "--results" in arguments:
        session.run("python", "-m", "patchset", "tables")


@nox.session(default=False)
def bfcl(session: nox.Session) -> None:
    """Replay BFCL's answers, judged by BFCL's checker: -- [RELEASE... | --tier TIER | --all | --stock --results]."""
    in_process_lane(session)
    install(session, "--no-deps", "--require-hashes", "-r", "tests/lanes/bfcl/requirements.txt")
    arguments, named = read_arguments(session)
    if "--all" in arguments:
        named = releases()
        arguments = [argument for argument in arguments if argument != "--all"] + named
    # The default release's source has the chat template.
    make_trees(session, dict.fromkeys([*releases(default=True), *named]))
    session.run("python", "-m", "bfcl", "--trees", str(TREES), *arguments, env={"PYTHONPATH": "tests/lanes"})
    if "--results" in arguments:
        session.run("python", "-m", "patchset", "tables")


def other_engines(session: nox.Session, *names: str) -> None:
    """Run the lane of other engines, or only some of them."""
    in_process_lane(session)
    groups(session, "bench")
    arguments, named = read_arguments(session)
    make_trees(session, named or releases(default=True))
    session.run(
        "python", "-m", "engines", "--trees", str(TREES), *names, *arguments, env={"PYTHONPATH": "tests/lanes"}
    )
    if "--results" in arguments:
        session.run("python", "-m", "patchset", "tables")


@nox.session(default=False)
def engines(session: nox.Session) -> None:
    """Read the suite's cases by SGLang's, LMDeploy's and other vLLM parsers: -- [NAME... --release RELEASE --results]."""
    other_engines(session)


@nox.session(name="rust-frontend", default=False)
def rust_frontend(session: nox.Session) -> None:
    """Judge the Rust frontend of a release's official wheel, on the CPU: -- [--release RELEASE --case NAME --results]."""
    other_engines(session, "rust")


@nox.session(name="upstream-tests", default=False)
def upstream_tests(session: nox.Session) -> None:
    """Run a release's own tests of parsers and serving on the stock and the patched tree: -- [RELEASE... | --tier TIER]."""
    in_process_lane(session)
    arguments, named = read_arguments(session)
    make_trees(session, named or releases(default=True))
    session.run("python", "-m", "upstream", *arguments, env={"PYTHONPATH": "tests/lanes"})


@nox.session(default=False)
def upstream(session: nox.Session) -> None:
    """Write a series as vLLM takes changes, and ask vLLM's own linters: -- [RELEASE] --name NAME --email ADDRESS."""
    install(session, "-e", ".")
    _, named = read_arguments(session)
    release = (named or releases(default=True))[0]
    session.run("python", "-m", "patchset", "apply", release)
    # What the release pins for its contributors. As with them, mypy sees no torch.
    hooks = (TREES / release / "stock" / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    ruff = re.search(r"ruff-pre-commit\s+rev: v([0-9.]+)", hooks)
    mypy = re.search(r"additional_dependencies: \[(mypy.*|\"mypy.*)\]", hooks)
    if not (ruff and mypy):
        session.error(f"the source of {release} does not say which ruff and mypy it is checked with")
    install(session, f"ruff=={ruff[1]}", *(part.strip(" \"'") for part in mypy[1].split(",")))
    session.run("python", "-m", "patchset", "upstream", *session.posargs)


@nox.session(default=False)
def kernels(session: nox.Session) -> None:
    """Compile the Triton kernels that a series touches, and run them without a GPU: -- [RELEASE... | --all]."""
    in_process_lane(session)
    session.run("python", "-m", "kernels", *session.posargs, env={"PYTHONPATH": "tests/lanes"})


@nox.session(name="kernel-cells", default=False)
def kernel_cells(session: nox.Session) -> None:
    """Pack the kernels, stock and patched, as one script for a host with a GPU: -- [--out FILE]."""
    install(session, "-e", ".")
    session.run("python", "-m", "kernels.pack", *session.posargs, env={"PYTHONPATH": "tests/lanes"})


@nox.session(name="other-parsers", default=False)
def other_parsers(session: nox.Session) -> None:
    """Compare every other parser of a release on the stock and the patched tree, byte for byte: -- [RELEASE...]."""
    in_process_lane(session)
    for release in read_arguments(session)[0] or releases(default=True):
        session.run("python", "-m", "patchset", "apply", release)
        trees = [str(TREES / release / side) for side in ("stock", "patched")]
        session.run("python", "-m", "upstream.other_parsers", *trees, env={"PYTHONPATH": "tests/lanes"})


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure what parsing costs, stock beside patched: -- [RELEASE... | --tier TIER --lengths N,N --json FILE --quick]."""
    in_process_lane(session)
    groups(session, "bench")
    session.run("python", "-m", "bench", *read_arguments(session)[0], env={"PYTHONPATH": "tests/lanes"})


@nox.session(name="bench-instructions", default=False)
def bench_instructions(session: nox.Session) -> None:
    """Count instructions per token under valgrind: -- [RELEASE... --no-peers --json FILE --results]."""
    in_process_lane(session)
    groups(session, "bench")
    session.run(
        "python", "-m", "bench.instructions", *read_arguments(session)[0], env={"PYTHONPATH": "tests/lanes"}
    )


@nox.session(name="bench-pipeline", default=False)
def bench_pipeline(session: nox.Session) -> None:
    """Time the pipeline's steps, with a cold and a warm cache: -- [RELEASE --target cuda|cpu --base REF --json FILE]."""
    install(session, "-e", ".")
    session.run("python", "-m", "bench.pipeline", *session.posargs, env={"PYTHONPATH": "tests/lanes"})


@nox.session(name="lock-tests", default=False)
def lock_tests(session: nox.Session) -> None:
    """Lock anew what the in-process lane installs."""
    install(session, "uv")
    session.run(
        "uv", "pip", "compile", "--quiet", "--upgrade", "--python-version", "3.11", "--override", "tests/overrides.txt",
        "--no-annotate", "--no-header", "--no-emit-index-url", "tests/requirements.in", "-o", "tests/requirements.txt",
    )  # fmt: skip


@nox.session(default=False)
def tables(session: nox.Session) -> None:
    """Update the tables in README.md and docs/results.md."""
    patchset(session, "tables")


@nox.session(name="build-wheel", default=False)
def build_wheel(session: nox.Session) -> None:
    """Build a patched wheel: -- [RELEASE --mode overlay|source --target cuda|cpu --modules NAME,…]."""
    patchset(session, "build-wheel")


@nox.session(default=False)
def verify(session: nox.Session) -> None:
    """Verify a wheel, the last one built if none is named: -- [FILE]."""
    patchset(session, "verify")


@nox.session(name="build-image", default=False)
def build_image(session: nox.Session) -> None:
    """Build a container image: -- [RELEASE --target cuda|cpu --base official|debian|REF]."""
    patchset(session, "build-image")


@nox.session(default=False)
def publish(session: nox.Session) -> None:
    """Publish a built image under its tags: -- REGISTRY/NAME [RELEASE --target cuda|cpu --sign]."""
    patchset(session, "publish")


@nox.session(default=False)
def reproduce(session: nox.Session) -> None:
    """Build a published image again and compare digests: -- REGISTRY/NAME:TAG."""
    patchset(session, "reproduce")


@nox.session(name="try", default=False)
def try_it(session: nox.Session) -> None:
    """Serve a small model with MTP on the CPU and ask it for a tool call; no GPU, no model hub: -- [--mtp K --keep]."""
    cpu_server(session)
    session.run("python", "-m", "cpu.tryout", *session.posargs, env={"PYTHONPATH": "tests/lanes"})


@nox.session(name="e2e-cpu", default=False)
def e2e_cpu(session: nox.Session) -> None:
    """Serve a real model with MTP on the CPU and judge every answer: -- [--mtp 0-5 --stock --soak 2000 --results]."""
    cpu_server(session)
    session.run("python", "-m", "cpu", *session.posargs, env={"PYTHONPATH": "tests/lanes"})
    if "--results" in session.posargs:
        session.run("python", "-m", "patchset", "tables")


@nox.session(name="gpu-tests", default=False)
def gpu_tests(session: nox.Session) -> None:
    """Serve with MTP on a GPU and judge every answer: -- [--release RELEASE --model MODEL --mtp 0-5 --stock]."""
    groups(session, "gpu")
    session.run("python", "-m", "gpu", *session.posargs, env={"PYTHONPATH": "tests/lanes"})
    if {"--results", "--import"} & set(session.posargs):
        session.run("python", "-m", "patchset", "tables")


@nox.session(name="gpu-bundle", default=False)
def gpu_bundle(session: nox.Session) -> None:
    """Pack the gpu lane for a host without a network: -- [--release RELEASE --host FILE --out DIR]."""
    groups(session, "cpu")
    session.run("python", "-m", "gpu.bundle", *session.posargs, env={"PYTHONPATH": "tests/lanes"})


@nox.session(name="gpu-bundle-check", default=False)
def gpu_bundle_check(session: nox.Session) -> None:
    """Run a bundle's script without a network, on a Python like the host's: -- [--bundle DIR --python PYTHON]."""
    groups(session, "test")
    session.run("pytest", "tests/bundle", "--timeout=3600", *session.posargs)


@nox.session(name="patch-installed", default=False)
def patch_installed(session: nox.Session) -> None:
    """Patch an installed vLLM in place, or undo it: -- [status|in|out --python PYTHON]."""
    patchset(session, "patch-installed")


@nox.session(default=False)
def doctor(session: nox.Session) -> None:
    """Say which patches are live in an environment, and what would keep them from it: -- [--python PYTHON | --root SITE]."""
    patchset(session, "doctor")


@nox.session(name="image-check", default=False)
def image_check(session: nox.Session) -> None:
    """Look at a built image from inside; a CPU image serves: -- IMAGE [--engine ENGINE --gpu]."""
    groups(session, "e2e")
    session.run("python", "-m", "image", *session.posargs, env={"PYTHONPATH": "tests/lanes"})


@nox.session(name="source-check", default=False)
def source_check(session: nox.Session) -> None:
    """Compile the default release's small modules twice, compare bytes, and see a patch of compiled code in one."""
    groups(session, "test")
    session.run("pytest", "tests/unit/test_small_modules.py", *session.posargs)
