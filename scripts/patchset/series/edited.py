# SPDX-License-Identifier: Apache-2.0
"""An edit of our own modules, put into a patched tree in a fraction of a second.

No patch changes a module, so each commit of the tree stays what it is but for them.
"""

import re
from pathlib import Path

from patchset import git
from patchset.series.read import MODULES, Series
from patchset.series.state import STOCK_REF, State


def only_modules(made: State, wanted: State) -> bool:
    """Return whether a tree lacks nothing but the new content of modules."""
    names = {*made.inputs.items()} ^ {*wanted.inputs.items()}
    return (
        made.inputs.keys() == wanted.inputs.keys()
        and bool(names)
        and all(name.startswith(MODULES) for name, _ in names)
        and (made.stock, made.applied) == (wanted.stock, wanted.applied)
        and not (made.stopped or made.port)
    )


def rewrite(tree: Path, series: Series) -> str:
    """Put modules into the commit that adds them, and check the last one out.

    Returns the commit, which is the one that the series makes anew.
    """
    options = ("--no-data", "--reference-excluded-parents")
    stream = git.run(tree, "fast-export", *options, f"{STOCK_REF}..HEAD")
    for path, content in series.modules.items():
        name, blob = path.encode(), git.blob_id(content).encode()
        added = rb"(?m)^M 100644 [0-9a-f]{40} %s$" % re.escape(name)
        stream = re.sub(added, b"M 100644 %s %s" % (blob, name), stream)
        stream = b"blob\ndata %d\n%s\n%s" % (len(content), content, stream)
    git.run(tree, "fast-import", "--quiet", "--force", stdin=stream)
    git.run(tree, "reset", "--quiet", "--hard")
    return git.text(tree, "rev-parse", "HEAD")
