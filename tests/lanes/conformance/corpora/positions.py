# SPDX-License-Identifier: Apache-2.0
"""Calls by where they stand: in the reasoning, in examples of the answer, in prose.

What counts is harm: a call that the model only wrote about must not run, and one
that it made must not be lost.
"""

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from conformance.case import Call, Case
from conformance.corpora import spelling as spellings
from conformance.corpora.case import make

RUN = Call("bash", {"command": "rm -rf build"})
OTHER = Call("read", {"file_path": "README.md"})
UNDECLARED = Call("WebFetch", {"url": "https://example.org/", "prompt": "Sum up"})
REAL = Call("bash", {"command": "git status"})
PATCH = Call("apply_patch", {"patch": f"+{RUN.rendered()}\n+end"})

write = Call.rendered
line = spellings.ONE_LINE.write
ASK = "\n\nI have not run it. Shall I?"


def _text(name: str, output: str, *quoted: Call, **more: Any) -> Case:
    return make(name, output, (), quoted, content=output, **more)


def _thought(
    name: str,
    thought: str,
    answer: str,
    calls: tuple[Call, ...] = (),
    quoted: tuple[Call, ...] = (),
    content: str = "",
    **more: object,
) -> Case:
    return make(
        name,
        f"{thought}\n</think>\n\n{answer}",
        calls,
        quoted,
        content=content,
        reasoning=thought,
        in_reasoning=True,
        **more,  # type: ignore[arg-type]
    )


EXAMPLES: dict[str, Callable[[Call], str]] = {
    "fenced": lambda call: f"```\n{write(call)}\n```",
    "fenced, with a language": lambda call: f"```xml\n{write(call)}\n```",
    "fenced by tildes": lambda call: f"~~~\n{write(call)}\n~~~",
    "fenced in a list": lambda call: (
        "- like this:\n" + textwrap.indent(f"```\n{write(call)}\n```", "  ")
    ),
    "fenced in a quote": lambda call: textwrap.indent(f"```\n{write(call)}\n```", "> "),
    "fenced, one line": lambda call: f"```\n{line(call)}\n```",
    "fenced, bare": lambda call: f"```\n{spellings.BARE.write(call)}\n```",
    "indented": lambda call: textwrap.indent(write(call), "    "),
    "listed": lambda call: "- " + write(call).replace("\n", "\n  "),
    "block quote": lambda call: textwrap.indent(write(call), "> "),
    "inline code": lambda call: f"The call is `{line(call)}` then.",
    "inline code, lines": lambda call: f"The call is `{write(call)}` then.",
    "in quotes": lambda call: f'The call is "{line(call)}" then.',
    "in brackets": lambda call: f"The call ({line(call)}) is short.",
    "in a sentence": lambda call: f"Then {line(call)} would clean up.",
}


def examples() -> Iterator[Case]:
    """Yield examples in the answer, with something behind them."""
    for way, embed in EXAMPLES.items():
        for kind, call in {"declared": RUN, "undeclared": UNDECLARED}.items():
            shown = f"To clean up, call this:\n\n{embed(call)}"
            yield _text(f"{way} / {kind} / prose behind", shown + ASK, call)
            for what, between in (("call", "\n\n"), ("prose and call", ASK + "\n\n")):
                yield make(
                    f"{way} / {kind} / {what} behind",
                    shown + between + write(REAL),
                    (REAL,),
                    (call,),
                    content=shown + between,
                )
            yield _text(
                f"{way} / {kind} / two, prose behind",
                f"First:\n\n{embed(call)}\n\nThen:\n\n{embed(OTHER)}" + ASK,
                call,
                OTHER,
            )
    for way, embed in EXAMPLES.items():
        if not way.startswith("fenced"):
            continue
        yield _text(
            f"{way} / declared / at the end",
            f"Call this:\n\n{embed(RUN)}",
            RUN,
            ambiguous="an example, or a call that a careless model fenced",
        )


