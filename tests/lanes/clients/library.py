"""``python -m clients.library NAME``: makes a client's runs, one JSON document a line.

Runs in the environment that holds the client, if it is a Python library.
"""

from __future__ import annotations

import json
import os
import sys

from clients.agents import CLIENTS
from clients.client import Run


def main() -> None:
    """The loop. What a library prints must not mix with the answers."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    client = CLIENTS[sys.argv[1]]
    for line in sys.stdin:
        run = Run(**json.loads(line))
        os.chdir(run.folder)
        try:
            result = {"answer": client.ask(run)}
        except Exception as error:  # whatever a client raises is its outcome
            result = {"error": f"{type(error).__name__}: {error}"[:2000]}
        out.write(json.dumps(result) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
