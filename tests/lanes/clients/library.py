"""``python -m clients.library NAME``: takes the runs of a Python library, one JSON document a line.

Runs in the environment that holds the libraries.
"""

from __future__ import annotations

import json
import os
import sys

from clients.agents import CLIENTS
from clients.client import Library


def main() -> None:
    """The loop. What a library prints must not mix with the answers."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    client = CLIENTS[sys.argv[1]]
    assert isinstance(client, Library)
    for line in sys.stdin:
        run = json.loads(line)
        os.chdir(run["folder"])
        try:
            result = {"answer": client.ask(run)}
        except Exception as error:  # whatever a client raises is its outcome
            result = {"error": f"{type(error).__name__}: {error}"[:2000]}
        out.write(json.dumps({"name": run["name"], **result}) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
