# SPDX-License-Identifier: Apache-2.0
"""A patch as a mail: what ``git am`` takes and ``git format-patch`` writes."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.version import Version

from patchset.errors import PatchsetError

#: A path inside vLLM's tree: plain characters, no leading dot.
PATH = r"[0-9A-Za-z_][0-9A-Za-z_.+@-]*(?:/[0-9A-Za-z_.+@-]+)*"

_RELEASE = r"v\d+(\.\d+)+"
#: The trailers of a patch: what each holds, as a pattern and in words.
_REQUIRED = {
    "Upstream-Status": (
        rf"not submitted|pending|submitted #\d+|merged in {_RELEASE}|inappropriate \(.+\)",
        "not submitted, submitted #n, merged in vX, or inappropriate (why)",
    ),
    "Drop-When": (r".*", "a condition that can be checked"),
    "Proof": (r"tests/patches/test_\w+\.py", "tests/patches/test_NAME.py"),
}
_OPTIONAL = {
    "Signed-off-by": (r".+ <.+>", "NAME <ADDRESS>"),
    "Co-authored-by": (r".+ <.+>", "NAME <ADDRESS>"),
}
#: May be given several times.
_REPEATED = {"Proof", "Signed-off-by", "Co-authored-by"}

_DIFF = re.compile(r"^diff --git ", re.MULTILINE)
_MESSAGE_END = re.compile(r"^(?:---$|diff --git )", re.MULTILINE)
_TRAILER = re.compile(r"([A-Z][A-Za-z]*(?:-[A-Za-z]+)*): (.*\S)")
_INDEX = re.compile(r"index [0-9a-f]+\.\.[0-9a-f]+(?: \d+)?")
_HUNK = r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@(?: .*)?"
_NO_NEWLINE = r"\\ No newline at end of file"
#: What ends the name of a diff of which there are several, each for some releases.
_OLDEST = re.compile(r"-v\d+(\.\d+)+$")


class PatchFormatError(PatchsetError):
    """A diff is not as docs/patching.md says."""


@dataclass(frozen=True)
class Patch:
    """One diff of a series.

    ``entry`` is its line in the series, ``body`` the reason without the trailers,
    ``diff`` the text from the first ``diff --git``, and ``paths`` the files that it
    changes, relative to the tree.
    """

    entry: str
    author: str
    subject: str
    body: str
    trailers: tuple[tuple[str, str], ...]
    diff: str
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file name without folder, suffix and oldest release."""
        return patch_name(self.entry)

    @property
    def message(self) -> tuple[object, ...]:
        """All of it but the diff."""
        return self.author, self.subject, self.body, self.trailers

    @property
    def proofs(self) -> tuple[str, ...]:
        """The proofs that it names, relative to the checkout."""
        return tuple(value for key, value in self.trailers if key == "Proof")

    @property
    def status(self) -> str:
        """The value of ``Upstream-Status``."""
        return dict(self.trailers).get("Upstream-Status", "")

    @property
    def merged_in(self) -> Version | None:
        """The first release of vLLM that has the change, if the status names one."""
        prefix = "merged in v"
        merged = self.status.startswith(prefix)
        return Version(self.status.removeprefix(prefix)) if merged else None

    def text(self, *headers: str, extra: tuple[tuple[str, str], ...] = ()) -> str:
        """The whole mail; more headers and trailers are for git alone."""
        head = [f"From: {self.author}", *headers, f"Subject: [PATCH] {self.subject}"]
        foot = [f"{key}: {value}" for key, value in (*self.trailers, *extra)]
        parts = ["\n".join(head), *filter(None, [self.body, "\n".join(foot)])]
        return "\n\n".join(parts) + f"\n\n{self.diff}"

    def faults(self) -> Iterator[str]:
        """The faults of its subject, body and trailers."""
        if not self.subject:
            yield "the mail has no subject"
        if not self.body:
            yield "the message gives no reason"
        if re.search(r"^From ", self.body, re.MULTILINE):
            yield "a line of the message begins with 'From ', which ends a mail"
        if re.search(r"^\+(<{7}|>{7})( |$)", self.diff, re.MULTILINE):
            yield "the diff adds a conflict marker"
        keys = [key for key, _ in self.trailers]
        for name in _REQUIRED:
            if name not in keys:
                yield f"the message has no trailer {name}"
        for name, value in self.trailers:
            pattern, allowed = (_REQUIRED | _OPTIONAL).get(name, (None, ""))
            if pattern is None:
                yield f"the trailer {name} is unknown"
            elif not re.fullmatch(pattern, value):
                yield f"{name}: {value!r} is not {allowed}"
        for name in sorted({name for name in keys if keys.count(name) > 1}):
            if name not in _REPEATED:
                yield f"the trailer {name} is there twice"


