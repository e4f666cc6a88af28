"""Reasoning and its borders (D1, D10, E6, E7, E11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.case import Case
from conformance.writers import call, made

BLOCK = call("read", ("path", "/x"))
OTHER = call("search", ("q", "x"))
READ = ("read", {"path": "/x"})


def cases() -> Iterator[Case]:
    """``open``: the prompt opened the reasoning; ``bare``: the output does; ``sealed``: the prompt closed it."""
    d10, d1 = "D10: #43938, #49412", "D1: #56658"

    def opened(
        name: str,
        description: str,
        output: str,
        reasoning: str,
        content: str = "",
        **kw: Any,
    ) -> Case:
        kw.setdefault("source", d10)
        return made(
            f"reasoning/{name}",
            description,
            output,
            reasoning=reasoning,
            content=content,
            starts=["open"],
            **kw,
        )

    yield opened(
        "answer",
        "reasoning, then an answer",
        "I think.\n</think>\n\nHello.",
        "I think.\n",
        "\n\nHello.",
    )
    yield opened(
        "no-gap",
        "reasoning and answer without white space between",
        "I think.</think>Hello.",
        "I think.",
        "Hello.",
    )
    yield opened(
        "call",
        "reasoning, then a call",
        f"I must read.\n</think>\n\n{BLOCK}",
        "I must read.\n",
        calls=[READ],
    )
    yield opened(
        "call-no-gap",
        "reasoning, then a call without white space between",
        f"I must read.</think>{BLOCK}",
        "I must read.",
        calls=[READ],
    )
    yield opened(
        "answer-call",
        "reasoning, an answer, a call",
        f"Hm.\n</think>\n\nReading.\n\n{BLOCK}",
        "Hm.\n",
        "\n\nReading.",
        calls=[READ],
    )
    yield opened(
        "call-answer",
        "reasoning, a call, an answer",
        f"Hm.\n</think>\n\n{BLOCK}\nRead.",
        "Hm.\n",
        "Read.",
        calls=[READ],
    )
    yield opened(
        "two-calls",
        "reasoning, then two calls",
        f"Hm.\n</think>\n\n{BLOCK}\n{BLOCK}",
        "Hm.\n",
        calls=[READ, READ],
    )
    yield opened("empty", "an empty reasoning", "</think>\n\nHello.", "", "\n\nHello.")
    yield opened(
        "newline-only",
        "a reasoning that is a newline",
        "\n</think>\n\nHello.",
        "\n",
        "\n\nHello.",
    )
    yield opened(
        "white-space-kept",
        "white space at the reasoning's ends is kept",
        "\n  I think.  \n\n</think>\nHello.\n",
        "\n  I think.  \n\n",
        "\nHello.\n",
    )
    yield opened(
        "unicode",
        "unicode on both sides of the border",
        "Denke 🤔漢</think>字 🙂 fertig",
        "Denke 🤔漢",
        "字 🙂 fertig",
    )
    yield opened(
        "never-closed",
        "reasoning that never ends",
        "I think and think.",
        "I think and think.",
    )
    yield opened(
        "never-closed-cut",
        "reasoning cut by the length limit",
        "I think and",
        "I think and",
        end="length",
    )
    yield opened(
        "closed-at-end",
        "nothing after the reasoning",
        "I think.\n</think>",
        "I think.\n",
    )
    yield opened(
        "closed-twice",
        "a </think> in the answer is content",
        "I think.\n</think>\n\nHello.</think> More.",
        "I think.\n",
        "\n\nHello.</think> More.",
        source="format: think tags",
    )
    yield opened(
        "multi-line",
        "a long reasoning with lists",
        "1. a\n2. b\n\n" * 10 + "</think>\n\nDone.",
        "1. a\n2. b\n\n" * 10,
        "\n\nDone.",
    )
    yield opened(
        "less-than",
        "signs that begin no tag",
        "a < b, </thin, <thinking>\n</think>\n\nx < y",
        "a < b, </thin, <thinking>\n",
        "\n\nx < y",
    )
    for name, text in (
        ("tool-call", "I could write <tool_call> here."),
        ("tool-call-line", "It begins so:\n<tool_call>\nand so on."),
        ("pair", "Between <tool_call> and </tool_call>."),
        ("closing-tags", "After </parameter></function> comes </tool_call>."),
        ("undeclared-call", f"Perhaps\n{OTHER}\nor not."),
        ("function-name", "Is it <function=search> or what?"),
        ("template", call("NAME", ("KEY", "VALUE"))),
    ):
        yield opened(
            f"mentions-{name}-answer",
            f"reasoning that mentions markup ({name}), then an answer",
            f"{text}\n</think>\n\nHello.",
            f"{text}\n",
            "\n\nHello.",
            source=d1,
            cls="must-not",
        )
        yield opened(
            f"mentions-{name}-call",
            f"reasoning that mentions markup ({name}), then a call",
            f"{text}\n</think>\n\n{BLOCK}",
            f"{text}\n",
            source=d1,
            calls=[READ],
        )
    yield opened(
        "mentions-tool-call-never-closed",
        "reasoning that mentions markup and never ends",
        "Should I <tool_call> now? I wonder.",
        "Should I <tool_call> now? I wonder.",
        source=d1,
        cls="must-not",
    )
    yield opened(
        "ends-with-tag",
        "reasoning that ends with a literal tag",
        "The tag is <tool_call></think>\n\nHello.",
        "The tag is <tool_call>",
        "\n\nHello.",
        source=d1,
        cls="must-not",
    )
    yield from _implicit(opened)
    yield from _other_starts()


def _implicit(opened) -> Iterator[Case]:  # type: ignore[no-untyped-def]
    """A whole call in the reasoning with nothing but white space and calls behind it ends the reasoning; any other is text."""
    e6 = "E6; format: a call that begins inside <think> ends the reasoning"
    held = "E6; format: a call in the reasoning counts only at the end"
    yield opened(
        "call-inside",
        "a call without </think> before it",
        f"I read it.\n{BLOCK}",
        "I read it.",
        source=e6,
        calls=[READ],
    )
    yield opened(
        "call-inside-no-gap",
        "a call directly in the reasoning",
        f"I read it.{BLOCK}",
        "I read it.",
        source=e6,
        calls=[READ],
    )
    yield opened(
        "call-inside-first",
        "a call with no reasoning at all",
        BLOCK,
        "",
        source=e6,
        calls=[READ],
        opens_with="call",
    )
    yield opened(
        "call-inside-two",
        "two calls without </think>",
        f"Both.\n{BLOCK}\n{BLOCK}",
        "Both.",
        source=e6,
        calls=[READ, READ],
    )
    yield opened(
        "call-inside-text-after",
        "a call in the reasoning with prose behind it is text",
        f"I read it.\n{BLOCK}\nRead.",
        f"I read it.\n{BLOCK}\nRead.",
        source=held,
        cls="must-not",
    )
    yield opened(
        "call-inside-end-after",
        "a call in the reasoning, then </think> and an answer, is text",
        f"I read it.\n{BLOCK}\n</think>\n\nRead.",
        f"I read it.\n{BLOCK}\n",
        "\n\nRead.",
        source=held,
        cls="must-not",
    )
    for name, between in (("rehearsed", "\nThat is it."), ("rehearsed-directly", "")):
        yield opened(
            f"call-{name}",
            f"a call rehearsed in the reasoning{' with prose' if between else ''}, then the real one: it runs once",
            f"I write\n{BLOCK}{between}\n</think>\n\n{BLOCK}",
            f"I write\n{BLOCK}{between}\n",
            source=held,
            calls=[READ],
        )
    yield opened(
        "mentions-opener-of-call",
        "reasoning that names the opening tags of a tool",
        "I do not use `<tool_call><function=read>` here.\n</think>\n\nNo.",
        "I do not use `<tool_call><function=read>` here.\n",
        "\n\nNo.",
        source=held,
        cls="must-not",
    )
    yield opened(
        "call-inside-cut",
        "a call inside the reasoning, cut by the length limit, is text",
        "Hm.\n<tool_call>\n<function=read>\n<parameter=path>\n/x/y",
        "Hm.\n<tool_call>\n<function=read>\n<parameter=path>\n/x/y",
        source=held,
        end="length",
        cls="must-not",
    )
    yield opened(
        "known-call-quoted",
        "a complete quoted call to a known tool in the reasoning is text",
        f"I might say\n{BLOCK}\nbut no.\n</think>\n\nHello.",
        f"I might say\n{BLOCK}\nbut no.\n",
        "\n\nHello.",
        source=held,
        cls="must-not",
    )


def _other_starts() -> Iterator[Case]:
    """The output opens the reasoning itself; the prompt has closed it; there is no reasoning parser."""
    d6 = "decision 6: reasoning"
    yield made(
        "reasoning/opens-itself",
        "the output opens the reasoning",
        "<think>\nI think.\n</think>\n\nHello.",
        source=d6,
        reasoning="\nI think.\n",
        content="\n\nHello.",
        starts=["bare"],
    )
    yield made(
        "reasoning/opens-itself-call",
        "the output opens the reasoning, then calls",
        f"<think>\nI think.\n</think>\n\n{BLOCK}",
        source=d6,
        reasoning="\nI think.\n",
        calls=[READ],
        starts=["bare"],
    )
    yield made(
        "reasoning/opens-itself-empty",
        "the output opens and closes an empty reasoning",
        "<think>\n\n</think>\n\nHello.",
        source=d6,
        reasoning="\n\n",
        content="\n\nHello.",
        starts=["bare"],
    )
    for name, text in (
        ("sentence", "Hello, no thinking here."),
        ("markup", "The tag <tool_call> begins a call."),
        ("lines", "\nOne.\n\nTwo.\n"),
    ):
        yield made(
            f"reasoning/sealed-{name}",
            f"the prompt closed the reasoning, the request did not say so: {name}",
            text,
            source="E11",
            content=text,
            starts=["sealed"],
            cls="must-not",
        )
    yield made(
        "reasoning/sealed-call",
        "the prompt closed the reasoning, the request did not say so: a call",
        f"Reading.\n\n{BLOCK}",
        source="E11",
        content="Reading.",
        calls=[READ],
        starts=["sealed"],
    )
    yield made(
        "reasoning/sealed-two-calls",
        "the prompt closed the reasoning, the request did not say so: two calls",
        f"{BLOCK}\n{BLOCK}",
        source="E11",
        calls=[READ, READ],
        starts=["sealed"],
    )
    text = "<think>\nHm, <tool_call>?\n</think>\n\nHello."
    yield made(
        "reasoning/no-parser",
        "without a reasoning parser the think tags are text",
        text,
        source=d6,
        content=text,
        starts=["plain"],
        cls="must-not",
    )
    yield made(
        "reasoning/no-parser-call",
        "without a reasoning parser the think tags are text, the call is a call",
        f"<think>\nHm.\n</think>\n\n{BLOCK}",
        source=d6,
        content="<think>\nHm.\n</think>",
        calls=[READ],
        starts=["plain"],
    )
    yield made(
        "reasoning/no-parser-open",
        "the prompt opened the reasoning and nobody parses it",
        f"Hm.\n</think>\n\n{BLOCK}",
        source=d6,
        content="Hm.\n</think>",
        calls=[READ],
        starts=["plain"],
    )
