"""The table "decisions, by example" of the format, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.case import Case
from conformance.writers import READ, STRING, call, made, tool

BLOCK = call("read", ("path", "/x"))


def _write(body: str) -> str:
    return f"<tool_call>\n<function=write>\n{body}"


def _row(number: int, name: str, description: str, output: str, **kw: Any) -> Case:
    return made(
        f"examples/{number:02}-{name}",
        description,
        output,
        source=f"format: example row {number}",
        **kw,
    )


def cases() -> Iterator[Case]:
    """Rows 1 to 17; rows that show several texts give several cases."""
    end = "</function>\n</tool_call>"

    def content(text: str, *, n: int, name: str, description: str) -> Case:
        return _row(
            n,
            name,
            description,
            call("write", ("content", text)),
            calls=[("write", {"content": text})],
        )

    yield content(
        "a </function> b",
        n=1,
        name="function-end-in-value",
        description="`</function>` inside a line of a value is text",
    )
    yield content(
        "a\n</parameter>\nb",
        n=2,
        name="parameter-end-in-value",
        description="`</parameter>` on a line of its own with text after it is text",
    )
    yield content(
        "see <parameter=x> here",
        n=3,
        name="parameter-in-value",
        description="`<parameter=x>` inside a line is text",
    )
    yield content(
        "x <function=read> y",
        n=4,
        name="function-in-value",
        description="`<function=read>` inside a line is text and opens no second call",
    )
    yield content(
        f"Do this:\n{BLOCK}\nand wait.",
        n=5,
        name="block-in-value",
        description="a documented call with text after it is part of the value",
    )
    yield content(
        f"Do this:\n{BLOCK}",
        n=6,
        name="block-ends-value",
        description="a documented call at the very end of the value is part of it",
    )
    yield content(
        f"First:\n{BLOCK}\nThen:\n{call('write', ('path', '/y'), ('content', 'z'))}\nEnd.",
        n=7,
        name="two-blocks-in-value",
        description="two documented calls are part of the value",
    )
    yield _row(
        8,
        "undeclared-parameter",
        "an undeclared parameter is a parameter",
        call("write", ("path", "/a"), ("mode", "7")),
        calls=[("write", {"path": "/a", "mode": "7"})],
    )
    yield _row(
        9,
        "forgotten-closer",
        "a forgotten </parameter> is forgiven where the next declared parameter begins",
        _write(f"<parameter=path>\n/a\n<parameter=content>\nx\n</parameter>\n{end}"),
        calls=[("write", {"path": "/a", "content": "x"})],
    )
    yield _row(
        10,
        "forgotten-last-closer",
        "a forgotten </parameter> is forgiven at the end of the call",
        _write(f"<parameter=path>\n/a\n{end}"),
        calls=[("write", {"path": "/a"})],
    )
    yield _row(
        11,
        "given-twice",
        "a parameter given twice gives valid JSON; a JSON reader gets the last",
        call("write", ("path", "/a"), ("path", "/b")),
        calls=[("write", {"path": "/b"})],
    )
    for name, opener in (
        ("quoted", '<parameter="path">'),
        ("padded", "<parameter= path >"),
    ):
        yield _row(
            12,
            f"{name}-parameter-name",
            "the name is trimmed of white space and quotes",
            _write(f"{opener}\n/a\n</parameter>\n{end}"),
            calls=[("write", {"path": "/a"})],
        )
    yield _row(
        12,
        "padded-function-name",
        "the name is trimmed of white space and quotes",
        f"<tool_call>\n<function= write >\n<parameter=path>\n/a\n</parameter>\n{end}",
        calls=[("write", {"path": "/a"})],
    )
    yield _row(
        13,
        "cut-in-value",
        "a value cut by the length limit: its string stays open",
        _write("<parameter=content>\nabc"),
        end="length",
        calls=[("write", '{"content": "abc')],
    )
    yield _row(
        14,
        "newline-between-calls",
        "the newline between two calls is no content",
        call("read", ("path", "/a")) + "\n" + call("read", ("path", "/b")),
        calls=[("read", {"path": "/a"}), ("read", {"path": "/b"})],
    )
    sentence = "Models wrap a call in <tool_call> tags, and the server reads them. That is all there is to it."
    yield _row(
        15,
        "tag-in-answer",
        "a literal <tool_call> in the answer is text; nothing after it is lost",
        sentence,
        content=sentence,
        cls="must-not",
    )
    thought = "The user asks about <tool_call> tags. I should explain them.\n"
    yield _row(
        15,
        "tag-in-reasoning",
        "a literal <tool_call> in the reasoning is text; the answer is not lost",
        f"{thought}</think>\n\nThey wrap a call.",
        reasoning=thought,
        content="\n\nThey wrap a call.",
        cls="must-not",
        starts=["open"],
    )
    unknown = call("unknown", ("path", "/a"))
    yield _row(
        16,
        "undeclared-function",
        "a whole block on lines of its own that calls a name which is no tool of the request is a call",
        unknown,
        calls=[("unknown", {"path": "/a"})],
    )
    yield _row(
        16,
        "undeclared-then-prose",
        "the same with prose behind it is text",
        f"{unknown}\nThat would be a call.",
        content=f"{unknown}\nThat would be a call.",
        cls="must-not",
    )
    yield _row(
        16,
        "undeclared-in-fence",
        "the same in a code fence is text",
        f"```\n{unknown}\n```",
        content=f"```\n{unknown}\n```",
        cls="must-not",
    )
    yield _row(
        16,
        "undeclared-in-reasoning",
        "the same in the reasoning is text",
        f"{unknown}\n</think>\n\nHello.",
        reasoning=f"{unknown}\n",
        content="\n\nHello.",
        cls="must-not",
        starts=["open"],
    )
    yield _row(
        18,
        "think-tag-in-answer",
        "a think tag in the answer is content",
        "I close with </think> here.",
        content="I close with </think> here.",
    )
    quoted = (
        f"An agent might say:\n{call('search', ('q', 'x'))}\nbut I read the file.\n"
    )
    yield _row(
        17,
        "quoted-in-reasoning",
        "a quoted call to no tool of the request stays reasoning; the real call is the one call",
        f"{quoted}</think>\n\n{call('read', ('path', '/a'))}",
        reasoning=quoted,
        calls=[("read", {"path": "/a"})],
        starts=["open"],
        tools=[READ, tool("write", {"path": STRING, "content": STRING})],
    )
