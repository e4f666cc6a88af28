# SPDX-License-Identifier: Apache-2.0
"""Ordinary outputs: one to three calls, in the spellings that models use.

Nothing in them is quoted, and stock v0.33.0 reads the calls of all of them but those
of ``spelling.BEYOND``. No rule may lose one, unless it is bare beside prose: whether
that is a call is left open since the bare calls are held.
"""

import itertools
from collections.abc import Iterator, Sequence

from conformance.case import Call, Case
from conformance.corpora import spelling as spellings
from conformance.corpora.case import make
from conformance.corpora.spelling import Spelling

SEPARATORS = {
    "newline": "\n",
    "blank line": "\n\n",
    "prose": "\nNow the second part.\n",
    "same line": "\nLet me look closer. ",
}
BEFORE = {
    "": "",
    "before": "I will do that.\n\n",
    "before, same line": "Let me look. ",
}
BEHIND = {"": "", "behind": "\n\nThat is all for now."}

FIRST = (
    Call("write", {"file_path": "src/app.py", "content": "import os\n\nprint(1)"}),
    Call("bash", {"command": "ls -la src", "description": "List the sources"}),
    Call("read", {"file_path": "README.md"}),
)
FIRST_OMITTED = (
    Call("write", {"file_path": "src/app.py"}),
    Call("bash", {"description": "List the sources"}),
    Call("read", {}),
)
SECOND = (
    Call(
        "edit",
        {
            "file_path": "web/index.html",
            "old_string": '<div class="a">\n  <p>x < y</p>\n</div>',
            "new_string": '<div class="b">\n\t<br/>\n</div>',
        },
    ),
    Call("note", {"title": "Höhe ≥ 3", "body": '{"a": [1, 2]}', "tags": "a, b"}),
    Call("bash", {"command": "cat <<'E'\n$x\nE", "timeout": 120}),
)
SECOND_OMITTED = (
    Call("edit", {"file_path": "web/index.html", "new_string": "<p>\nx\n</p>"}),
    Call("note", {"body": '{"a": [1, 2]}', "tags": "a, b"}),
    Call("bash", {"timeout": 120}),
)


def _outputs(
    calls: Sequence[Call],
    omitted: Sequence[Call],
    counts: Sequence[int],
    ways: Sequence[Spelling],
    separators: Sequence[str],
    before: Sequence[str],
) -> Iterator[Case]:
    for count, way, separator, omits, front, back in itertools.product(
        counts, ways, separators, (False, True), before, BEHIND
    ):
        if count == 1 and separator != separators[0]:
            continue
        chosen = (omitted if omits else calls)[:count]
        between = SEPARATORS.get(separator, "")
        if way is spellings.NO_ENDS and between.strip() and count > 1:
            continue  # only a call that follows at once shows where it ends
        output = between.join(way.write(call) for call in chosen)
        texts = [BEFORE[front], *[between] * (count - 1), BEHIND[back]]
        prose = BEHIND[back] or (count > 1 and between.strip())
        words = [
            str(count),
            way.name,
            separator,
            "omitted" if omits else "",
            front,
            back,
        ]
        yield make(
            name=" / ".join(word for word in words if word),
            output=BEFORE[front] + output + BEHIND[back],
            calls=tuple(chosen),
            ambiguous=spellings.EXAMPLE if prose and way.bare() else "",
            content=" ".join(texts),
        )


def first() -> Iterator[Case]:
    """Yield two or three calls in eleven spellings."""
    yield from _outputs(
        FIRST,
        FIRST_OMITTED,
        (2, 3),
        spellings.FIRST,
        ("newline", "prose", "same line"),
        ("", "before"),
    )


def more(ways: Sequence[Spelling]) -> Iterator[Case]:
    """Yield one to three calls in more spellings, joined and on the prose's line."""
    yield from _outputs(
        SECOND,
        SECOND_OMITTED,
        (1, 2, 3),
        ways,
        ("joined", "newline", "blank line", "prose", "same line"),
        tuple(BEFORE),
    )
