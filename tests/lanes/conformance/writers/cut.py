"""Outputs cut by the length limit or by a stop string, at every kind of place (D7, E10).

A call that is cut is never presented as whole: its argument text ends where its value was still open. The end of such an
output decides nothing, so that a closing tag which waits for what follows it closes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from conformance.case import Case
from conformance.writers import FILES, call, made, tool

OPEN = "<tool_call>\n<function=write>\n"
PATH = "<parameter=path>\n/a\n</parameter>\n"
D7 = "D7: #47903"
STOP = "Observation:"


def cut(**arguments: str) -> str:
    """The argument text of a call whose last string is left open."""
    return json.dumps(arguments, ensure_ascii=False).removesuffix('"}')


def cases() -> Iterator[Case]:
    """From before the call to behind it."""
    for name, text in (
        ("in-text", "Hello, I am"),
        ("before-tag", "Reading.\n\n"),
        ("in-tag", "Reading.\n\n<tool_call>"),
        ("after-tag", "Reading.\n\n<tool_call>\n"),
        ("in-function-tag", "Reading.\n\n<tool_call>\n<func"),
        ("in-function-name", "Reading.\n\n<tool_call>\n<function=wri"),
        ("after-function-name", "<tool_call>\n<function=write"),
        ("undeclared", "<tool_call>\n<function=search>\n<parameter=q>\nx"),
        ("after-function", OPEN),
        ("in-parameter-tag", f"{OPEN}<parameter=pa"),
        ("mention", "The tag <tool_call> begins"),
    ):
        yield made(
            f"cut/{name}",
            f"cut {name.replace('-', ' ')}: no call began, so all is text",
            text,
            source="decision 7",
            content=text,
            end="length",
            cls="must-not",
        )
    write = cut(path="/a")
    rows: list[tuple[str, str, str, str]] = [
        (
            "in-value",
            "inside a value",
            "<parameter=path>\n/home/us",
            cut(path="/home/us"),
        ),
        (
            "after-value-newline",
            "behind a value's last newline",
            "<parameter=path>\n/a\n",
            write,
        ),
        (
            "in-value-end",
            "inside a value's closing tag",
            "<parameter=path>\n/a\n</para",
            write,
        ),
        (
            "in-value-end-slash",
            "at the first characters of a closing tag",
            "<parameter=path>\n/a\n</",
            write,
        ),
        (
            "after-value-end",
            "behind a closing tag",
            "<parameter=path>\n/a\n</parameter>",
            write,
        ),
        ("between-parameters", "between two parameters", PATH, write),
        (
            "in-second-tag",
            "inside the second parameter's tag",
            f"{PATH}<parameter=cont",
            write,
        ),
        (
            "in-second-value",
            "inside the second value",
            f"{PATH}<parameter=content>\nline 1\nline 2 and",
            cut(path="/a", content="line 1\nline 2 and"),
        ),
        (
            "in-multi-line-value",
            "at a blank line of a value",
            f"{PATH}<parameter=content>\na\n\n",
            cut(path="/a", content="a\n"),
        ),
        ("in-function-end", "inside </function>", f"{PATH}</func", write),
        ("after-function-end", "behind </function>", f"{PATH}</function>", write),
        ("in-tool-call-end", "before </tool_call>", f"{PATH}</function>\n", write),
        (
            "after-call",
            "behind the whole call, which prose and a later closing tag could still make longer",
            f"{PATH}</function>\n</tool_call>",
            write,
        ),
        (
            "in-value-with-tag",
            "inside a value that holds a tag",
            f"{PATH}<parameter=content>\nsee </function> and then",
            cut(path="/a", content="see </function> and then"),
        ),
        (
            "in-value-with-open-block",
            "inside a documented call in a value",
            f"{PATH}<parameter=content>\nso:\n<tool_call>\n<function=read>\n<parameter=path>\n/x",
            cut(
                path="/a",
                content="so:\n<tool_call>\n<function=read>\n<parameter=path>\n/x",
            ),
        ),
    ]
    for name, what, body, arguments in rows:
        yield made(
            f"cut/{name}",
            f"cut {what}",
            OPEN + body,
            source=D7,
            calls=[("write", arguments)],
            end="length",
        )
    yield made(
        "cut/empty-value",
        "cut directly behind a parameter's tag",
        f"{OPEN}<parameter=path>\n",
        source=D7,
        calls=[("write", cut(path=""))],
        end="length",
        cls="implementation-defined",
    )
    yield made(
        "cut/second-call",
        "cut inside the second of two calls: the first is whole, the second is not",
        call("read", ("path", "/a")) + "\n" + f"{OPEN}<parameter=path>\n/b",
        source="E10",
        calls=[("read", {"path": "/a"}), ("write", cut(path="/b"))],
        end="length",
    )
    yield made(
        "cut/between-calls",
        "cut behind a call and a newline: nothing has decided yet where its value ends",
        call("read", ("path", "/a")) + "\n",
        source="E10",
        calls=[("read", cut(path="/a"))],
        end="length",
    )
    yield made(
        "cut/in-second-tag-of-calls",
        "cut at the second <tool_call>: it began no call",
        call("read", ("path", "/a")) + "\n<tool_call>",
        source="decision 7",
        calls=[("read", cut(path="/a"))],
        end="length",
        opens_with="call",
        cls="implementation-defined",
    )
    yield made(
        "cut/text-after-call",
        "cut in the text after a call, which nothing has decided yet",
        call("read", ("path", "/a")) + "\nNow I",
        source="E10",
        calls=[("read", cut(path="/a"))],
        end="length",
        opens_with="call",
        cls="implementation-defined",
    )
    types = [
        tool(
            "set",
            {
                "i": {"type": "integer"},
                "a": {"type": "array"},
                "b": {"type": "boolean"},
            },
        ),
        *FILES,
    ]
    for name, key, text in (
        ("i-part", "i", "12"),
        ("a-part", "a", "[1, 2"),
        ("b-part", "b", "tru"),
        ("a-whole", "a", "[1, 2]"),
    ):
        yield made(
            f"cut/typed-{name}",
            f"cut inside a value that is no string, which is left out: {text!r}",
            f"<tool_call>\n<function=set>\n<parameter={key}>\n{text}",
            source=D7,
            tools=types,
            calls=[("set", "{")],
            end="length",
        )
    # The last token of a character that takes three: what came of it is no text yet.
    yield made(
        "cut/inside-character",
        "cut inside a character of a value",
        f"{OPEN}<parameter=path>\nab 𝔘",
        source=D7,
        calls=[("write", cut(path="ab"))],
        end="length",
        drop_tokens=1,
    )
    yield made(
        "cut/inside-character-of-text",
        "cut inside a character of the answer",
        "Uni 𝔘",
        source="decision 4",
        content="Uni",
        end="length",
        drop_tokens=1,
        cls="must-not",
    )
    long = "".join(f"line {i}\n" for i in range(150)) + "cut her"
    yield made(
        "cut/long-value",
        "a long file cut by the length limit",
        f"{OPEN}{PATH}<parameter=content>\n{long}",
        source=D7,
        calls=[("write", cut(path="/a", content=long))],
        end="length",
        starts=["plain"],
    )
    yield from _stop_strings()


def _stop_strings() -> Iterator[Case]:
    """The same, by a string of the request. It is not in the output."""
    read, begun = (
        call("read", ("path", "/a")),
        f"{OPEN}{PATH}<parameter=content>\na log:\n",
    )
    rows: list[tuple[str, str, str, str, list[tuple[str, Any]]]] = [
        ("in-text", "in the answer", "Thought: I wait.\n", "Thought: I wait.\n", []),
        (
            "in-value",
            "inside a value",
            begun,
            "",
            [("write", cut(path="/a", content="a log:"))],
        ),
        (
            "in-line-of-value",
            "inside a line of a value",
            f"{begun}the ",
            "",
            [("write", cut(path="/a", content="a log:\nthe "))],
        ),
        (
            "after-value-end",
            "behind a closing tag",
            OPEN + PATH,
            "",
            [("write", cut(path="/a"))],
        ),
        ("after-call", "behind a whole call", read, "", [("read", cut(path="/a"))]),
        (
            "in-second-call",
            "inside the second of two calls",
            f"{read}\n{begun}",
            "",
            [("read", {"path": "/a"}), ("write", cut(path="/a", content="a log:"))],
        ),
        ("after-function", "behind a function's tag: no call began", OPEN, OPEN, []),
        (
            "undeclared",
            "behind a block that calls an undeclared function, which was held",
            call("search", ("q", "x")),
            call("search", ("q", "x")),
            [],
        ),
    ]
    for name, what, output, content, calls in rows:
        yield made(
            f"cut/stop-string-{name}",
            f"cut by a stop string {what}",
            output,
            source="E10",
            content=content,
            calls=calls,
            end="stop-string",
            stop_string=STOP,
            cls="must" if calls else "must-not",
        )
    for name, tag, output in (
        ("function-end", "</function>", f"{OPEN}{PATH}"),
        ("tool-call-end", "</tool_call>", f"{OPEN}{PATH}</function>\n"),
    ):
        yield made(
            f"cut/stop-string-is-{name}",
            f"the stop string is {tag}: the call is whole",
            output,
            source="E10",
            calls=[("write", {"path": "/a"})],
            end="stop-string",
            stop_string=tag,
            cls="must",
        )
