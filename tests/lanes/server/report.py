# SPDX-License-Identifier: Apache-2.0
"""The receipt: what it may say, its own sum, and its table."""

import hashlib
import json
import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchset import console

Receipt = dict[str, Any]

#: Raised by hand when an older receipt can no longer be read.
FORMAT = 2
#: Digits of a sha256 that name a series in tables.
DIGITS = 12
_ANSWERS = ("server", "variant", "right of all", "accepted by position")
#: Of GPUs alone: on a CPU it varies with whatever else the machine does.
_PACE = ("tokens/s", "between chunks, p50 / p99", "streams")
_SERIAL = re.compile(r"\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]+|\b\d+\.\d+\.\d+\.\d+\b")
#: What a program or a user said, which may name the machine.
_FREE = ("model", "arguments", "failures", "servers", "kernels")


def redacted(value: Any, *folders: Path) -> Any:
    """Return a value without folders, home, user and host, addresses and serial
    numbers.

    Nor has it what a terminal would obey, such as the colours of a log.
    """
    if isinstance(value, dict):
        return {key: redacted(each, *folders) for key, each in value.items()}
    if isinstance(value, list):
        return [redacted(each, *folders) for each in value]
    if not isinstance(value, str):
        return value
    names = [
        *map(str, folders),
        os.path.expanduser("~"),  # noqa: PTH111 - never raises
        os.environ.get("USER", ""),
        socket.gethostname(),
    ]
    for name in sorted(set(names) - {"", "/", "root"}, key=len, reverse=True):
        value = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "***", value)
    return console.printable(_SERIAL.sub("***", value))


def sum_of(receipt: Receipt) -> str:
    """Return the sha256 of a receipt without its own sum: it tells an edit, not a
    forger.
    """
    rest = {key: value for key, value in receipt.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def text(receipt: Receipt, *folders: Path) -> str:
    """Return a receipt as a file has it: redacted, with its sum."""
    clean = {
        key: redacted(value, *folders) if key in _FREE else value
        for key, value in receipt.items()
    }
    return json.dumps(clean | {"sha256": sum_of(clean)}, indent=1) + "\n"


def faults(receipt: Receipt) -> str:
    """Return what is wrong, in one line; empty if all that was run is right."""
    lines = [f"{job} failed: {why[-200:]}" for job, why in receipt["failures"].items()]
    for one in receipt["servers"]:
        name = f"{one['variant']} {one['cell']} k={one['mtp']}"
        if one["variant"] == "patched" and one["right"] < one["requests"]:
            lines.append(f"{name}: {one['right']} of {one['requests']} right")
        if one["variant"] == "patched" and (form := one["by_kind"].get("form")):
            lines.append(f"{name}: {form} right and wrong in form")
        lines += [f"{name}: {complaint}" for complaint in one["complaints"]]
    for one in receipt.get("recall", []):
        if one["variant"] == "patched":
            lines += [f"patched prefix caching, {why}" for why in one["complaints"]]
    lines += [
        f"kernels, {name}: {said}"
        for name, said in receipt["kernels"].items()
        if not said.startswith("right")
    ]
    return "; ".join(lines)


def table(receipt: Receipt) -> str:
    """Return the receipt in Markdown: where it ran, and stock beside patched."""
    machine, head = receipt["machine"], columns(receipt["target"])
    image = "official image" if machine["official_image"] else "no official image"
    where = ", ".join(machine["gpus"]) or f"CPU, no GPU: {machine['cpu']}"
    at_once = receipt.get("at_once", 1)
    shared = f"- {at_once} servers at a time: their pace is not that of one alone"
    lines = [
        f"### Receipt: vLLM {receipt['release']} on {where}",
        "",
        f"- {image}, vLLM {receipt['release']}, torch {machine['versions']['torch']}, "
        f"driver {machine['driver']}, CUDA {machine['cuda']}, ROCm {machine['rocm']}",
        f"- patched files {receipt['series'][:DIGITS]} "
        f"({len(receipt['files'])} files, sums checked where they were served), "
        f"this file {receipt['program'][:DIGITS]}, model {receipt['model'][:40]}",
        f"- taken {receipt['taken']}, {receipt['seconds']} s of servers; "
        f"not run: {', '.join(receipt['left']) or 'nothing'}",
        *(f"- kernels, {k}: {v}" for k, v in receipt["kernels"].items()),
        *[shared] * (at_once > 1 and receipt["target"] != "cpu"),
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(f"| {' | '.join(row)} |" for row in rows(receipt)),
        *_recalled(receipt.get("recall", [])),
    ]
    return "\n".join(lines) + "\n"


def _recalled(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table of what came back from the prefix cache, if it was asked."""
    if not results:
        return []
    head = [
        *("prefix caching", "round", "facts missed", "foreign codes"),
        "from the cache",
    ]
    rows = [
        [
            f"{each['variant']}, k = {each['mtp']}, runner {each['runner']}",
            one["name"],
            f"{one['missed']}/{one['facts']}",
            str(one["foreign"]),
            f"{recall_share(one):.0%} of {one['queries']} tokens",
        ]
        for each in results
        for one in each["rounds"]
    ]
    table = [head, ["---"] * len(head), *rows]
    caches = [f"{k} {v}" for k, v in results[0]["cache"].items()]
    sizes = [
        size
        for one in results[0]["rounds"]
        for size in (one["shortest"], one["longest"])
    ]
    said = f"Prompts of {min(sizes)} to {max(sizes)} tokens; {', '.join(caches)}."
    return ["", *(f"| {' | '.join(row)} |" for row in table), "", said]


def recall_share(result: dict[str, Any]) -> float:
    """Return the share of prompts' tokens that a round found in the prefix cache."""
    return float(result["hits"] / max(result["queries"], 1))


def columns(target: str) -> tuple[str, ...]:
    return _ANSWERS if target == "cpu" else (*_ANSWERS, *_PACE)


def rows(receipt: Receipt) -> list[list[str]]:
    order = sorted(
        receipt["servers"],
        key=lambda s: (s["cell"], s["mtp"], s["variant"] == "patched"),
    )
    found = [
        [
            f"{one['cell']}, k = {one['mtp']}",
            one["variant"],
            f"{one['right']}/{one['requests']}",
            " ".join(f"{part:.0%}" for part in one["accepted_by_position"]) or "–",
            f"{one['pace']['tokens_per_second']:.0f}",
            f"{one['pace']['p50_ms']} / {one['pace']['p99_ms']} ms",
            str(one["pace"]["streams"]),
        ]
        for one in order
    ]
    return [row[: len(columns(receipt["target"]))] for row in found]
