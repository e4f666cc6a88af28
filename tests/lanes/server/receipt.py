# SPDX-License-Identifier: Apache-2.0
"""``python3 receipt-v0.33.0.pyz``: serve stock and patched, and write a receipt."""

import contextlib
import datetime
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click

from patchset import console, files
from patchset.errors import EXIT_FAILED, EXIT_INTERRUPTED, PatchsetError
from server import host, overlay, report
from server.jobs import CELLS, CONTENT, RECALL, Job, Servers

#: Is told of the results and the failures so far, by job.
SoFar = Callable[[dict[str, Any], dict[str, str]], None]
#: Some servers are left, because the time was up.
TIME_UP = 4
VARIANTS = ("patched", "stock")
#: Drafted tokens in the order in which they are worth running.
TELLING = (3, 5, 0, 1, 2, 4, 7, 15)
_EAGER = (0, 3)
#: Bytes of a run: two trees and their compiled graphs; and weights from the hub.
_DISK, _DISK_WEIGHTS = 2e9, 20e9
#: Seconds of a run that is not told: a GPU is often rented.
_SECONDS = {"cuda": 900.0, "cpu": 14400.0}
#: The first vLLM with a text-only Qwen3.5.
_TEXT_ONLY = (0, 32)


def plan(target: str, ks: Sequence[int], everything: bool) -> list[Job]:
    """Return the servers to run, the most telling first, stock right behind patched."""
    cells: Iterable[str] = CELLS if everything else ("graphs",)
    return [
        Job(variant, cell, k)
        for cell in (["cpu"] if target == "cpu" else cells)
        for k in TELLING
        if (everything or k in ks) and (cell != "eager" or k in _EAGER)
        for variant in VARIANTS
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--mtp",
    "ks",
    type=click.Choice([str(k) for k in TELLING]),
    multiple=True,
    default=("0", "3", "5"),
    show_default=True,
    help="Number of drafted tokens k; may be repeated.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="All k, with prefix caching, and without CUDA graphs.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 16),
    default=1,
    show_default=True,
    help="Servers at a time; one is timed at a time, beside the others.",
)
@click.option(
    "--seconds",
    type=float,
    help="Begin nothing that would end later; the same command goes on from there. "
    "900 by default, and four hours on a CPU.",
)
@click.option(
    "--prefix-cache",
    is_flag=True,
    help="With --model: only whether facts of long prompts come back from the cache.",
)
@click.option("--model", help="Real weights: a folder, or a name on the model hub.")
@click.option(
    "--vllm-arg", "extra", multiple=True, help="One more word for 'vllm serve'."
)
def command(**given: Any) -> None:
    """Serve vLLM stock and patched, and write a receipt of what came out.

    Nothing is installed and nothing that is installed is changed. The receipt goes
    beside this file; what is temporary, to the system's folder for that, or TMPDIR.
    """
    said = json.loads((CONTENT / "receipt.json").read_text(encoding="utf-8"))
    program = Path(os.environ["RECEIPT_FILE"])
    out = program.with_suffix("")
    folders = [out.parent, CONTENT]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        out.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as name:
            folders.append(scratch := Path(name).resolve())
            receipt = _run(said, given, program, out, scratch, folders)
        console.result(_write(receipt, out, folders))
        console.note(f"receipt: {out / 'receipt.json'} and receipt.md")
        why, status = report.faults(receipt), EXIT_FAILED
        if receipt["left"] and not why:
            why = f"{len(receipt['left'])} servers are left; run it again to go on"
            status = TIME_UP
    except KeyboardInterrupt:
        why = "interrupted; the same command goes on from here"
        status = EXIT_INTERRUPTED
    except PatchsetError as error:
        console.show_error(error)
        why, status = error.message, error.exit_code
    except Exception as error:
        traceback.print_exc()
        why, status = f"{type(error).__name__}: {error}", EXIT_FAILED
    if why:
        why = " ".join(report.redacted(why, *folders).split())[:500]
        name = f"{said['release']}, {said['series'][: report.DIGITS]}"
        console.result(f"paste this: receipt {name}: {why}")
        sys.exit(status)


def _write(receipt: report.Receipt, out: Path, folders: Sequence[Path]) -> str:
    text = report.text(receipt, *folders)
    table = report.table(json.loads(text))
    files.write_text(out / "receipt.json", text)
    files.write_text(out / "receipt.md", table)
    return table


