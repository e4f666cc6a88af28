# SPDX-License-Identifier: Apache-2.0
"""``python3 receipt-v0.33.0.pyz``: serve stock and patched one after the other, and write a receipt."""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpu import host, overlay, report
from gpu.serve import CELLS, CONTENT, Job, Servers
from patchset import console
from patchset.errors import EXIT_FAILED, EXIT_INTERRUPTED, PatchsetError

#: Some servers are left, because the time was up.
TIME_UP = 4
VARIANTS = ("patched", "stock")
#: Drafted tokens in the order in which they are worth running.
TELLING = (3, 5, 0, 1, 2, 4, 7, 15)
_EAGER = (0, 3)
#: Gigabytes of a run: two trees' Python files and compiled graphs; and weights from the hub.
_DISK, _DISK_WEIGHTS = 2, 20
#: The first vLLM with a text-only Qwen3.5.
_TEXT_ONLY = (0, 32)
#: No server is begun with less time than this, in seconds.
_LEAST = 30.0


def plan(
    target: str, ks: Sequence[int], cells: Sequence[str], variants: Sequence[str]
) -> list[Job]:
    """The servers to run, the most telling first, stock right behind patched."""
    return [
        Job(variant, cell, k)
        for cell in (["cpu"] if target == "cpu" else cells)
        for k in TELLING
        if k in ks and (cell != "eager" or k in _EAGER)
        for variant in variants
    ]


