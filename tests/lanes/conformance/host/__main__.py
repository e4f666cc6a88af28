# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.host PARSERS``: answers jobs, one JSON document a line.

Started by the tree adapter with a release's sources on ``PYTHONPATH``; PARSERS are the
options of the applications by reasoning parser, as JSON.
"""

import asyncio
import gc
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from conformance import case as cases
from conformance import lines


def knows(release: str, since: str) -> bool:
    """Return whether a release is not older than another; one without a number, a
    development tree, is new.
    """
    number = [int(n) for n in re.findall(r"\d+", release)[:3]]
    return not since or not number or number >= [int(n) for n in since.split(".")]


def begin() -> Callable[[Any], Any]:
    """Build an application for each reasoning parser, in one process: two workers
    then share any list of jobs evenly.
    """
    from conformance import tokens
    from conformance.host.engine import build, constrains_to_json
    from conformance.host.judge import Judge, results
    from conformance.surfaces import surfaces

    runner, folder = asyncio.Runner(), str(tokens.model_folder())
    judges = {}
    for reasoning, options in json.loads(sys.argv[1]).items():
        app = httpx.ASGITransport(runner.run(build(folder, reasoning, options)))
        client = httpx.AsyncClient(transport=app, base_url="http://tree", timeout=None)
        judges[reasoning] = Judge(client, json_calls=constrains_to_json())
    # As the release's own server does once it is up: what was imported is not looked at
    # again by every collection.
    gc.collect()
    gc.freeze()
    import vllm

    about = {
        "release": vllm.__version__,
        "tree": str(Path(vllm.__file__).parent.parent),
        "plugin": "vllm_qwen_tools.serving" in sys.modules,
    }

    def give(job: dict[str, Any]) -> dict[str, Any]:
        if not job:
            return about
        case = cases.parse(job["case"], job["name"])
        if job.get("readings"):
            (start,), (surface,) = job["starts"], job["surfaces"]
            judge = judges[cases.STARTS[start].reasoning]
            asked = judge.readings(surfaces()[surface], case, start, job["schedules"])
            read = {name: asdict(one) for name, one in runner.run(asked).items()}
            return {"name": case.name, "readings": read}
        known = knows(vllm.__version__, case.since)
        found = runner.run(results(judges, case, job)) if known else []
        return {"name": case.name, "results": found}

    return give


if __name__ == "__main__":
    lines.answer(begin)
