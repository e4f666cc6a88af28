"""``python -m conformance [TREE …]``: run the suite. Exit code 0: all right; 1:
something wrong; 2: usage; 3: could not run.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from conformance import case as cases
from conformance.adapters import AdapterError, TreeAdapter, UrlAdapter, jobs_for
from conformance.report import Report, show, write_json
from patchset import run_command

SURFACES = ("chat", "responses", "messages")


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="conformance",
        description="Tool-call conformance of vLLM trees and servers.",
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TREE",
        help="source tree, or release name below --trees",
    )
    parser.add_argument(
        "--trees",
        type=Path,
        help="folder with trees: <release>/stock, <release>/patched or vllm-<version>",
    )
    parser.add_argument(
        "--stock",
        action="store_true",
        help="names mean stock trees (else patched ones)",
    )
    parser.add_argument(
        "--plugin",
        type=Path,
        metavar="WHEEL",
        help="load this plugin; names mean stock trees",
    )
    parser.add_argument(
        "--url", action="append", default=[], help="a running server instead of a tree"
    )
    parser.add_argument(
        "--model", default="scripted", help="model name to ask the server for"
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="request header for --url",
    )
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="interpreter that has the release's dependencies",
    )
    parser.add_argument(
        "--case", action="append", default=[], help="name, glob, group, or a case file"
    )
    parser.add_argument(
        "--surface", action="append", choices=SURFACES, help="default: all three"
    )
    parser.add_argument(
        "--reasoning",
        choices=("qwen3", "none"),
        help="only starts with this reasoning parser",
    )
    parser.add_argument(
        "--pair",
        metavar="REASONING/TOOL",
        help="parsers in place of qwen3 and qwen3_coder, as deepseek_r1/qwen3_coder",
    )
    parser.add_argument("--start", choices=tuple(cases.STARTS), help="only this start")
    parser.add_argument(
        "--schedule",
        action="append",
        help="w1, w4, whole, split@17, mtp3#0, cuts:1,2,3, or full (not streamed)",
    )
    parser.add_argument(
        "--mtp",
        type=int,
        metavar="K",
        help="only what speculation depth K does (0: one token a step)",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, help="irregular schedules for each k"
    )
    parser.add_argument("--full", action="store_true", help="all two-way splits")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="only not streamed, k = 0 and k = 5",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument(
        "--results",
        action="store_true",
        help="keep the totals of each release in results/conformance",
    )
    parser.add_argument("--log", type=Path, help="what the releases write")
    parser.add_argument(
        "--failures", type=int, default=10, metavar="N", help="failures to print"
    )
    parser.add_argument(
        "--serve",
        type=int,
        metavar="PORT",
        help="serve the tree with scripted answers on this port, for --url",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the cases' names and classes"
    )
    return parser.parse_args(argv)


def resolve(name: str, trees: Path | None, stock: bool) -> Path:
    """The tree that a command-line word means.

    Raises AdapterError when there is none.
    """
    if Path(name).is_dir():
        return Path(name)
    version = name.removeprefix("v")
    for root in [trees] if trees else []:
        kind = "stock" if stock else "patched"
        places = [
            root / f"v{version}" / kind,
            root / version / kind,
            root / kind / f"v{version}",
        ]
        places += (
            [root / f"vllm-{version}"] if stock else [root / f"vllm-{version}-patched"]
        )
        for place in places:
            if (place / "vllm").is_dir():
                return place
    raise AdapterError(
        f"no {'stock' if stock else 'patched'} tree for {name!r} (give a folder, or --trees; nox -s apply -- RELEASE makes it)"
    )


def adapters(
    opts: argparse.Namespace,
) -> list[tuple[TreeAdapter | UrlAdapter, str, str]]:
    """(adapter, kind, the command's beginning that repeats it)."""
    base = f"{Path(sys.executable).name} -m conformance"
    out: list[tuple[TreeAdapter | UrlAdapter, str, str]] = []
    for name in opts.targets:
        tree = resolve(name, opts.trees, opts.stock or opts.plugin is not None)
        python = (
            ""
            if opts.python == sys.executable
            else f" --python {shlex.quote(opts.python)}"
        )
        adapter = TreeAdapter(
            tree,
            python=opts.python,
            workers=opts.jobs,
            log=opts.log,
            plugin=opts.plugin,
            pair=opts.pair,
        )
        if opts.plugin:
            python += f" --plugin {shlex.quote(str(opts.plugin))}"
        out.append(
            (
                adapter,
                "plugin" if opts.plugin else "stock" if opts.stock else "tree",
                f"{base} {shlex.quote(str(tree))}{python}",
            )
        )
    headers = dict(h.split(":", 1) for h in opts.header)
    for url in opts.url:
        reasoning = opts.reasoning or "qwen3"
        out.append(
            (
                UrlAdapter(url, opts.model, reasoning, headers=headers),
                "server",
                f"{base} --url {shlex.quote(url)} --model {shlex.quote(opts.model)} --reasoning {reasoning}",
            )
        )
    return out


def run(opts: argparse.Namespace) -> int:
    """Run what the command line asks for; returns the exit code."""
    chosen = list(cases.load(opts.case))
    if opts.list:
        for case in chosen:
            print(f"{case.name:60} {case.class_:24} {case.source}")
        return 0
    if not chosen:
        print(
            f"error: no case {', '.join(opts.case)}\n"
            "next:  name it GROUP/NAME; nox -s conformance -- --list has all",
            file=sys.stderr,
        )
        return 2
    pattern = r"w1|mtp5#.*" if opts.quick else None
    if opts.mtp is not None:
        pattern = "w1" if opts.mtp == 0 else rf"mtp{opts.mtp}#.*"
    jobs = jobs_for(
        chosen,
        surfaces=opts.surface or list(SURFACES),
        reasoning="qwen3" if opts.pair else opts.reasoning,
        pattern=pattern,
        names=opts.schedule,
        full=opts.full,
        seeds=opts.seeds,
        start=opts.start,
        starts=cases.STARTS,
    )
    targets, reports = adapters(opts), []
    if not targets:
        print("nothing to judge: give a tree or --url", file=sys.stderr)
        return 2
    if opts.serve:
        adapter = targets[0][0]
        if not isinstance(adapter, TreeAdapter):
            print("--serve needs a tree", file=sys.stderr)
            return 2
        return adapter.serve(opts.serve, opts.reasoning or "qwen3", opts.case)
    for adapter, kind, repeat in targets:
        report = Report(adapter.label(), kind, repeat)
        began = time.monotonic()
        for count, document in enumerate(adapter.run(jobs), 1):
            report.add(document)
            if sys.stderr.isatty():
                print(f"\r{count}/{len(jobs)}", end="\r", file=sys.stderr)
        report.seconds, report.label = time.monotonic() - began, adapter.label()
        report.release = getattr(adapter, "release", "?")
        reports.append(report)
        show(report, limit=opts.failures)
    if opts.json:
        write_json(opts.json, reports)
    if opts.results:
        from conformance import table

        for report in reports:
            table.keep(report.document(), opts.pair)
        return 0
    return 0 if all(report.is_right() for report in reports) else 1


def main() -> None:
    """Entry point."""
    opts = options(sys.argv[1:])
    run_command.run_lane(lambda: run(opts), AdapterError)


if __name__ == "__main__":
    main()
