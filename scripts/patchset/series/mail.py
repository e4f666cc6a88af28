# SPDX-License-Identifier: Apache-2.0
"""A patch: its reason and its hunks, and the mail of both that git takes."""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from patchset.errors import PatchsetError
from patchset.release import VERSION

#: Begins each of several mails.
MAIL = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\n"

#: A path inside vLLM's tree: plain characters, no leading dot.
PATH = r"[0-9A-Za-z_][0-9A-Za-z_.+@-]*(?:/[0-9A-Za-z_.+@-]+)*"

#: Who writes the mails; a tree's commits may have any author.
AUTHOR = "vllm-mtp-patches <vllm-mtp-patches@localhost>"

#: A proof, relative to the checkout.
PROOF = r"tests/patches/test_\w+\.py"

#: The trailers of a patch: what each holds, as a pattern and in words. There may be
#: several proofs.
_TRAILERS = {
    "Upstream-Status": (
        rf"not submitted|pending|submitted #\d+|merged in v{VERSION}|"
        r"inappropriate \(.+\)",
        "not submitted, submitted #n, merged in vX, or inappropriate (why)",
    ),
    "Drop-When": (r".*", "a condition that can be checked"),
    "Proof": (PROOF, "tests/patches/test_NAME.py"),
}

#: Lines at which git am ends a message, or which it reads as headers.
_CUTS = re.compile(
    r"^(?:From |Index: |diff -|--- \S|---\s*$).*|\A(?i:From|Subject|Date):.*",
    re.MULTILINE,
)
_TRAILER = re.compile(r"([A-Z][A-Za-z]*(?:-[A-Za-z]+)*): (.*\S)")
#: The head of a file's change, and that of a hunk with the lines that it counts.
_HEAD = re.compile(
    rf"(?P<first>diff --git a/(?P<path>{PATH}) b/(?P=path)\n)"
    r"(?P<mode>(?P<kind>new|deleted) file mode 100(?:644|755)\n)?"
    r"(?:index [0-9a-f]+\.\.[0-9a-f]+(?: \d+)?\n)?"
    r"(?P<names>--- .*\n\+\+\+ .*\n)"
)
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@(?: .*)?")
_NO_NEWLINE = r"\ No newline at end of file"


class PatchFormatError(PatchsetError):
    """A diff is not as docs/patching.md says."""


@dataclass(frozen=True)
class Patch:
    """What one patch does to one release.

    ``body`` is the reason without the trailers, ``diff`` the text from the first
    ``diff --git``, and ``paths`` the files that it changes, relative to the tree.
    """

    name: str
    subject: str
    body: str
    trailers: tuple[tuple[str, str], ...]
    diff: str
    paths: tuple[str, ...]

    @property
    def reason(self) -> str:
        """The text of ``reason.md``."""
        return "\n\n".join([f"# {self.subject}", *self._message()]) + "\n"

    @property
    def proofs(self) -> tuple[str, ...]:
        """The proofs that it names, relative to the checkout."""
        return tuple(value for key, value in self.trailers if key == "Proof")

    def mail(self, *headers: str, extra: tuple[tuple[str, str], ...] = ()) -> str:
        """Return the whole mail; more headers and trailers are for git alone."""
        head = [f"From: {AUTHOR}", *headers, f"Subject: [PATCH] {self.subject}"]
        parts = ["\n".join(head), *self._message(*extra)]
        return "\n\n".join(parts) + f"\n\n{self.diff}"

    def _message(self, *extra: tuple[str, str]) -> list[str]:
        trailers = [f"{key}: {value}" for key, value in (*self.trailers, *extra)]
        return [part for part in (self.body, "\n".join(trailers)) if part]

    def faults(self) -> Iterator[str]:
        """Yield the faults of its message and trailers."""
        if not self.body:
            yield "it gives no reason"
        if cut := _CUTS.search(self.body):
            yield f"git am does not take {cut[0][:80]!r} for a line of the message"
        if re.search(r"^\+(<{7}|>{7})( |$)", self.diff, re.MULTILINE):
            yield "the diff adds a conflict marker"
        for name, (pattern, allowed) in _TRAILERS.items():
            values = [value for key, value in self.trailers if key == name]
            if not values:
                yield f"it has no trailer {name}"
            if len(values) > 1 and name != "Proof":
                yield f"the trailer {name} is there twice"
            bad = (value for value in values if not re.fullmatch(pattern, value))
            yield from (f"{name}: {value!r} is not {allowed}" for value in bad)
        unknown = [key for key, _ in self.trailers if key not in _TRAILERS]
        yield from (f"the trailer {key} is unknown" for key in unknown)


