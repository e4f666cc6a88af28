# SPDX-License-Identifier: Apache-2.0
"""Edits whose strings are a few lines of a document that quotes calls.

What an agent replaces in such a document is lines i to j of it, so a value may begin
in the middle of a quoted call and end in another.
"""

import re
from collections.abc import Callable, Iterator

from conformance.case import Call, Case
from conformance.corpora.case import followed

#: 17 lines, of which at most 9 are quoted: 117 fragments.
FIRST = """\
# Calling tools

The model lists a folder like this:

<tool_call>
<function=bash>
<parameter=command>
ls -la
</parameter>
</function>
</tool_call>

and reads a file:

<tool_call>
<function=read>
<parameter=file_path>"""

#: 22 lines, of which at most 8 are quoted: 148 fragments.
SECOND = """\
examples:
<tool_call>
<function=write>
<parameter=file_path>
notes/a.md
</parameter>
<parameter=content>
first line

second line
</parameter>
</function>
</tool_call>
- then clean up
<tool_call>
<function=bash>
<parameter=command>
rm -rf build
</parameter>
</function>
</tool_call>
Never run these."""

QUOTED = (
    Call("bash", {"command": "ls -la"}),
    Call("bash", {"command": "rm -rf build"}),
    Call("read", {"file_path": ""}),
    Call("write", {"file_path": "notes/a.md", "content": "first line\n\nsecond line"}),
)

FOLLOWS = {
    "end": ("", ()),
    "prose": ("\n\nThe document is up to date.", ()),
    "call": ("\n", (Call("bash", {"command": "git diff"}),)),
    "prose and call": ("\nLet me check.\n", (Call("bash", {"command": "git diff"}),)),
}

POSITIONS: dict[str, Callable[[str], Call]] = {
    "replaced": lambda text: Call(
        "edit",
        {"file_path": "README.md", "old_string": text, "new_string": "See the manual."},
    ),
    "edited": lambda text: Call(
        "edit",
        {"file_path": "README.md", "old_string": text, "new_string": f"{text}\nMore."},
    ),
    "last": lambda text: Call(
        "edit",
        {"file_path": "README.md", "old_string": "See the manual.", "new_string": text},
    ),
}

_CLOSERS = re.compile(r"(?:</parameter>\s*)?(?:</function>\s*)?(?:</tool_call>\s*)?\Z")


def fragments(document: str, most: int) -> Iterator[tuple[str, str]]:
    lines = document.split("\n")
    for first in range(len(lines)):
        for last in range(first + 1, min(first + most, len(lines)) + 1):
            yield f"{first + 1}-{last}", "\n".join(lines[first:last])


def _ambiguity(position: str, fragment: str) -> str:
    """Return whether a fragment's end looks like a closing sequence given twice."""
    if position == "replaced":
        return ""
    tail = fragment if position == "last" else ""
    match = _CLOSERS.search(tail)
    if match is None or not match[0].startswith("</parameter>"):
        return ""
    if tail[: match.start()].rfind("<parameter=") < 0:
        return "a closing sequence given twice, or the end of a fragment"
    return ""


def cases(document: str, most: int, position: str) -> Iterator[Case]:
    """Yield fragments of a document, at most so many lines each, in one position."""
    for follows, behind in FOLLOWS.items():
        for lines, fragment in fragments(document, most):
            outer = POSITIONS[position](fragment)
            yield followed(
                f"{position} / {follows} / lines {lines}",
                outer.rendered(),
                outer,
                behind,
                quoted=QUOTED,
                ambiguous=_ambiguity(position, fragment),
            )
