"""Outputs cut by the length limit, at every kind of place (D7, E10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.case import Case
from conformance.writers import FILES, call, made, tool

OPEN = "<tool_call>\n<function=write>\n"
PATH = "<parameter=path>\n/a\n</parameter>\n"
D7 = "D7: #47903"


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
    write = {"path": "/a"}
    rows: list[tuple[str, str, str, dict[str, Any]]] = [
        ("after-function", "directly behind the function tag", "", {}),
        ("in-parameter-tag", "inside a parameter's tag", "<parameter=pa", {}),
        (
            "in-value",
            "inside a value",
            "<parameter=path>\n/home/us",
            {"path": "/home/us"},
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
            {**write, "content": "line 1\nline 2 and"},
        ),
        (
            "in-multi-line-value",
            "at a blank line of a value",
            f"{PATH}<parameter=content>\na\n\n",
            {**write, "content": "a\n"},
        ),
        ("in-function-end", "inside </function>", f"{PATH}</func", write),
        ("after-function-end", "behind </function>", f"{PATH}</function>", write),
        ("in-tool-call-end", "before </tool_call>", f"{PATH}</function>\n", write),
        (
            "after-call",
            "behind the whole call",
            f"{PATH}</function>\n</tool_call>",
            write,
        ),
        (
            "in-value-with-tag",
            "inside a value that holds a tag",
            f"{PATH}<parameter=content>\nsee </function> and then",
            {**write, "content": "see </function> and then"},
        ),
        (
            "in-value-with-open-block",
            "inside a documented call in a value",
            f"{PATH}<parameter=content>\nso:\n<tool_call>\n<function=read>\n<parameter=path>\n/x",
            {
                **write,
                "content": "so:\n<tool_call>\n<function=read>\n<parameter=path>\n/x",
            },
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
        calls=[("write", {"path": ""})],
        end="length",
        cls="implementation-defined",
    )
    yield made(
        "cut/second-call",
        "cut inside the second of two calls: both are delivered, the finish reason says length",
        call("read", ("path", "/a")) + "\n" + f"{OPEN}<parameter=path>\n/b",
        source="E10",
        calls=[("read", {"path": "/a"}), ("write", {"path": "/b"})],
        end="length",
    )
    yield made(
        "cut/between-calls",
        "cut between two calls",
        call("read", ("path", "/a")) + "\n",
        source="E10",
        calls=[("read", {"path": "/a"})],
        end="length",
    )
    yield made(
        "cut/in-second-tag-of-calls",
        "cut at the second <tool_call>: it began no call",
        call("read", ("path", "/a")) + "\n<tool_call>",
        source="decision 7",
        content="<tool_call>",
        calls=[("read", {"path": "/a"})],
        end="length",
        opens_with="call",
        cls="implementation-defined",
    )
    yield made(
        "cut/text-after-call",
        "cut in the text after a call",
        call("read", ("path", "/a")) + "\nNow I",
        source="E10",
        content="Now I",
        calls=[("read", {"path": "/a"})],
        end="length",
        opens_with="call",
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
    for key, text, want in (
        ("i", "12", 12),
        ("a", "[1, 2", "[1, 2"),
        ("b", "tru", "tru"),
        ("a", "[1, 2]", [1, 2]),
    ):
        yield made(
            f"cut/typed-{key}-{'whole' if isinstance(want, list) else 'part'}",
            f"cut inside a typed value: {text!r}",
            f"<tool_call>\n<function=set>\n<parameter={key}>\n{text}",
            source=D7,
            tools=types,
            calls=[("set", {key: want})],
            end="length",
        )
    # The last token of a character that takes three: what came of it is no text yet.
    yield made(
        "cut/inside-character",
        "cut inside a character of a value",
        f"{OPEN}<parameter=path>\nab 𝔘",
        source=D7,
        calls=[("write", {"path": "ab"})],
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
        calls=[("write", {"path": "/a", "content": long})],
        end="length",
        starts=["plain"],
    )
