# SPDX-License-Identifier: Apache-2.0
"""``python -m peers [NAME…] [RELEASE]``: what other engines read of the suite's
outputs; or, with ``--frames``, of sloppy ones that the patched reader reads worse.

Exit status 0: counted, or nothing is worse without a reason; 1: something is; 2: usage;
3: could not run.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

import results
from conformance import check, corpora
from conformance.corpora.reader import Reader
from patchset import paths, release, run_command
from peers import SUITE_VERSION, counting, frames, table
from peers.asking import PEERS, Peer, Readings, tree, version

TREES = ("patched", "stock")
RUST = "vllm-rs"
ENGINES = (*TREES, *PEERS, RUST)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("targets", nargs=-1, metavar="[NAME]... [RELEASE]")
@click.option("--case", "patterns", multiple=True, help="Name, glob or group.")
@click.option(
    "--frames",
    "most",
    type=click.IntRange(min=0),
    help="Compare so many sloppy frames instead; 0: all.",
)
@click.option("--reader", type=Path, help="Of frames: this qwen_tool_reader.py.")
@click.option("--jobs", default=2, show_default=True, help="Engines at a time.")
@click.option("--results", "keep", is_flag=True, help="Keep rows in results/peers.")
def command(
    targets: tuple[str, ...],
    patterns: tuple[str, ...],
    most: int | None,
    reader: Path | None,
    jobs: int,
    keep: bool,
) -> int:
    """Ask the engines of NAME, or all, what they read."""
    engines = [word for word in targets if word in ENGINES]
    other = [word for word in targets if word not in engines]
    if len(other) > 1:
        raise click.UsageError(f"{other[0]} is none of {', '.join(ENGINES)}")
    if keep and patterns:
        raise click.UsageError("--results are those of all cases; leave --case away")
    pinned = release.load(*other).name
    engines = engines or [*ENGINES]
    if most is not None:
        return _frames(pinned, engines, most, reader, jobs)
    asked = counting.chosen(patterns)

    def figures(engine: str) -> dict[str, Any]:
        if engine in TREES:
            folder = paths.trees_dir(pinned) / engine
            found = counting.count(asked, tree(folder, asked, counting.SCHEDULES, jobs))
            log = paths.build_dir() / "peers" / f"{engine}.log"
            return found | {"cost": counting.tree_cost(folder, log)}
        if engine == RUST:
            read = counting.rust(release.load(pinned), asked)
            return counting.count(asked, read) | {"cost": []}
        peer = Peer(engine)
        try:
            found = counting.count(asked, counting.readings(peer, asked))
            return found | {"cost": counting.cost(peer)}
        finally:
            peer.child.end()

    for engine in engines:
        row = figures(engine)
        number = version(engine) if engine in PEERS else pinned
        print(f"{engine} {number}: {row}", flush=True)
        if keep:
            # The release has no say in a peer's row: as those of stock, it stays.
            name = engine if engine in TREES else f"stock {engine}"
            label = f"vLLM {engine}" if engine in TREES else engine
            row = {"title": label, "version": number, **row}
            results.keep(table.LANE, SUITE_VERSION, pinned, name, row)
    return 0


def _frames(
    pinned: str, engines: list[str], most: int, reader: Path | None, jobs: int
) -> int:
    """Print the frames that ours reads worse than others."""
    asked = {case.name: case for case in corpora.load(["corpora/frames"], most)}

    def of_tree(kind: str) -> dict[str, Readings]:
        folder = paths.trees_dir(pinned) / kind
        return dict(tree(folder, [*asked.values()], frames.SCHEDULES, jobs))

    def of_peer(name: str) -> dict[str, Readings]:
        peer = Peer(name)
        try:
            ways = frames.SCHEDULES
            return {case.name: peer.readings(case, ways) for case in asked.values()}
        finally:
            peer.child.end()

    with ThreadPoolExecutor(jobs) as pool:
        names = [engine for engine in engines if engine in PEERS]
        others = dict(zip(names, pool.map(of_peer, names), strict=True))
    others["stock"] = of_tree("stock")
    if reader:
        alone = Reader(reader)
        ours = {n: alone.read(case, [case.output])[0] for n, case in asked.items()}
    else:
        ours = {name: read["full"] for name, read in of_tree("patched").items()}
    findings = [
        finding
        for name, case in asked.items()
        if (
            finding := frames.judge(
                case, ours[name], {e: others[e][name] for e in others}
            )
        )
    ]
    unreasoned = [finding for finding in findings if not finding.reason]
    print(*unreasoned, sep="\n")
    harms = Counter(finding.harm for finding in unreasoned)
    counts = ", ".join(f"{harm} {harms[harm]}" for harm in check.HARMS if harms[harm])
    print(
        f"{len(asked)} frames: {len(findings)} worse than others, "
        f"{len(findings) - len(unreasoned)} of them for a reason; "
        f"{counts or 'no other'}"
    )
    return bool(unreasoned)


run_command.run_lane(lambda: command.main(standalone_mode=False) or 0)
