"""``python -m clients [NAME…]``: run the clients lane. Exit code 0: as it should be; 1: something wrong; 2: usage; 3 and more: could not run."""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from clients import SUITE_VERSION, scenarios, table
from clients.agents import CLIENTS
from clients.client import Client
from clients.install import DEFAULT_RELEASE, install, templates
from clients.runs import Job, LaneError, Place, Processes, Server, run_all
from patchset import run_command
from patchset.errors import EXIT_INTERRUPTED
from patchset.release import load as pin
from patchset.series import patched_files

ROOT = Path(__file__).parents[3]
INTERRUPT_LIMIT_S = 5.0

NAMESPACES = [
    "unshare",
    "--map-root-user",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="nox -s clients --", description="Real agents write real files."
    )
    parser.add_argument(
        "clients",
        nargs="*",
        metavar="NAME",
        help=f"default: all of {', '.join(CLIENTS)}",
    )
    parser.add_argument(
        "--release", default=DEFAULT_RELEASE, help=f"default: {DEFAULT_RELEASE}"
    )
    parser.add_argument("--stock", action="store_true", help="the stock tree as well")
    parser.add_argument(
        "--only-stock", action="store_true", help="the stock tree and no other"
    )
    parser.add_argument(
        "--k", default="3", help="burst widths: up to k+1 tokens a step; default: 3"
    )
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        choices=[*scenarios.ALL, *scenarios.SILENCE],
        help="default: all but those of silence",
    )
    parser.add_argument(
        "--rest",
        type=float,
        default=0.0,
        help="seconds that the engine rests in the scenario `rest`",
    )
    parser.add_argument(
        "--model",
        default="qwen3.5",
        choices=("qwen3.5", "qwen3-coder"),
        help="whose chat template",
    )
    parser.add_argument(
        "--trees",
        type=Path,
        default=ROOT / "build/trees",
        help="folder of <release>/{stock,patched}",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build/clients",
        help="where clients and runs go",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="runs at a time; default: 2"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="do not take up what an earlier run has done",
    )
    parser.add_argument(
        "--results",
        action="store_true",
        help="put the release's totals into results/clients/",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    if unknown := [name for name in chosen.clients if name not in CLIENTS]:
        parser.error(f"no client {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    try:
        chosen.widths = [int(k) for k in chosen.k.split(",")]
    except ValueError:
        parser.error(f"--k takes numbers with commas between them, not {chosen.k!r}")
    return chosen


def jobs(clients: dict[str, Client], opts: argparse.Namespace) -> list[Job]:
    """Every run of a tree that was asked for."""
    known = {**scenarios.ALL, **scenarios.SILENCE}
    return [
        Job(name, surface, scenario, k, opts.model, opts.rest)
        for name, client in clients.items()
        for surface in client.surfaces
        for scenario in opts.scenario or scenarios.ALL
        if client.plays(scenario)
        if opts.model == "qwen3.5" or not known[scenario].thoughts
        for k in opts.widths
    ]


def key(release: str, kind: str) -> str:
    """What results depend on: the suite's version, and the files that a tree runs."""
    files = patched_files.sha256(pin(release))[:12] if kind == "patched" else "stock"
    return f"{SUITE_VERSION} {files}"


def lane(opts: argparse.Namespace, processes: Processes) -> int:
    """Run everything that has no result yet, then write the table; returns the exit code."""
    clients = {name: CLIENTS[name] for name in opts.clients or CLIENTS}
    kinds = (
        ["stock"]
        if opts.only_stock
        else ["patched", "stock"]
        if opts.stock
        else ["patched"]
    )
    everything: dict[str, list[dict[str, Any]]] = {}
    for kind in kinds:
        tree = opts.trees / opts.release / kind
        if not (tree / "vllm/__init__.py").is_file():
            raise LaneError(
                f"there is no tree {tree}: run `nox -s apply -- {opts.release}`, or give --trees DIR"
            )
        folder = opts.build / f"{opts.release}-{kind}"
        folder.mkdir(parents=True, exist_ok=True)
        everything[kind] = _kind(opts, clients, kind, tree, folder, processes)
    document = table.document(opts.release, everything)
    (opts.build / f"{opts.release}.json").write_text(
        json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    )
    text = table.markdown(document)
    (opts.build / f"{opts.release}.md").write_text(text)
    print(text)
    print(
        f"written: {opts.build / opts.release}.json and .md; runs that are not right: {opts.build}/{opts.release}-*/runs/"
    )
    if opts.results:
        table.write_results(document)
    wrong = [
        r
        for r in everything.get("patched", [])
        if not (table.is_right(r) or table.own_fault(r))
    ]
    return 1 if wrong else 0


def _kind(
    opts: argparse.Namespace,
    clients: dict[str, Client],
    kind: str,
    tree: Path,
    folder: Path,
    processes: Processes,
) -> list[dict[str, Any]]:
    """All results of one tree; those of an earlier run are taken up if nothing has changed that they depend on."""
    results = folder / "results.jsonl"
    if opts.again:
        results.unlink(missing_ok=True)
    wanted, now = jobs(clients, opts), key(opts.release, kind)
    have: dict[Job, dict[str, Any]] = {}
    if results.is_file():
        for line in results.read_text(encoding="utf-8").split("\n"):
            try:
                result = json.loads(line)
            except ValueError:  # a run that was killed may leave half a line
                continue
            if result["key"] == now:
                have[Job.of(result)] = result
    todo = [job for job in wanted if job not in have]
    if todo:
        print(
            f"{opts.release} {kind}: {len(todo)} runs of {len(wanted)}, {opts.jobs} at a time",
            flush=True,
        )
        _run(opts, clients, now, todo, tree, folder, processes, have)
    return [have[job] for job in wanted if job in have]


def _run(
    opts: argparse.Namespace,
    clients: dict[str, Client],
    now: str,
    todo: list[Job],
    tree: Path,
    folder: Path,
    processes: Processes,
    have: dict[Job, dict[str, Any]],
) -> None:
    """Start the tree's server and make the runs."""
    began = time.monotonic()
    server = Server(
        tree,
        opts.build / "templates" / f"{opts.model}.jinja",
        folder / "server.log",
        processes,
    )
    print(f"the server is up after {time.monotonic() - began:.0f} s", flush=True)
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in todo:
        groups.setdefault((job.client, job.surface), []).append(job)
    # The long ones first, so that no processor waits for the last of them.
    ordered = sorted(groups.values(), key=len, reverse=True)
    with (folder / "results.jsonl").open("a", encoding="utf-8") as out:
        out.write("\n")  # behind what a run that was killed may have left

        def done(result: dict[str, Any]) -> None:
            result["key"] = now
            have[Job.of(result)] = result
            out.write(json.dumps(result, ensure_ascii=False) + "\n")
            out.flush()
            count[0] += 1
            print(f"[{count[0]}/{len(todo)}] {table.line(result)}", flush=True)

        count = [0]
        try:
            run_all(
                ordered,
                clients,
                server,
                Place(opts.build, folder / "runs"),
                done,
                opts.jobs,
            )
        finally:
            server.close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"{len(todo)} runs in {time.monotonic() - began:.0f} s, {cpu:.0f} s of processor time",
        flush=True,
    )


def loopback_up() -> None:
    """Bring up ``lo`` in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def namespaces() -> list[str]:
    """The command that runs another in namespaces of its own, empty where the machine allows none."""
    if shutil.which(NAMESPACES[0]) is None:
        return []
    tried = subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True)
    return NAMESPACES if tried.returncode == 0 else []


def main() -> None:
    """Entry point: install, then go on without a network."""
    opts = options(sys.argv[1:])
    opts.build, opts.trees = opts.build.resolve(), opts.trees.resolve()
    part = _inside if opts.inside else _outside
    again = "run the same command again: it goes on where this one stopped"
    run_command.run_lane(lambda: part(opts), LaneError, again=again)


def _inside(opts: argparse.Namespace) -> int:
    """The runs, without a network."""
    ctypes.CDLL(None).prctl(
        1, signal.SIGTERM
    )  # PR_SET_PDEATHSIG: end with the process outside
    if os.environ.get("CLIENTS_NAMESPACE"):
        loopback_up()
    processes = Processes()
    try:
        return lane(opts, processes)
    except KeyboardInterrupt:  # the process outside says so
        return EXIT_INTERRUPTED
    finally:
        processes.end_all()


def _outside(opts: argparse.Namespace) -> int:
    """Everything that needs a network; then this command again, inside."""
    pin(opts.release)
    needed = {
        name
        for client in (opts.clients or CLIENTS)
        for name in CLIENTS[client].environments
    }
    install(opts.build, npm="npm" in needed, environments=needed - {"npm"})
    templates(opts.build / "templates", opts.trees / DEFAULT_RELEASE / "stock")
    prefix = namespaces()
    if not prefix:
        print(
            "clients: no network namespace here: the clients could reach the network; proxies lead nowhere",
            file=sys.stderr,
        )
    environment = {**os.environ, "CLIENTS_NAMESPACE": "1" if prefix else ""}
    inner = subprocess.Popen(
        [*prefix, sys.executable, "-m", "clients", *sys.argv[1:], "--inside"],
        env=environment,
    )
    try:
        return inner.wait()
    except KeyboardInterrupt:
        # A terminal interrupts both; if only this one was told, the end of `unshare` ends all that is in its namespaces.
        try:
            inner.wait(INTERRUPT_LIMIT_S)
        except subprocess.TimeoutExpired:
            inner.kill()
            inner.wait()
        raise


if __name__ == "__main__":
    main()