def _run(
    said: dict[str, Any],
    given: dict[str, Any],
    program: Path,
    out: Path,
    scratch: Path,
    folders: Sequence[Path],
) -> report.Receipt:
    """Look at the host, make the trees, run the servers."""
    version, model = said["version"], given["model"]
    if given["prefix_cache"] and not model:
        raise PatchsetError(
            "the small model knows no facts", "name real weights: --model"
        )
    if not model and tuple(map(int, version.split(".")[:2])) < _TEXT_ONLY:
        raise PatchsetError(
            f"vLLM {version} has no text-only Qwen3.5, which the small model is",
            "name real weights with --model",
        )
    installed, target = host.vllm(version, said["image"])
    gpus = host.gpus() if target == "cuda" else host.NO_GPUS
    from_hub = model and not Path(model).is_dir()
    files.need_space({scratch: _DISK_WEIGHTS if from_hub else _DISK})
    console.note(f"vLLM {version} on {', '.join(gpus['gpus']) or 'the CPU'}")
    for variant in VARIANTS:
        patched = CONTENT / "patched" if variant == "patched" else None
        overlay.make(scratch / variant, installed, said["files"], patched)
        if target == "cpu":
            overlay.name_it_cpu(scratch / variant, version)
    receipt: report.Receipt = {
        "format": report.FORMAT,
        "release": said["release"],
        "target": target,
        "commit": said["commit"],
        "series": said["series"],
        "program": overlay.sha256(program),
        "model": Path(model).name if model else f"small, {said['checkpoint'][:12]}",
        "arguments": list(given["extra"]),
        "at_once": given["at_once"],
        "machine": gpus | host.described(),
        "files": {
            path: overlay.sha256(scratch / "patched" / path) for path in said["files"]
        },
    }
    seconds = _SECONDS[target] if given["seconds"] is None else given["seconds"]
    servers = Servers(
        target, scratch, out / "logs", model, given["extra"], given["at_once"]
    )
    jobs = plan(target, [int(k) for k in given["ks"]], given["everything"])
    if given["prefix_cache"]:
        jobs = [Job(variant, RECALL, 3) for variant in VARIANTS]
    kernels = {} if model else {name: servers.kernels(name) for name in VARIANTS}

    def receipt_of(results: dict[str, Any], failures: dict[str, str]) -> report.Receipt:
        left = [str(job) for job in jobs if str(job) not in {**results, **failures}]
        return receipt | {
            "kernels": kernels,
            "taken": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "seconds": sum(one["seconds"] for one in results.values()),
            "servers": [one for one in results.values() if one["cell"] != RECALL],
            "recall": [one for one in results.values() if one["cell"] == RECALL],
            "failures": failures,
            "left": left,
        }

    # A run that is cut off leaves the receipt of what was done.
    def so_far(results: dict[str, Any], failures: dict[str, str]) -> None:
        _write(receipt_of(results, failures), out, folders)

    return receipt_of(*serve(servers, jobs, receipt, out, seconds, so_far))


def _kept(file: Path, key: str) -> dict[str, Any]:
    """Return the results of an earlier run of the same receipt, by job."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    kept = []
    for line in lines:
        with contextlib.suppress(ValueError):  # one that a kill has cut
            kept.append(json.loads(line))
    return {line["job"]: line["result"] for line in kept if line["key"] == key}


def serve(
    servers: Servers,
    jobs: Sequence[Job],
    receipt: report.Receipt,
    out: Path,
    seconds: float,
    so_far: SoFar,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return results and failures by job; those of an earlier run are kept.

    ``servers.at_once`` run at a time, and behind each ``so_far`` is told of all that
    there is; an interrupt ends all of them.
    """
    file, key = out / "servers.jsonl", report.sum_of(receipt)
    wanted, earlier = {str(job): job for job in jobs}, _kept(file, key)
    results = {name: earlier[name] for name in wanted if name in earlier}
    failures: dict[str, str] = {}
    end, lock = time.monotonic() + seconds, threading.Lock()

    def run(number: int, name: str, job: Job) -> None:
        with lock:
            # No server is begun with less time than the slowest took.
            slowest = max([row["seconds"] for row in results.values()], default=0)
            todo = len(wanted) - len(results) - len(failures)
        begun = time.monotonic()
        if servers.group.stopped or begun + slowest > end:
            return
        rest = slowest * -(-todo // servers.at_once) or seconds
        left = console.duration(min(end - begun, rest))
        console.note(f"[{number} of {len(jobs)}] {name}; at most {left} left")
        try:
            row = servers.result(job)
        except PatchsetError as error:
            if servers.group.stopped:
                return
            console.show_error(error)
            with lock:
                failures[name] = f"{error.message}: {(error.hint or '')[-1500:]}"
                so_far(results, failures)
            return
        console.note(f"  {name}: {row['right']} of {row['requests']} right")
        with lock, file.open("a", encoding="utf-8") as lines:
            results[name] = row
            print(json.dumps({"key": key, "job": name, "result": row}), file=lines)
            so_far(results, failures)

    with ThreadPoolExecutor(servers.at_once) as pool:
        try:
            futures = [
                pool.submit(run, number, name, job)
                for number, (name, job) in enumerate(wanted.items(), 1)
                if name not in results
            ]
            for each in as_completed(futures):
                each.result()
        except BaseException:
            servers.group.stop()
            raise
    return {name: results[name] for name in wanted if name in results}, failures
