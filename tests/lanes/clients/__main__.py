# SPDX-License-Identifier: Apache-2.0
"""``python -m clients [NAME…]``: let clients work, and judge what they leave.

Exit status 0: as it should be; 1: something wrong; 2: usage; 3 and more: could not run.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

import results
from clients import SUITE_VERSION, scenarios, table
from clients.agents import CLIENTS
from clients.install import install, template
from clients.proxies import PROXIES
from clients.runs import Job, Lane
from patchset import paths, release, run_command
from patchset.errors import PatchsetError

#: A namespace with a loopback interface alone, whose processes end together.
NAMESPACE = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"]
#: Says to a process that it is in it.
INSIDE = "CLIENTS_NAMESPACE"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, metavar="[NAME]... [RELEASE]")
@click.option("--stock", is_flag=True, help="The stock tree instead.")
@click.option("--both", is_flag=True, help="The stock tree as well.")
@click.option("--drop", is_flag=True, help=f"Cut calls alone, with {table.DROP}=drop.")
@click.option(
    "--proxy", type=click.Choice([*PROXIES]), help="Between clients and server."
)
@click.option("--k", default=3, show_default=True, help="Up to k+1 tokens a step.")
@click.option(
    "--scenario",
    "chosen",
    multiple=True,
    type=click.Choice([*scenarios.ALL]),
    help="Without one: all.",
)
@click.option("--jobs", default=2, show_default=True, help="Clients at a time.")
@click.option("--again", is_flag=True, help="Forget what an earlier run has done.")
@click.option("--results", "keep", is_flag=True, help="Keep totals in results/clients.")
def command(
    words: tuple[str, ...],
    stock: bool,
    both: bool,
    drop: bool,
    proxy: str | None,
    k: int,
    chosen: tuple[str, ...],
    jobs: int,
    again: bool,
    keep: bool,
) -> int:
    """Let real agents write files: those of NAME, or all."""
    clients = tuple(word for word in words if word in CLIENTS) or tuple(CLIENTS)
    other = [word for word in words if word not in CLIENTS]
    if len(other) > 1:
        raise click.UsageError(f"{other[0]} is none of {', '.join(CLIENTS)}")
    pinned = release.load(*other).name
    if INSIDE not in os.environ:
        return _outside(clients, proxy)
    if os.environ[INSIDE]:
        _loopback_up()
    wanted = [
        Job(client, surface, scenario, k)
        for client in clients
        for surface in CLIENTS[client].surfaces
        if not proxy or surface in PROXIES[proxy].surfaces
        for scenario in chosen or (scenarios.CUT if drop else scenarios.ALL)
        if CLIENTS[client].plays(scenario)
    ]
    kinds = list(results.KINDS if both else ["stock"] if stock else ["patched"])
    if drop or proxy:
        kinds = [f"{kind} {proxy or 'drop'}" for kind in kinds]
    jobs = 1 if proxy else jobs  # whose request it is, no proxy tells
    found = {kind: _runs(pinned, kind, wanted, jobs, again) for kind in kinds}
    print(table.summary(pinned, found))
    if keep:
        table.write_results(pinned, found, whole=bool(proxy or not (chosen or drop)))
    runs = [run for kind, runs in found.items() if "stock" not in kind for run in runs]
    wrong = [r for r in runs if r["verdict"] != "right" and not table.own_fault(r)]
    if wrong:
        left = paths.build_dir() / "clients" / f"{pinned}-patched" / "runs"
        print(f"{len(wrong)} runs are not right: {left}", file=sys.stderr)
    return bool(wrong)


def _outside(clients: tuple[str, ...], proxy: str | None) -> int:
    """Do everything that needs a network; then run this command again, without one."""
    build = paths.build_dir() / "clients"
    needs = {each for one in clients for each in CLIENTS[one].environments}
    install(build, needs | ({PROXIES[proxy].environment} if proxy else set()))
    template(build / "qwen3.5.jinja")
    prefix = NAMESPACE
    try:
        subprocess.run([*NAMESPACE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        prefix = []
        print("no network namespace here: proxies lead nowhere", file=sys.stderr)
    inner = [*prefix, sys.executable, "-m", "clients", *sys.argv[1:]]
    there = {**os.environ, INSIDE: "1" if prefix else ""}
    return subprocess.run(inner, check=False, env=there).returncode


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def _runs(
    name: str, kind: str, wanted: list[Job], width: int, again: bool
) -> list[dict[str, Any]]:
    """Return the results of one tree; those of an earlier run are taken up."""
    side, _, proxy = kind.partition(" ")
    tree = paths.trees_dir(name) / side
    if not (tree / "vllm/__init__.py").is_file():
        raise PatchsetError(f"there is no tree {tree}: run `nox -s apply -- {name}`")
    build = paths.build_dir() / "clients"
    folder = build / f"{name}-{kind.replace(' ', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    files = results.patched(name) if side == "patched" else "stock"
    place = folder / f"results-{SUITE_VERSION}-{files}.jsonl"
    if again:
        place.unlink(missing_ok=True)
    lines = place.read_text().splitlines() if place.is_file() else []
    have = {Job.of(result): result for result in map(json.loads, lines)}
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in wanted:
        if job not in have:
            groups.setdefault((job.client, job.surface), []).append(job)
    if groups:
        lane, pool = Lane(build, folder), ThreadPoolExecutor(width)

        def work(group: list[Job]) -> None:
            for result in lane.group(group, CLIENTS[group[0].client]):
                have[Job.of(result)] = result
                with place.open("a") as out:
                    out.write(json.dumps(result) + "\n")
                print(table.line(result), flush=True)

        try:
            variables = {table.DROP: "drop"} if proxy == "drop" else {}
            lane.begin(tree, PROXIES.get(proxy), **variables)
            # The long ones first, so that no processor waits for the last.
            list(pool.map(work, sorted(groups.values(), key=len, reverse=True)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            lane.end()
    return [have[job] for job in wanted if job in have]


again = "run the same command again: it goes on where this one stopped"
run_command.run_lane(lambda: command.main(standalone_mode=False) or 0, again=again)