def stored(name: str, reason: bytes, diff: bytes, where: object) -> Patch:
    """Read a patch's ``reason.md`` and one of its diffs; an error names ``where``.

    Raises:
        PatchFormatError: the reason has no subject, or the diff is not a plain one.
    """
    with _format(where):
        head, _, rest = _lines(reason).strip("\n").partition("\n\n")
        if not (subject := re.fullmatch(r"# (\S.*)", head)):
            raise ValueError("a reason begins with the line '# SUBJECT'")
        body, trailers = _message(rest.strip("\n"))
        text, paths = plain(_lines(diff).rstrip("\n"))
        return Patch(name, subject[1], body, trailers, text, paths)


def committed(subject: bytes, message: bytes, diff: bytes, where: object) -> Patch:
    """Read a commit; the patch has no name yet.

    Raises:
        PatchFormatError: it has no subject, or its diff is not a plain one.
    """
    with _format(where):
        if not subject:
            raise ValueError("it has no subject")
        body, trailers = _message(message.decode().strip("\n"))
        text, paths = plain(_lines(diff).rstrip("\n"))
        return Patch("", subject.decode(), body, trailers, text, paths)


@contextlib.contextmanager
def _format(where: object) -> Iterator[None]:
    """Name the file or commit in which something is not as it should be."""
    try:
        yield
    except ValueError as error:
        raise PatchFormatError(
            f"{where}: {error}",
            "docs/patching.md shows a whole patch; git checkout brings a lost one back",
        ) from error


def _lines(raw: bytes) -> str:
    text = raw.decode("utf-8")
    if not text.endswith("\n"):
        raise ValueError("the last newline is missing, and perhaps more")
    if text.partition("\n")[0].endswith("\r"):
        raise ValueError("Windows line ends (CRLF)")
    return text


def _message(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    body, _, last = text.rpartition("\n\n")
    found = [_TRAILER.fullmatch(line) for line in last.split("\n")]
    if not all(found):
        return text, ()
    return body.strip("\n"), tuple((line[1], line[2]) for line in found if line)


def plain(diff: str) -> tuple[str, tuple[str, ...]]:
    """Return a diff without its index lines, and the files that it changes.

    Changes of text alone are taken: no renames, modes, links or binary files, whole
    hunks, and each file once.
    """
    kept: list[str] = []
    found: list[str] = []
    # In a hunk, each line has a mark before it.
    before, *changes = re.split(r"^(?=diff --git )", diff + "\n", flags=re.MULTILINE)
    if before or not changes:
        raise ValueError("it does not begin with the line 'diff --git …'")
    for change in changes:
        start, *hunks = re.split(r"^(?=@@ )", change, flags=re.MULTILINE)
        head = _HEAD.fullmatch(start)
        if head is None or not hunks:
            raise ValueError(f"{start[:80]!r} begins no change of a text file")
        path, kind = head["path"], head["kind"]
        old = "/dev/null" if kind == "new" else f"a/{path}"
        new = "/dev/null" if kind == "deleted" else f"b/{path}"
        if head["names"] != f"--- {old}\n+++ {new}\n":
            raise ValueError(f"{path}: the lines --- and +++ name another file")
        if path in found or ".." in path.split("/"):
            raise ValueError(f"{path} is changed twice, or leads out of the tree")
        for hunk in hunks:
            _check_hunk(hunk, path)
        kept += [head["first"], head["mode"] or "", head["names"], *hunks]
        found.append(path)
    return "".join(kept), tuple(found)


def _check_hunk(hunk: str, path: str) -> None:
    """Refuse a hunk whose head does not count its lines; git applies it in part."""
    head, *lines = hunk.removesuffix("\n").split("\n")
    marks = Counter(line[:1] for line in lines if line != _NO_NEWLINE)
    counted = _HUNK.fullmatch(head)
    old, new = (int(n or 1) for n in counted.groups()) if counted else (0, 0)
    if (marks[" "] + marks["-"], marks[" "] + marks["+"]) != (old, new) or (
        marks.keys() - {" ", "-", "+"}
    ):
        raise ValueError(f"{path}: {head} counts other lines than there are")