def mtp_range(text: str) -> list[int]:
    """``0-5``, ``3`` or ``0,3,5`` as numbers of drafted tokens.

    Raises:
        click.BadParameter: it is none of these, or asks for more than are served.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise click.BadParameter(f"{text!r} is no range such as 0-5")
        found.update(range(int(first), int(last or first) + 1))
    if not found or not found <= set(TELLING):
        raise click.BadParameter(f"{text!r} is not within {sorted(TELLING)}")
    return sorted(found)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--mtp",
    default="0,3,5",
    show_default=True,
    callback=lambda context, option, value: mtp_range(value),
    help="Numbers of drafted tokens k: 0-5, 3, or 0,7,15.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="All k, with prefix caching, and without CUDA graphs.",
)
@click.option(
    "--variant",
    "variants",
    type=click.Choice(VARIANTS),
    multiple=True,
    default=VARIANTS,
    help="Only stock, or only patched.",
)
@click.option(
    "--seconds",
    type=float,
    default=900,
    show_default=True,
    help="Stop in order after so long; the same command goes on from there.",
)
@click.option("--model", help="Real weights: a folder, or a name on the model hub.")
@click.option(
    "--vllm-arg", "extra", multiple=True, help="One more word for 'vllm serve'."
)
@click.option(
    "--target",
    type=click.Choice(["cuda", "cpu"]),
    default="cuda",
    help="cpu: the CPU build, which only tests this file.",
)
@click.option(
    "--every",
    type=click.IntRange(1),
    default=1,
    help="Ask one question in so many, on a slow machine.",
)
@click.option("--soak", default=0, help="Random requests on top, for each server.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the receipt goes.  [default: beside this file]",
)
@click.option(
    "--scratch",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Disk for two trees and compiled graphs.  [default: the system's]",
)
def command(**given: Any) -> None:
    """Serve vLLM stock and patched, and write a receipt of what came out.

    Nothing is installed and nothing that is installed is changed.
    """
    said = json.loads((CONTENT / "receipt.json").read_text(encoding="utf-8"))
    program = Path(os.environ["RECEIPT_FILE"])
    out = (given["out"] or program.parent).resolve() / program.stem
    folders = [out.parent, CONTENT]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=given["scratch"]) as name:
            folders.append(scratch := Path(name).resolve())
            receipt, status = _run(said, given, program, out, scratch)
            text = report.text(receipt, *folders)
            (out / "receipt.json").write_text(text, encoding="utf-8")
            table = report.table(json.loads(text))
            (out / "receipt.md").write_text(table, encoding="utf-8")
            console.result(table)
            console.note(f"receipt: {out / 'receipt.json'} and receipt.md")
            why = report.faults(receipt)
    except KeyboardInterrupt:
        why, status = (
            "interrupted; the same command goes on from here",
            EXIT_INTERRUPTED,
        )
    except PatchsetError as error:
        console.show_error(error)
        why, status = error.message, error.exit_code
    except Exception as error:
        traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        why, status = f"{type(error).__name__}: {error} ({where})", EXIT_FAILED
    if why:
        why = " ".join(report.redacted(why, *folders).split())[:500]
        series = said["series"][: report.DIGITS]
        console.result(f"paste this: receipt {said['release']}, {series}: {why}")
    sys.exit(status)


def _run(
    said: dict[str, Any], given: dict[str, Any], program: Path, out: Path, scratch: Path
) -> tuple[report.Receipt, int]:
    """Look at the host, make the trees, run the servers; the receipt and the exit status."""
    target, model, variants = given["target"], given["model"], given["variants"]
    if not model and _version(said["version"]) < _TEXT_ONLY:
        raise PatchsetError(
            f"vLLM {said['version']} has no text-only Qwen3.5, which the small model is",
            "name real weights with --model",
        )
    installed = host.vllm(said["version"], said["image"])
    gpus = host.check_gpu() if target == "cuda" else []
    hub = model and not Path(model).is_dir()
    host.need_space(scratch, _DISK_WEIGHTS if hub else _DISK, "a run")
    console.note(f"vLLM {said['release']} on {', '.join(gpus) or 'the CPU'}")
    for variant in variants:
        patched = CONTENT / "patched" if variant == "patched" else None
        overlay.make(scratch / variant, installed, said["files"], patched)
        if target == "cpu":
            overlay.name_it_cpu(scratch / variant, said["version"])
    tree = scratch / "patched" if "patched" in variants else CONTENT / "patched"
    receipt: report.Receipt = {
        "format": report.FORMAT,
        "release": said["release"],
        "target": target,
        "commit": said["commit"],
        "series": said["series"],
        "program": overlay.sha256(program),
        "model": Path(model).name if model else f"small, {said['checkpoint'][:12]}",
        "arguments": list(given["extra"]),
        "every": given["every"],
        "soak": given["soak"],
        "machine": host.described(gpus),
        "files": {path: overlay.sha256(tree / path) for path in said["files"]},
    }
    # bfloat16 begins with sm_80.
    old = any(int(gpu.rpartition("_")[2]) < 80 for gpu in gpus)
    servers = Servers(
        target,
        scratch,
        out / "logs",
        "float16" if old else "bfloat16",
        model,
        given["extra"],
        given["soak"],
        given["every"],
    )
    ks = TELLING if given["everything"] else given["mtp"]
    cells = tuple(CELLS) if given["everything"] else ("graphs",)
    jobs = plan(target, ks, cells, variants)
    results, failures = _serve(servers, jobs, receipt, out, given["seconds"])
    if results and not model:
        receipt["kernels"] = {name: servers.kernels(name) for name in variants}
    receipt |= {
        "taken": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": sum(one["seconds"]["all"] for one in results.values()),
        "servers": list(results.values()),
        "failures": failures,
        "left": [str(job) for job in jobs if str(job) not in {**results, **failures}],
    }
    if report.faults(receipt | {"left": []}):
        return receipt, EXIT_FAILED
    return receipt, TIME_UP if receipt["left"] else 0


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def _serve(
    servers: Servers,
    jobs: Sequence[Job],
    receipt: report.Receipt,
    out: Path,
    seconds: float,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Results and failures by job; a result of this same receipt is kept from an earlier run."""
    key, begun = report.sum_of(receipt), time.monotonic()
    results: dict[str, Any] = {}
    failures: dict[str, str] = {}
    took: list[float] = []

    def left() -> float:
        return seconds - (time.monotonic() - begun)

    def note(text: str) -> None:
        done = len(results) + len(failures)
        rest = left()
        if took:
            now = time.monotonic() - started
            rest = min(rest, max(took) * (len(jobs) - done) - now)
        time_left = console.duration(max(rest, 0))
        console.note(f"[{done + 1} of {len(jobs)}] {text}; at most {time_left} left")

    for job in jobs:
        started = time.monotonic()
        place = out / "servers" / f"{job}.json"
        kept = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
        if kept.get("key") != key:
            if left() < max([_LEAST, *took]):
                break
            try:
                kept = {"key": key, "result": servers.result(job, left(), note)}
            except TimeoutError:
                break
            except PatchsetError as error:
                if left() <= 0:
                    break
                console.show_error(error)
                failures[str(job)] = f"{error.message}: {(error.hint or '')[-1500:]}"
                continue
            place.parent.mkdir(exist_ok=True)
            place.write_text(json.dumps(kept), encoding="utf-8")
        one = results[str(job)] = kept["result"]
        took.append(one["seconds"]["all"])
        console.note(f"  {job}: {one['right']} of {one['requests']} right")
        for wrong in one["wrong"] if job.variant == "patched" else ():
            console.note(f"  {wrong['kind']}: {wrong['what']}: {wrong['why'][0]}")
    return results, failures
