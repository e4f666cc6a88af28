# SPDX-License-Identifier: Apache-2.0
"""An edit of our own modules, put into a patched tree in a fraction of a second.

No patch changes a module, so each commit of the tree stays what it is but for them.
"""

import re
from pathlib import Path

from patchset import git
from patchset.series.read import MODULES, Series
from patchset.series.state import BRANCH, STOCK_REF, State

_COMMIT = re.compile(
    rb"tree (?P<tree>\w+)\nparent \w+\n(?P<people>author .*\ncommitter .*\n)\n"
)


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
    """Put modules into each commit of a tree's patches, and check the last one out.

    Returns the commit, which is the one that the series makes anew.
    """
    listed = git.text(tree, "rev-list", "--reverse", f"{STOCK_REF}..HEAD").split()
    raw = git.run(tree, "cat-file", "--batch", stdin="\n".join(listed).encode() + b"\n")
    stream = [
        _data(b"blob\nmark :%d\n" % mark, content)
        for mark, content in (enumerate(series.modules.values(), start=1))
    ]
    parent = git.text(tree, "rev-parse", STOCK_REF).encode()
    for mark, commit in enumerate(_commits(raw), start=len(series.modules) + 1):
        head = _COMMIT.match(commit)
        if head is None:
            raise ValueError("a commit of the tool's own has no such header")
        text = b"commit refs/heads/%s\nmark :%d\n%s" % (
            BRANCH.encode(),
            mark,
            head["people"],
        )
        stream.append(_data(text, commit[head.end() :]) + b"from %s\n" % parent)
        stream.append(b'M 040000 %s ""\n' % head["tree"])
        stream += [
            b"M 100644 :%d %s\n" % (number, path.encode())
            for number, path in enumerate(series.modules, start=1)
        ]
        parent = b":%d" % mark
    git.run(tree, "fast-import", "--quiet", "--force", stdin=b"".join(stream))
    git.run(tree, "reset", "--quiet", "--hard")
    return git.text(tree, "rev-parse", "HEAD")


def _commits(raw: bytes) -> list[bytes]:
    """Return the contents that ``git cat-file --batch`` prints."""
    found = []
    while raw:
        head, _, rest = raw.partition(b"\n")
        size = int(head.split(b" ")[2])
        found.append(rest[:size])
        raw = rest[size + 1 :]
    return found


def _data(head: bytes, content: bytes) -> bytes:
    return head + b"data %d\n%s\n" % (len(content), content)
