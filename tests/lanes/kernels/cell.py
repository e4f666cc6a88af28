# SPDX-License-Identifier: Apache-2.0
"""Kernels on a GPU, without a server: each version that a series has, stock and patched, against the reference.

A version runs in a process of its own: random batches, upstream's own tests of the file, then its time beside the
others'. Results are written after each, so that a machine that is lost takes one of them with it. Needs torch and
triton; upstream's tests need pytest as well, and are not run where it is missing. Exit status: 0 all is right; 1 something
is wrong; 4 the time was up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

TIME_UP = 4
_TEST = Path("tests/v1/worker/test_gpu_thinking_budget.py")
#: Requests of a timed step, and the drafts of each.
_REQUESTS, _DRAFTS = (64, 256), (0, 1, 2, 3, 4, 5)
_REPEATS = 50
_NOT_RUN = "not run"


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "versions",
        type=Path,
        help="the folder with versions.json and the files of each",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="where kernels.json is written"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60,
        help="how long it may take; default: %(default)s",
    )
    parser.add_argument(
        "--device",
        default="cuda",
        choices=("cuda", "cpu"),
        help="cpu: Triton's interpreter",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=60,
        help="runs of random batches; default: %(default)s",
    )
    parser.add_argument("--only", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.only:
        json.dump(_version(chosen.versions / chosen.only, chosen), sys.stdout)
        return 0
    deadline = time.monotonic() + chosen.seconds
    versions = json.loads(
        (chosen.versions / "versions.json").read_text(encoding="utf-8")
    )
    chosen.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"lane": "kernels", "versions": []}
    status = 0
    for version in versions:
        left = deadline - time.monotonic()
        if left < 5:
            status = TIME_UP
            break
        begun = time.monotonic()
        found = _in_process(version["name"], chosen, left)
        for key in ("device", "torch", "triton"):
            result[key] = found.pop(key, result.get(key))
        result["versions"].append(
            {**version, **found, "seconds": round(time.monotonic() - begun, 1)}
        )
        text = json.dumps(result, indent=1) + "\n"
        (chosen.out / "kernels.json").write_text(text, encoding="utf-8")
        upstream = found.get("upstream", {})
        failed = [
            name
            for name, said in upstream.items()
            if said != "passed" and not said.startswith(_NOT_RUN)
        ]
        wrong = found.get("wrong") or (
            f"upstream's {', '.join(failed)} failed" if failed else ""
        )
        print(
            f"{version['name']} ({', '.join(version['releases'])}): {wrong or 'right'}; {found.get('rows', 0)} rows, "
            f"{list(upstream.values()).count('passed')} of upstream's tests; {result['versions'][-1]['seconds']} s",
            flush=True,
        )
        status = max(status, 1 if wrong and status != TIME_UP else 0)
    return status


def _in_process(
    name: str, chosen: argparse.Namespace, seconds: float
) -> dict[str, Any]:
    command = [
        sys.executable,
        sys.argv[0],
        str(chosen.versions),
        "--only",
        name,
        "--out",
        str(chosen.out),
    ]
    command += ["--device", chosen.device, "--seeds", str(chosen.seeds)]
    environment = os.environ | (
        {"TRITON_INTERPRET": "1"} if chosen.device == "cpu" else {}
    )
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"wrong": f"no end after {seconds:.0f} s"}
    except (IndexError, ValueError):
        return {
            "wrong": f"it ended with status {done.returncode}: {done.stderr.strip()[-1500:]}"
        }
    return found


def _version(tree: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """What one version does; in a process of its own."""
    import torch
    import triton

    from kernels import batches, imports

    patched = tree.name.startswith("patched")
    module = imports.enter(tree, chosen.device)
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name()
        if chosen.device == "cuda"
        else "Triton's interpreter",
        "torch": torch.__version__,
        "triton": triton.__version__,
        "rows": 0,
    }
    try:
        for seed in range(chosen.seeds):
            index = (torch.int64, torch.int32)[seed % 2]
            markers = batches.MARKERS[seed % len(batches.MARKERS)]
            found["rows"] += batches.Batches(
                module, patched, chosen.device, seed, index, markers
            ).steps(10)
    except Exception:
        found["wrong"] = traceback.format_exc(limit=-3)[-1500:]
    found["upstream"] = _upstream(tree / _TEST, chosen.device)
    if chosen.device == "cuda" and "wrong" not in found:
        found["microseconds"] = _times(module, patched)
    return found


def _upstream(path: Path, device: str) -> dict[str, str]:
    """Run upstream's tests of the file, each function by its name."""
    import torch

    from kernels import imports

    try:
        import pytest
    except ImportError:
        return {"all": f"{_NOT_RUN}: this Python has no pytest"}
    if device == "cpu":
        torch.cuda.is_available = lambda: (
            True
        )  # the file asks, and is skipped otherwise
    try:
        module = imports.load(path, "upstream_tests")
    except (Exception, pytest.skip.Exception):
        return {"all": traceback.format_exc(limit=-2)[-1000:]}
    module.DEVICE = torch.device(device)  # type: ignore[attr-defined]
    said = {}
    for name, test in vars(module).items():
        if name.startswith("test_"):
            try:
                test()
                said[name] = "passed"
            except Exception:
                said[name] = traceback.format_exc(limit=-2)[-1000:]
    return said


def _times(module: Any, patched: bool) -> dict[str, float]:
    """Microseconds of one step of the sampler (both kernels, launches included), by "requests, drafts"."""
    import torch

    from kernels.batches import MARKERS, Batches

    times = {}
    for requests in _REQUESTS:
        batch = Batches(module, patched, "cuda", 0, slots=requests)
        batch.tokens[:] = 10
        batch.tokens[:, 100] = MARKERS[0].start[0]
        batch.lengths[:] = 4000
        for slot in range(requests):
            batch.add(slot, budget=2**20, tools=patched)
        batch.state.apply_staged_writes()
        for drafts in _DRAFTS:
            rows = [slot for slot in range(requests) for _ in range(drafts + 1)]
            positions = [count for _ in range(requests) for count in range(drafts + 1)]
            logits = torch.zeros((len(rows), 151_936), device="cuda")
            step = batch.prepared(
                logits, range(requests), rows, positions, [11] * len(rows)
            )
            for _ in range(5):
                step()
            taken = []
            for _ in range(_REPEATS):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                step()
                end.record()
                end.synchronize()
                taken.append(begin.elapsed_time(end) * 1000)
            times[f"{requests}, {drafts}"] = round(sorted(taken)[_REPEATS // 2], 1)
    return times


if __name__ == "__main__":
    sys.exit(main())