def patch_name(entry: str) -> str:
    """The name of a patch, from its line in a series."""
    return _OLDEST.sub("", PurePosixPath(entry).name.removesuffix(".diff"))


def parse(raw: bytes, where: object, entry: str) -> Patch:
    """Read one mail; ``where`` is what an error calls it.

    Raises:
        PatchFormatError: it is not a mail with a plain text diff.
    """
    try:
        text = raw.decode("utf-8")
        if not text.endswith("\n"):
            raise ValueError("the last newline is missing, and perhaps more")
        if text.partition("\n")[0].endswith("\r"):
            raise ValueError("Windows line ends (CRLF)")
        mail = email.message_from_string(text, policy=email.policy.default)
        author, subject = (str(mail[name] or "") for name in ("From", "Subject"))
        if not re.fullmatch(r"[^<>\n]+ <[^<>\s]+>", author) or not subject:
            raise ValueError("it has no From: NAME <ADDRESS>, or no Subject")
        rest = text.partition("\n\n")[2]
        start, end = _DIFF.search(rest), _MESSAGE_END.search(rest)
        if start is None or end is None:
            raise ValueError("no diff follows the message")
        body, trailers = _message(rest[: end.start()].strip("\n"))
        diff, paths = plain(rest[start.start() :].rstrip("\n"))
    except ValueError as error:
        raise PatchFormatError(
            f"{where}: {error}",
            "docs/patching.md shows a whole patch; git checkout brings a lost one back",
        ) from error
    subject = re.sub(r"^\[PATCH[^\]]*\] ", "", subject)
    return Patch(entry, author, subject, body, trailers, diff, paths)


def _message(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The body of a message, and the trailers of its last paragraph."""
    body, _, last = text.rpartition("\n\n")
    found = [_TRAILER.fullmatch(line) for line in last.split("\n")]
    if not all(found):
        return text, ()
    return body.strip("\n"), tuple((line[1], line[2]) for line in found if line)


def plain(diff: str) -> tuple[str, tuple[str, ...]]:
    """A diff without its index lines, and the files that it changes.

    Changes of text alone are taken: no renames, modes, links or binary files, whole
    hunks, and each file once.
    """
    lines = diff.split("\n")
    kept: list[str] = []
    found: list[str] = []
    at = 0

    def take(pattern: str) -> re.Match[str] | None:
        nonlocal at
        match = re.fullmatch(pattern, lines[at]) if at < len(lines) else None
        if match:
            kept.append(lines[at])
            at += 1
        return match

    while at < len(lines):
        named = take(rf"diff --git a/({PATH}) b/\1")
        if named is None:
            raise ValueError(f"{lines[at][:80]!r} begins no file of the diff")
        path = named[1]
        if path in found or ".." in path.split("/"):
            raise ValueError(f"{path} is changed twice, or leads out of the tree")
        found.append(path)
        mode = take(r"(new|deleted) file mode 100(644|755)")
        if at < len(lines) and _INDEX.fullmatch(lines[at]):
            at += 1
        before = "/dev/null" if mode and mode[1] == "new" else f"a/{path}"
        after = "/dev/null" if mode and mode[1] == "deleted" else f"b/{path}"
        if not take(re.escape(f"--- {before}")) or not take(re.escape(f"+++ {after}")):
            raise ValueError(f"{path}: not a plain change of a text file")
        hunk = take(_HUNK)
        if hunk is None:
            raise ValueError(f"{path}: the diff has no hunk")
        while hunk is not None:
            _take_hunk(hunk, take, path)
            hunk = take(_HUNK)
    return "\n".join(kept) + "\n", tuple(found)


def _take_hunk(
    hunk: re.Match[str], take: Callable[[str], re.Match[str] | None], path: str
) -> None:
    """Take the lines that a hunk's header counts, not one more or less."""
    old, new = (int(count or 1) for count in hunk.groups())
    while old > 0 or new > 0:
        line = take(r"([ +-])(?s:.*)")
        if line is None:
            raise ValueError(f"{path}: {hunk[0]} counts more lines than there are")
        old -= line[1] != "+"
        new -= line[1] != "-"
        take(_NO_NEWLINE)
    if old or new:
        raise ValueError(f"{path}: {hunk[0]} counts other lines than there are")