def reasoning() -> Iterator[Case]:
    real = (REAL,)
    rehearsals = {
        "canonical": f"I will call\n{write(REAL)}\nand look.",
        "last in the reasoning": f"I will call\n{write(REAL)}",
        "one line": f"I will call {line(REAL)} and look.",
        "fenced": f"I will call\n```\n{write(REAL)}\n```\nand look.",
        "indented": f"I will call\n{textwrap.indent(write(REAL), '  ')}\nand look.",
        "bare": f"I will call\n{spellings.BARE.write(REAL)}\nand look.",
        "another call": f"I could call\n{write(RUN)}\nbut that is wrong.",
        "two": f"First\n{write(RUN)}\nthen\n{write(REAL)}\nand look.",
        "undeclared": f"I could call\n{write(UNDECLARED)}\nbut cannot.",
        "mention": "I do not use `<tool_call><function=bash>` before I know more.",
        "mention of a tag": "A call begins with <tool_call> and a name.",
        "mention of a function": "I write <function=bash> and so on.",
        "opener alone on its lines": (
            "It begins\n<tool_call>\n<function=bash>\nand so on."
        ),
        "half a call": (
            "It begins\n<tool_call>\n<function=bash>\n<parameter=command>\nls\n"
            "and then I stop."
        ),
    }
    for way, thought in rehearsals.items():
        quoted = (RUN, REAL, UNDECLARED)
        yield _thought(
            f"{way} / then the call", thought, write(REAL), real, quoted=quoted
        )
        yield _thought(
            f"{way} / then prose and the call",
            thought,
            "I look.\n\n" + write(REAL),
            real,
            quoted=quoted,
            content="I look.",
        )
        yield _thought(
            f"{way} / then prose", thought, "Done.", quoted=quoted, content="Done."
        )
    for way, call in (("declared", REAL), ("undeclared", UNDECLARED)):
        for kind, text in (
            ("whole", write(call)),
            ("no </tool_call>", spellings.NO_END.write(call)),
            ("pretty-printed", spellings.PRETTY.write(call)),
            ("no </parameter>", spellings.NO_PARAMETER_END.write(call)),
            ("two", f"{write(call)}\n{write(OTHER)}"),
        ):
            yield make(
                f"{way} call at the end of the reasoning / {kind}",
                f"I look now.\n\n{text}",
                (call, OTHER) if kind == "two" else (call,),
                reasoning="I look now.",
                content="",
                in_reasoning=True,
            )
    yield make(
        "undeclared call at the end of the reasoning / behind an open fence",
        f"Like so:\n```\nls\n\nI look now.\n{write(UNDECLARED)}",
        (UNDECLARED,),
        reasoning="Like so:\n```\nls\n\nI look now.",
        content="",
        in_reasoning=True,
        ambiguous="an example in the fence, or the call",
    )
    yield make(
        "a value holds think tags",
        "I look.\n</think>\n\n"
        + write(Call("write", {"file_path": "a", "content": "<think>\nx\n</think>"})),
        (Call("write", {"file_path": "a", "content": "<think>\nx\n</think>"}),),
        reasoning="I look.",
        content="",
        in_reasoning=True,
    )
    held = Call("write", {"file_path": "a", "content": "Close with </think> then."})
    yield _thought(
        "a held block holds </think>",
        f"I would call\n{write(held)}\nand so on.",
        write(REAL),
        real,
        quoted=(held,),
        ambiguous="</think> in a quoted value, or the end of the reasoning",
    )


