"""Calls to functions that the request does not declare (format: undeclared names)."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Case
from conformance.writers import call, made

BLOCK = call("read", ("path", "/x"))
OTHER = call("search", ("q", "x"))
READ = ("read", {"path": "/x"})
SEARCH = ("search", {"q": "x"})
RULE = "format: undeclared names"


def cases() -> Iterator[Case]:
    """A whole block with nothing but white space and calls behind it is a call; everything else is text."""
    for name, description, output, content, calls in (
        ("alone", "alone", OTHER, "", [SEARCH]),
        ("after-text", "after text", f"I search.\n\n{OTHER}", "I search.", [SEARCH]),
        (
            "white-space-behind",
            "with white space behind it",
            f"{OTHER}\n\n  \n",
            "",
            [SEARCH],
        ),
        ("indented", "on an indented line", f"So:\n  {OTHER}", "So:", [SEARCH]),
        ("twice", "twice", f"{OTHER}\n{OTHER}", "", [SEARCH, SEARCH]),
        (
            "twice-adjacent",
            "twice, nothing between",
            f"{OTHER}{OTHER}",
            "",
            [SEARCH, SEARCH],
        ),
        (
            "before-call",
            "before a call to a tool",
            f"{OTHER}\n{BLOCK}",
            "",
            [SEARCH, READ],
        ),
        (
            "after-call",
            "after a call to a tool",
            f"{BLOCK}\n{OTHER}",
            "",
            [READ, SEARCH],
        ),
        (
            "between-calls",
            "between two calls to a tool",
            f"{BLOCK}\n{OTHER}\n{BLOCK}",
            "",
            [READ, SEARCH, READ],
        ),
        (
            "after-fence",
            "after a code fence that is closed",
            f"```\nx\n```\n{OTHER}",
            "```\nx\n```",
            [SEARCH],
        ),
        (
            "in-sentence",
            "in a sentence that it ends",
            f"Write {OTHER}",
            "Write",
            [SEARCH],
        ),
        (
            "after-text-on-line",
            "behind text on its line",
            f"Call: {OTHER}",
            "Call:",
            [SEARCH],
        ),
        (
            "in-open-fence",
            "in a code fence that is never closed",
            f"```xml\n{OTHER}",
            "```xml",
            [SEARCH],
        ),
        (
            "in-longer-fence",
            "in a fence of four marks with one of three inside, never closed",
            f"````\n```\n{OTHER}\n",
            "````\n```",
            [SEARCH],
        ),
        (
            "no-tool-call-end",
            "without </tool_call>",
            OTHER.removesuffix("\n</tool_call>"),
            "",
            [SEARCH],
        ),
        (
            "no-function-end",
            "without </function>",
            OTHER.replace("</function>\n", ""),
            "",
            [SEARCH],
        ),
        (
            "before-call-and-text",
            "before a call to a tool, and text behind both",
            f"{OTHER}\n{BLOCK}\nDone.",
            "Done.",
            [SEARCH, READ],
        ),
        ("no-parameters", "without parameters", call("search"), "", [("search", {})]),
        (
            "two-parameters",
            "with two parameters",
            call("search", ("q", "x"), ("n", "3")),
            "",
            [("search", {"q": "x", "n": "3"})],
        ),
        (
            "quotes-a-call",
            "whose value quotes a call to a tool",
            call("search", ("q", f"so:\n{BLOCK}\nso")),
            "",
            [("search", {"q": f"so:\n{BLOCK}\nso"})],
        ),
        (
            "tag-in-value",
            "whose value holds tags",
            call("search", ("q", "a </function> b </parameter> c")),
            "",
            [("search", {"q": "a </function> b </parameter> c"})],
        ),
        (
            "long",
            "with a long value",
            call("search", ("q", "line\n" * 500 + "end")),
            "",
            [("search", {"q": "line\n" * 500 + "end"})],
        ),
    ):
        yield made(
            f"undeclared/{name}",
            f"a block that calls an undeclared function, {description}",
            output,
            source=RULE,
            content=content,
            calls=calls,
            opens_with="call" if output.startswith("<tool_call>") else "text",
        )
    fence = "```xml\n"
    for name, description, text in (
        (
            "sentence-around",
            "in a sentence that goes on behind it",
            f"Write {OTHER} to search.",
        ),
        ("text-behind", "with text behind it", f"{OTHER} is a call."),
        (
            "text-behind-on-next-line",
            "with text on the next line",
            f"{OTHER}\nis a call.",
        ),
        ("tag-behind", "with a tag behind it", f"{OTHER}\n<tool_call>"),
        ("in-fence", "in a code fence", f"{fence}{OTHER}\n```"),
        ("in-tilde-fence", "in a fence of tildes", f"~~~\n{OTHER}\n~~~"),
        (
            "in-list-fence",
            "in a code fence of a list",
            f"- Say:\n  ```\n  {OTHER}\n  ```",
        ),
        ("then-fence", "then a code fence", f"{OTHER}\n```\nx\n```"),
        ("twice-then-text", "twice, then text", f"{OTHER}\n{OTHER}\nthen text"),
        (
            "no-end",
            "without its closing tags",
            OTHER.removesuffix("\n</function>\n</tool_call>"),
        ),
        (
            "bare",
            "without <tool_call>",
            "<function=search>\n<parameter=q>\nx\n</parameter>\n</function>",
        ),
        (
            "text-in-frame",
            "with text in its frame",
            OTHER.replace("<parameter", "and\n<parameter"),
        ),
    ):
        yield made(
            f"undeclared/{name}",
            f"a block that calls an undeclared function, {description}, is text",
            text,
            source=RULE,
            content=text,
            cls="must-not",
        )
    for name, description, output, content, calls in (
        (
            "cut-then-call",
            "a block without its end, then a call to a tool",
            f"<tool_call>\n<function=search>\n{BLOCK}",
            "<tool_call>\n<function=search>",
            [READ],
        ),
        (
            "text-then-call",
            "a block with text behind it, then a call to a tool",
            f"{OTHER}\nNo:\n{BLOCK}",
            f"{OTHER}\nNo:",
            [READ],
        ),
    ):
        yield made(
            f"undeclared/{name}",
            description,
            output,
            source=RULE,
            content=content,
            calls=calls,
            opens_with="text",
        )
    yield made(
        "undeclared/cut",
        "a block that the length limit cut is text",
        OTHER[:-20],
        source=RULE,
        content=OTHER[:-20],
        cls="must-not",
        end="length",
    )
    yield made(
        "undeclared/cut-in-value",
        "a block that the length limit cut in a value is text",
        OTHER[:50],
        source=RULE,
        content=OTHER[:50],
        cls="must-not",
        end="length",
    )
    yield made(
        "undeclared/no-tools",
        "without tools in the request it is text",
        OTHER,
        source=RULE,
        content=OTHER,
        cls="must-not",
        tools=[],
        starts=["plain", "closed"],
    )
    yield made(
        "undeclared/after-reasoning",
        "after the reasoning",
        f"Hm.\n</think>\n\n{OTHER}",
        source=RULE,
        reasoning="Hm.\n",
        calls=[SEARCH],
        starts=["open"],
    )
    yield made(
        "undeclared/in-reasoning",
        "in the reasoning it is text",
        f"Hm.\n{OTHER}\n</think>\n\nHello.",
        source=RULE,
        reasoning=f"Hm.\n{OTHER}\n",
        content="\n\nHello.",
        cls="must-not",
        starts=["open"],
    )
    yield made(
        "undeclared/at-reasoning-end",
        "at the end of a reasoning that never ends it is a call",
        f"Hm.\n{OTHER}",
        source=RULE,
        reasoning="Hm.",
        calls=[SEARCH],
        starts=["open"],
    )
    yield from _think_tags()


def _think_tags() -> Iterator[Case]:
    rule = "format: think tags"
    for name, text in (
        ("end", "The tag </think> ends it."),
        ("start", "A <think> begins it."),
        ("pair", "Between <think> and </think> it thinks."),
        ("line", "So:\n</think>\nand so on."),
        ("last", "The tag is </think>"),
    ):
        yield made(
            f"think-tags/{name}",
            f"a think tag in the answer is content: {name}",
            text,
            source=rule,
            content=text,
            cls="must-not",
            starts=["plain", "closed", "thought"],
        )
    block = call("write", ("path", "/a.txt"), ("content", "a </think> b <think> c"))
    yield made(
        "think-tags/then-call",
        "a think tag in the answer, then a call",
        f"A </think> here.\n\n{BLOCK}",
        source=rule,
        content="A </think> here.",
        calls=[READ],
        starts=["plain", "closed", "thought"],
    )
    yield made(
        "think-tags/in-value",
        "think tags in a value",
        block,
        source=rule,
        calls=[("write", {"path": "/a.txt", "content": "a </think> b <think> c"})],
    )
    for name, output, reasoning, content in (
        ("two-spans", "a</think>\n<think>b</think>\ndone", "a\nb", "\ndone"),
        ("two-spans-adjacent", "a</think><think>b</think>done", "ab", "done"),
        ("three-spans", "a</think><think>b</think><think>c</think>done", "abc", "done"),
        ("span-never-closed", "a</think>\n<think>b", "a\nb", ""),
        ("closed-twice-at-once", "a</think></think>done", "a", "done"),
        (
            "span-after-text",
            "a</think>\nHm. <think>b</think> c",
            "a",
            "\nHm. <think>b</think> c",
        ),
    ):
        yield made(
            f"think-tags/{name}",
            f"spans of reasoning: {name}",
            output,
            source=rule,
            reasoning=reasoning,
            content=content,
            starts=["open"],
        )
    yield made(
        "think-tags/span-then-call",
        "two spans of reasoning, then a call",
        f"a</think>\n<think>b</think>\n{BLOCK}",
        source=rule,
        reasoning="a\nb",
        calls=[READ],
        starts=["open"],
    )
