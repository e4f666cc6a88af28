"""``python -m conformance.host``: reads jobs, one JSON document a line, writes results
likewise.

Started by the tree adapter with a release's sources on ``PYTHONPATH``. What the release
prints goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def knows(release: str, since: str) -> bool:
    """Whether a release is not older than another; one without a number, a
    development tree, is new.
    """
    number = [int(n) for n in re.findall(r"\d+", release)[:3]]
    return not since or not number or number >= [int(n) for n in since.split(".")]


def pair(words: str) -> list[str]:
    """The server's options for ``REASONING/TOOL``."""
    reasoning, tool = words.split("/")
    return ["--reasoning-parser", reasoning, "--tool-call-parser", tool]


async def serve(options: argparse.Namespace, out: Any) -> None:
    """The job loop."""
    from conformance import case as cases
    from conformance import tokens
    from conformance.host.engine import build, constrains_to_json
    from conformance.host.judge import Judge
    from conformance.surfaces import surfaces

    def write(document: dict[str, Any]) -> None:
        out.write(json.dumps(document, ensure_ascii=True) + "\n")
        out.flush()

    began = time.monotonic()
    folder = str(tokens.model_folder())
    # One application for each reasoning parser, in one process: two workers then share
    # any list of jobs evenly.
    pair = {"qwen3": options.pair}
    apps = {
        r: await build(folder, r, pair.get(r, [])) for r in options.reasoning.split(",")
    }
    judges = {r: Judge(app, json_calls=constrains_to_json()) for r, app in apps.items()}
    # As the release's own server does once it is up: what was imported is not looked at
    # again by every collection.
    gc.collect()
    gc.freeze()
    import vllm

    ways = surfaces()
    write(
        {
            "ready": vllm.__version__,
            "tree": str(Path(vllm.__file__).parent.parent),
            "plugin": "vllm_qwen_tools.serving" in sys.modules,
            "seconds": round(time.monotonic() - began, 1),
        }
    )
    for line in sys.stdin:
        job = json.loads(line)
        if job.get("readings"):
            from conformance.corpora.served import readings

            write(await readings(judges, ways, job))
            continue
        case = cases.parse(job["case"], job["name"])
        results = []
        began = time.monotonic()
        before = sum(j.streams for j in judges.values())
        for name in job["surfaces"] if knows(vllm.__version__, case.since) else ():
            for start in job["starts"]:
                judge = judges[cases.STARTS[start].reasoning]
                results.append(
                    await judge.run(
                        ways[name],
                        case,
                        start,
                        names=job.get("schedules"),
                        full=job.get("full", False),
                        seeds=job.get("seeds", 1),
                        pattern=job.get("pattern"),
                    )
                )
        write(
            {
                "name": case.name,
                "results": results,
                "streams": sum(j.streams for j in judges.values()) - before,
                "seconds": round(time.monotonic() - began, 3),
            }
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="conformance.host")
    parser.add_argument(
        "--reasoning", default="none,qwen3", help="reasoning parsers, comma-separated"
    )
    parser.add_argument(
        "--pair", default=[], type=pair, help="parsers in place of qwen3, qwen3_coder"
    )
    options = parser.parse_args()
    # Whatever the release prints must not mix with the results.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asyncio.run(serve(options, out))
    out.flush()
    os._exit(0)  # the release leaves threads that would keep the process


if __name__ == "__main__":
    main()
