# SPDX-License-Identifier: Apache-2.0
"""Calls that leave something out, are spelled loosely, or close twice."""

import itertools
from collections.abc import Iterator

from conformance.case import Call, Case
from conformance.corpora import embeddings
from conformance.corpora import spelling as spellings
from conformance.corpora.case import make
from conformance.corpora.spelling import Spelling

NEXT = Call("bash", {"command": "git status"})
FOLLOWS = {
    "end": ("", ()),
    "prose": ("\n\nThat was it.", ()),
    "call": ("\n", (NEXT,)),
    "prose and call": ("\n\nThen the state.\n", (NEXT,)),
    "same tool": ("\n", ()),
}
QUOTE = f"Intro\n{spellings.CANONICAL.write(embeddings.QUOTED)}\nOutro"
WHOLE = {
    "write": {"file_path": "a.md", "content": "one\ntwo"},
    "edit": {"file_path": "a.md", "old_string": "one", "new_string": "two\nthree"},
}


def _case(name: str, text: str, call: Call, follows: str, **more: object) -> Case:
    """Return the text of a call, and what follows it."""
    between, calls = FOLLOWS[follows]
    if follows == "same tool":
        calls = (Call(call.name, WHOLE[call.name]),)
    return make(
        name=name,
        output=text + between + spellings.joined(calls, spellings.CANONICAL, "\n"),
        calls=(call, *calls),
        content=between,
        **more,  # type: ignore[arg-type]
    )


def omitted() -> Iterator[Case]:
    """Yield calls without one of their required parameters: 50."""
    for name, values in WHOLE.items():
        for key, kind, follows in itertools.product(
            values, ("plain", "quoting"), FOLLOWS
        ):
            left = {k: v for k, v in values.items() if k != key}
            if kind == "quoting":
                left[list(left)[-1]] = QUOTE
            call = Call(name, left)
            yield _case(
                f"{name} without {key} / {kind} / {follows}",
                spellings.CANONICAL.write(call),
                call,
                follows,
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
    for value, follows in itertools.product(VALUES, list(FOLLOWS)[:4]):
        call = Call("write", {"file_path": "a.md", "content": VALUES[value]})
        ambiguous = ""
        if "quoted" in value and spelling in _OPEN:
            ambiguous = "the block's closers or the call's"
        if follows.startswith("prose") and spelling is spellings.NO_ENDS:
            ambiguous = "nothing shows where the call ends"
        if follows.startswith("prose") and spelling.bare():
            ambiguous = spellings.EXAMPLE
        yield _case(
            f"{value} / {follows}",
            spelling.write(call),
            call,
            follows,
            quoted=(embeddings.QUOTED,) if "quoted" in value else (),
            ambiguous=ambiguous,
        )


_OPEN = (spellings.NO_ENDS, spellings.NO_PARAMETER_END)


def stutter() -> Iterator[Case]:
    """Yield closing tags and sequences given twice: 48."""
    call = Call("write", WHOLE["write"])
    text = spellings.CANONICAL.write(call)
    sequences = (
        ("</parameter>",),
        ("</function>",),
        ("</tool_call>",),
        ("</parameter>", "</function>"),
        ("</function>", "</tool_call>"),
        ("</parameter>", "</function>", "</tool_call>"),
    )
    for tags, gap, follows in itertools.product(
        sequences, ("", "\n"), list(FOLLOWS)[:4]
    ):
        sequence = "\n".join(tags)
        head, _, tail = text.rpartition(sequence)
        twice = gap.join((sequence, sequence))
        name = " / ".join((" ".join(tags), "joined" if not gap else "newline", follows))
        yield _case(name, head + twice + tail, call, follows)
