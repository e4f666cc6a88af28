# SPDX-License-Identifier: Apache-2.0
"""``python -m clients.library NAME``: makes a client's runs, one JSON document a line.

Runs in the environment that holds the client, if it is a Python library.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from clients.agents import CLIENTS
from clients.client import Run
from conformance import lines


def begin() -> Callable[[Any], Any]:
    client = CLIENTS[sys.argv[1]]

    def make(told: dict[str, Any]) -> dict[str, str]:
        run = Run(**told)
        os.chdir(run.folder)
        try:
            answer = client.ask(run)
            whole = answer if isinstance(answer, str) else asyncio.run(answer)
            return {"answer": whole}
        except Exception as error:  # whatever a client raises is its outcome
            return {"error": f"{type(error).__name__}: {error}"[:2000]}

    return make


if __name__ == "__main__":
    lines.answer(begin)
