# SPDX-License-Identifier: Apache-2.0
"""Calls that leave something out, are spelled loosely, or close twice."""

import itertools
from collections.abc import Iterator

from conformance.case import Call, Case
from conformance.corpora import embeddings
from conformance.corpora import spelling as spellings
from conformance.corpora.case import followed
from conformance.corpora.spelling import Spelling

NEXT = Call("bash", {"command": "git status"})
FOLLOWS = {
    "end": ("", ()),
    "prose": ("\n\nThat was it.", ()),
    "call": ("\n", (NEXT,)),
    "prose and call": ("\n\nThen the state.\n", (NEXT,)),
}
QUOTE = f"Intro\n{embeddings.QUOTED.rendered()}\nOutro"
WHOLE = {
    "write": {"file_path": "a.md", "content": "one\ntwo"},
    "edit": {"file_path": "a.md", "old_string": "one", "new_string": "two\nthree"},
}


def omitted() -> Iterator[Case]:
    """Yield calls without one of their required parameters: 50."""
    for name, values in WHOLE.items():
        for key, kind, follows in itertools.product(
            values, ("plain", "quoting"), (*FOLLOWS, "same tool")
        ):
            left = {k: v for k, v in values.items() if k != key}
            if kind == "quoting":
                left[list(left)[-1]] = QUOTE
            call = Call(name, left)
            behind = FOLLOWS.get(follows, ("\n", (Call(name, values),)))
            yield followed(
                f"{name} without {key} / {kind} / {follows}",
                call.rendered(),
                call,
                behind,
                quoted=(embeddings.QUOTED,) if kind == "quoting" else (),
            )


VALUES = {
    "word": "word",
    "code": "def f(x):\n    return x < 3\n\n\nprint(f(2))",
    "quoted block": QUOTE,
    "quoted line": f"Run {spellings.ONE_LINE.write(embeddings.QUOTED)} now.",
    "mention": "It ends with `</parameter>` in the text.\nMore.",
    "markup": "<ul>\n  <li>a</li>\n</ul>",
    "empty": "",
}


def spelled(spelling: Spelling) -> Iterator[Case]:
    """Yield a spelling × value × what follows: 28."""
    for value, follows in itertools.product(VALUES, FOLLOWS):
        call = Call("write", {"file_path": "a.md", "content": VALUES[value]})
        ambiguous = ""
        if "quoted" in value and spelling in _OPEN:
            ambiguous = "the block's closers or the call's"
        if follows.startswith("prose") and spelling is spellings.NO_ENDS:
            ambiguous = "nothing shows where the call ends"
        if follows.startswith("prose") and spelling.bare():
            ambiguous = spellings.EXAMPLE
        yield followed(
            f"{value} / {follows}",
            spelling.write(call),
            call,
            FOLLOWS[follows],
            quoted=(embeddings.QUOTED,) if "quoted" in value else (),
            ambiguous=ambiguous,
        )


_OPEN = (spellings.NO_ENDS, spellings.NO_PARAMETER_END)


def stutter() -> Iterator[Case]:
    """Yield closing tags and sequences given twice: 48."""
    call = Call("write", WHOLE["write"])
    text = call.rendered()
    sequences = (
        ("</parameter>",),
        ("</function>",),
        ("</tool_call>",),
        ("</parameter>", "</function>"),
        ("</function>", "</tool_call>"),
        ("</parameter>", "</function>", "</tool_call>"),
    )
    for tags, gap, follows in itertools.product(sequences, ("", "\n"), FOLLOWS):
        sequence = "\n".join(tags)
        head, _, tail = text.rpartition(sequence)
        twice = gap.join((sequence, sequence))
        name = " / ".join((" ".join(tags), "joined" if not gap else "newline", follows))
        yield followed(name, head + twice + tail, call, FOLLOWS[follows])
