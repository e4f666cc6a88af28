# SPDX-License-Identifier: Apache-2.0
"""The state of a tree: what it was made of, kept in its ``.git``, and work in it."""

import json
import re
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from patchset import files, git
from patchset.errors import tail
from patchset.release import Sha256
from patchset.series.read import ENTRY, INPUT

#: Written into ``.git`` last: a tree without it was never finished.
_FILE = "patchset.json"
_MAX = 4 << 20

BRANCH = "main"

#: The reference in a tree that marks where a series begins.
STOCK_REF = "refs/patchset/stock"

#: What running the tree's code and tests leaves; nobody keeps work under these names.
_CACHES = re.compile(
    r"(^|/)(__pycache__/[^/]+\.(pyc(\.\d+)?|nb[ci])|\.(pytest|mypy|ruff)_cache/.*)$"
)

#: git's names of a commit and of a file's content.
Id = Annotated[str, Field(pattern=r"^[0-9a-f]{40}\Z")]
#: Names that lead to no other file.
Entry = Annotated[str, Field(pattern=rf"^(?:{ENTRY})\Z")]
Input = Annotated[str, Field(pattern=rf"^(?:{INPUT})\Z")]


class _Stamp(BaseModel):
    model_config = ConfigDict(frozen=True, regex_engine="python-re")


class StockState(_Stamp):
    """Of a stock tree: its only commit, and the source archive."""

    head: Id
    sdist: str
    sha256: Sha256

    @property
    def refs(self) -> set[str]:
        """The references that the tool made."""
        return {f"refs/heads/{BRANCH} {self.head}"}


class Port(_Stamp):
    """A rebase under way: the release it is from, and that one's commits."""

    source: str = Field(alias="from", pattern=r"^v[0-9][0-9a-z.]*\Z")
    commits: str = Field(alias="range", pattern=r"^[0-9a-f]{40}\.\.[0-9a-f]{40}\Z")


class State(_Stamp):
    """Of a patched tree: the commits that the tool made, and what of.

    ``inputs`` are the files that it was made of, by git's names of their contents;
    ``applied`` the entries that have a commit, ``pinned`` the sums that must come out.
    ``stopped``: git am waits, and nothing else is there.
    """

    head: Id
    stock: Id
    inputs: dict[Input, Id]
    applied: list[Entry]
    pinned: dict[str, Sha256] | None = None
    stopped: bool = False
    port: Port | None = None

    @property
    def refs(self) -> set[str]:
        """The references that the tool made."""
        return {f"refs/heads/{BRANCH} {self.head}", f"{STOCK_REF} {self.stock}"}


_Kind = TypeVar("_Kind", StockState, State)


def read(tree: Path, kind: type[_Kind]) -> _Kind | None:
    """Return a tree's state; None if it was not finished, or by another version."""
    try:
        return kind.model_validate_json(files.read_regular(tree / ".git" / _FILE, _MAX))
    except (OSError, ValidationError):
        return None


def write(tree: Path, state: StockState | State) -> None:
    """Keep the state of a tree in it."""
    said = state.model_dump(by_alias=True, exclude_defaults=True)
    files.write_text(tree / ".git" / _FILE, json.dumps(said, indent=1) + "\n")


def work_in(tree: Path, state: StockState | State | None) -> str:
    """Return the work in a tree that its state does not explain, in words; else ""."""
    try:
        return _work(tree, state) if tree.exists() else ""
    except git.GitError as error:
        return f"git cannot read it ({tail(error.stderr, 200)})"


def _work(tree: Path, state: StockState | State | None) -> str:
    if state is None:
        return "it has no stamp of the tool's"
    if git.text(tree, "rev-parse", "HEAD") != state.head:
        return "commits"
    if branch := other_branch(tree):
        return f"it is on {branch}, not on {BRANCH}"
    listed = git.text(tree, "for-each-ref", "--format=%(refname) %(objectname)")
    if others := sorted(set(filter(None, listed.split("\n"))) - state.refs):
        return ", ".join(line.split(" ")[0] for line in others[:5])
    places = ["worktrees", "rebase-merge", "MERGE_HEAD", "CHERRY_PICK_HEAD"]
    # Without edits, the tool's own stop holds nothing.
    stopped = isinstance(state, State) and state.stopped
    places += [] if stopped else ["rebase-apply"]
    for name in places:
        place = tree / ".git" / name
        if place.is_file() or (place.is_dir() and any(place.iterdir())):
            return f".git/{name}"
    # Lower case: assume-unchanged; S: skip-worktree. git status shows neither.
    for line in git.text(tree, "ls-files", "-v").split("\n"):
        if line and (line[0].islower() or line[0] == "S"):
            return f"{line[2:]}, which is hidden from git status"
    status = ("status", "--porcelain", "--ignored", "--untracked-files=all")
    changed = [line[3:] for line in git.text(tree, *status).splitlines()]
    return ", ".join([path for path in changed if not _CACHES.search(path)][:5])


def other_branch(tree: Path) -> str:
    """Return the branch that a tree is on, if it is not the tool's; else ""."""
    head = git.attempt(tree, "symbolic-ref", "--quiet", "HEAD").stdout.strip()
    branch = head.removeprefix("refs/heads/") or "no branch"
    return "" if branch == BRANCH else branch