def prose() -> Iterator[Case]:
    """Yield mentions of tags in the answer, and calls that prose leads to."""
    mentions = {
        "a tag in backticks": "The tag `<function=bash>` opens a call.",
        "a tag": "The tag <function=bash> opens a call.",
        "a tag, in quotes": 'The tag "<function=bash>" opens a call.',
        "two tags": "It is `<tool_call><function=bash>` first.",
        "two tags, without backticks": "It is <tool_call><function=bash> first.",
        "<tool_call>": "Behind <tool_call> comes the name.",
        "tags on lines": "It begins with\n<tool_call>\n<function=bash>\nand goes on.",
        "a tag on its line": "It begins with\n<function=bash>\nand goes on.",
        "closers": "It ends with </parameter>, </function> and </tool_call> as ever.",
        "an undeclared tag": "The tag <function=WebFetch> opens a call.",
        "undeclared tags on lines": (
            "It begins with\n<tool_call>\n<function=WebFetch>\nand goes on."
        ),
        "half an undeclared block": (
            "It begins with\n<tool_call>\n<function=WebFetch>\n<parameter=url>\nx\n"
            "and goes on."
        ),
    }
    for way, text in mentions.items():
        yield _text(f"{way} / alone", text, RUN)
        yield _text(f"{way} / prose behind", f"{text}\n\nThat is all.", RUN)
        yield make(
            f"{way} / then the call",
            f"{text}\n\n{write(REAL)}",
            (REAL,),
            content=text,
        )
        yield make(
            f"{way} / then the call and prose",
            f"{text}\n\n{write(REAL)}\nDone.",
            (REAL,),
            content=f"{text} Done.",
        )
    for way, text in (
        ("whole", write(UNDECLARED)),
        ("no </tool_call>", spellings.NO_END.write(UNDECLARED)),
        ("pretty-printed", spellings.PRETTY.write(UNDECLARED)),
    ):
        yield make(f"undeclared call / {way}", text, (UNDECLARED,), content="")
        yield make(
            f"undeclared call behind prose / {way}",
            f"I look.\n\n{text}",
            (UNDECLARED,),
            content="I look.",
        )
        yield make(
            f"undeclared call, then a call / {way}",
            f"{text}\n{write(REAL)}",
            (UNDECLARED, REAL),
            content="",
        )
        yield make(
            f"undeclared call with prose behind / {way}",
            f"{text}\n\nThat is how one looks. Shall I?",
            (),
            (UNDECLARED,),
            content=f"{text}\n\nThat is how one looks. Shall I?",
        )
    yield make(
        "undeclared call behind an open fence",
        f"Like so:\n```\nls\n\nI look now.\n{write(UNDECLARED)}",
        (UNDECLARED,),
        content="Like so:\n```\nls\n\nI look now.",
        ambiguous="an example in the fence, or the call",
    )
    shown = f"This patch would do:\n\n{write(PATCH)}\n\nShall I?"
    yield _text("an undeclared block that is text quotes a call", shown, RUN, PATCH)
    shown = f"This patch would do:\n\n{spellings.PRETTY.write(PATCH)}\n\nShall I?"
    yield _text("the same, pretty-printed", shown, RUN, PATCH)
    yield make(
        "an undeclared call that quotes a call",
        f"I patch it.\n\n{write(PATCH)}",
        (PATCH,),
        (RUN,),
        content="I patch it.",
    )
    for way, before in (
        ("on the line of the prose", "Let me look. "),
        ("behind a colon", "I look:"),
        ("behind a list", "1. look\n2. act\n\n"),
        ("behind a closed fence", "Like so:\n```\nls\n```\n"),
        ("behind a table", "| a |\n|---|\n| b |\n\n"),
        ("behind inline code", "I use `ls` for it. "),
    ):
        for count, calls in (("one", (REAL,)), ("two", (REAL, OTHER))):
            text = "\n".join(write(call) for call in calls)
            yield make(f"{way} / {count}", before + text, calls, content=before)
            yield make(
                f"{way} / {count}, prose behind",
                f"{before}{text}\n\nThat is it.",
                calls,
                content=f"{before} That is it.",
            )
    yield make(
        "two calls with prose between",
        f"{write(REAL)}\nNow the file.\n{write(OTHER)}",
        (REAL, OTHER),
        content="Now the file.",
    )
    both = '{"name": "bash", "arguments": {"command": "ls"}}'
    yield make(
        "a call written as JSON",
        f"<tool_call>\n{both}\n</tool_call>",
        (Call("bash", {"command": "ls"}),),
        content="",
    )
    yield make(
        "two calls written as JSON",
        f"I look.\n<tool_call>\n{both}\n</tool_call>\n"
        f"<tool_call>\n{both}\n</tool_call>",
        (Call("bash", {"command": "ls"}), Call("bash", {"command": "ls"})),
        content="I look.",
    )
    yield _text(
        "a call written as JSON, prose behind",
        f"<tool_call>\n{both}\n</tool_call>\nis the old form.",
        Call("bash", {"command": "ls"}),
    )


def closers() -> Iterator[Case]:
    """Yield closers that a model forgot before the next call."""
    first = Call("write", {"file_path": "a.md", "content": "abc"})
    head = (
        "<tool_call>\n<function=write>\n<parameter=file_path>\na.md\n</parameter>\n"
        "<parameter=content>\nabc"
    )
    for way, tail in (
        ("both ends", "\n</parameter>"),
        ("</function>", "\n</parameter>\n</tool_call>"),
        ("</tool_call>", "\n</parameter>\n</function>"),
        ("</parameter>", "\n</function>\n</tool_call>"),
    ):
        yield make(
            f"{way} forgotten before a call",
            f"{head}{tail}\n{write(REAL)}",
            (first, REAL),
            content="",
        )
        yield make(f"{way} forgotten at the end", head + tail, (first,), content="")
