# SPDX-License-Identifier: Apache-2.0
"""``python -m engines.host``: the conformance suite's scripted server; for each job (a
case, a line of JSON) it writes what a chat client reads.

As ``conformance.host``, which judges by the case, but the verdict is left to the
caller. ``Host`` starts it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conformance.adapters import TESTS, TreeAdapter

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Host(TreeAdapter):
    """Runs this module in a vLLM tree.

    A result is a case's ``name`` and its ``readings`` by schedule.
    """

    parser = "qwen3_coder"

    def _start(self) -> subprocess.Popen[str]:
        sink = (
            self.log.open("a") if self.log else subprocess.DEVNULL
        )  # the child owns it
        return subprocess.Popen(
            [self.python, "-m", "engines.host", "--parser", self.parser],
            cwd=TESTS,
            env=self.environment(),
            text=True,
            encoding="utf-8",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
        )


async def readings(judge: Any, case: Any, names: list[str]) -> dict[str, Any]:
    """What a chat client reads of a case without a reasoning parser, by schedule;
    ``full`` is not streamed.
    """
    from conformance import schedule
    from conformance.surfaces import chat

    run = case.run("plain")
    ids, texts = judge.pieces(run, case)
    found, seen = {}, {}
    for name in names:
        widths = (
            (len(ids),) if name == "full" else schedule.named(name, len(ids)).widths
        )
        key = (name == "full", widths)
        if key not in seen:
            script = judge.script(ids, texts, widths, case.end, case.stop_string)
            seen[key] = await judge.ask(chat, case, run, script, stream=name != "full")
        found[name] = seen[key]
    return found


async def serve(parser: str, out: Any) -> None:
    """The job loop."""
    import vllm

    from conformance import case as cases
    from conformance import tokens
    from conformance.host.engine import build
    from conformance.host.judge import Judge

    judge = Judge(
        await build(str(tokens.model_folder()), "none", ["--tool-call-parser", parser])
    )
    ready = {"ready": vllm.__version__, "tree": str(Path(vllm.__file__).parent.parent)}
    print(json.dumps(ready), file=out, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        found = await readings(
            judge, cases.parse(job["case"], job["name"]), job["schedules"]
        )
        read = {name: asdict(reading) for name, reading in found.items()}
        print(json.dumps({"name": job["name"], "readings": read}), file=out, flush=True)


def main() -> None:
    """Entry point."""
    options = argparse.ArgumentParser(prog="engines.host")
    options.add_argument("--parser", required=True)
    parser = options.parse_args().parser
    # Whatever the release prints must not mix with the results.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asyncio.run(serve(parser, out))
    os._exit(0)  # the release leaves threads that would keep the process


if __name__ == "__main__":
    main()
