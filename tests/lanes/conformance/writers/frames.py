"""Frames that are not as the template writes them: names (D6), forgotten and malformed tags (D3)."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Case
from conformance.writers import FILES, STRING, call, made, tool


def cases() -> Iterator[Case]:
    """Names, then forgotten closers, then malformed frames."""
    yield from _names()
    yield from _forgotten()
    yield from _malformed()


def _names() -> Iterator[Case]:
    d6 = "D6: #56077"
    for name, function, parameter in (
        ("double-quoted", '"write"', '"path"'),
        ("single-quoted", "'write'", "'path'"),
        ("padded", " write ", " path "),
        ("padded-quoted", ' "write" ', ' "path" '),
        ("trailing-space", "write ", "path "),
    ):
        yield made(
            f"names/{name}",
            f"{name} names are trimmed",
            f"<tool_call>\n<function={function}>\n<parameter={parameter}>\n/a\n</parameter>\n"
            "</function>\n</tool_call>",
            source=d6,
            calls=[("write", {"path": "/a"})],
        )
    yield made(
        "names/with-punctuation",
        "names may hold dots, dashes and digits",
        call("mcp__fs-1.read", ("file.path-2", "/a")),
        source=d6,
        tools=[tool("mcp__fs-1.read", {"file.path-2": STRING})],
        calls=[("mcp__fs-1.read", {"file.path-2": "/a"})],
    )
    yield made(
        "names/prefix-of-another",
        "one tool's name begins another's",
        call("read_all", ("path", "/a")) + "\n" + call("read", ("path", "/b")),
        source=d6,
        tools=[*FILES, tool("read_all", {"path": STRING})],
        calls=[("read_all", {"path": "/a"}), ("read", {"path": "/b"})],
    )
    wrong = call("Read", ("path", "/a"))
    yield made(
        "names/wrong-case",
        "a name that differs in case is no tool of the request, and is called as it is written",
        wrong,
        source="format: undeclared names",
        calls=[("Read", {"path": "/a"})],
    )
    for name, text in (
        ("empty-name", "<tool_call>\n<function=>\n</function>\n</tool_call>"),
        ("no-name", "<tool_call>\n<function>\n</function>\n</tool_call>"),
        (
            "long-name",
            f"<tool_call>\n<function={'x' * 300}>\n</function>\n</tool_call>",
        ),
    ):
        yield made(
            f"names/{name}",
            "a frame that names no tool is text",
            text,
            source="format: where a call begins",
            content=text,
            cls="must-not",
        )
    yield made(
        "names/value-in-opener",
        "the name group swallowed the value: `<parameter=command=ls>`",
        "<tool_call>\n<function=run>\n<parameter=command=ls>\n</parameter>\n</function>\n</tool_call>",
        source=f"{d6}; decision 11",
        tools=[tool("run", {"command": STRING})],
        calls=[("run", {"command": "ls"})],
        cls="implementation-defined",
    )


def _forgotten() -> Iterator[Case]:
    rule = "D3: #57699; format: rule 4"
    opener = "<tool_call>\n<function=write>\n"
    both = ("write", {"path": "/a", "content": "x"})
    one, two = (
        "<parameter=path>\n/a\n</parameter>\n",
        "<parameter=content>\nx\n</parameter>\n",
    )
    second = "\n" + call("read", ("path", "/b"))
    read = ("read", {"path": "/b"})
    rows = [
        (
            "parameter-end-of-first",
            "</parameter> of the first parameter",
            f"{opener}<parameter=path>\n/a\n{two}</function>\n</tool_call>",
            [both],
        ),
        (
            "parameter-end-of-last",
            "</parameter> of the last parameter",
            f"{opener}{one}<parameter=content>\nx\n</function>\n</tool_call>",
            [both],
        ),
        (
            "all-parameter-ends",
            "every </parameter>",
            f"{opener}<parameter=path>\n/a\n<parameter=content>\nx\n</function>\n</tool_call>",
            [both],
        ),
        ("function-end", "</function>", f"{opener}{one}{two}</tool_call>", [both]),
        ("tool-call-end", "</tool_call>", f"{opener}{one}{two}</function>", [both]),
        (
            "tool-call-end-newline",
            "</tool_call>, with a newline at the end",
            f"{opener}{one}{two}</function>\n",
            [both],
        ),
        ("both-ends", "</function> and </tool_call>", f"{opener}{one}{two}", [both]),
        (
            "parameter-and-function-end",
            "</parameter> and </function>",
            f"{opener}{one}<parameter=content>\nx\n</tool_call>",
            [both],
        ),
        (
            "parameter-end-and-tool-call-end",
            "</parameter> and </tool_call>",
            f"{opener}{one}<parameter=content>\nx\n</function>",
            [both],
        ),
        (
            "function-end-then-call",
            "</function> before a second call",
            f"{opener}{one}{two}</tool_call>{second}",
            [both, read],
        ),
        (
            "tool-call-end-then-call",
            "</tool_call> before a second call",
            f"{opener}{one}{two}</function>{second}",
            [both, read],
        ),
        (
            "parameter-end-then-call",
            "the last </parameter> before a second call",
            f"{opener}{one}<parameter=content>\nx\n</function>\n</tool_call>{second}",
            [both, read],
        ),
        (
            "last-of-second-call",
            "</parameter> in the second call",
            f"{opener}{one}{two}</function>\n</tool_call>\n<tool_call>\n<function=read>\n"
            "<parameter=path>\n/b\n</function>\n</tool_call>",
            [both, read],
        ),
    ]
    for name, what, output, calls in rows:
        yield made(
            f"forgotten/{name}", f"forgotten: {what}", output, source=rule, calls=calls
        )
    yield made(
        "forgotten/everything-at-end",
        "forgotten: all closing tags; the output ends inside the value, so the call is cut",
        f"{opener}{one}<parameter=content>\nx",
        source="format: a cut call",
        calls=[("write", '{"path": "/a", "content": "x')],
    )
    yield made(
        "forgotten/no-tool-call",
        "a bare <function=…> with its closing tag is a call",
        call("read", ("path", "/a"))
        .removeprefix("<tool_call>\n")
        .removesuffix("\n</tool_call>"),
        source="format: where a call begins",
        calls=[("read", {"path": "/a"})],
        opens_with="call",
    )
    yield made(
        "forgotten/parameter-end-then-prose",
        "a forgotten </parameter> with prose after the call",
        f"{opener}{one}<parameter=content>\nx\n</function>\n</tool_call>\nAnd now some prose.",
        source="format: left open",
        cls="implementation-defined",
        opens_with="call",
        content="And now some prose.",
        calls=[both],
    )


def _malformed() -> Iterator[Case]:
    opener = "<tool_call>\n<function=write>\n"
    path, end = "<parameter=path>\n/a\n</parameter>\n", "</function>\n</tool_call>"
    rule = "D3: #55495"
    yield made(
        "malformed/opener-without-end",
        "an opener that never ends begins no call",
        "<tool_call>\n<function=write\n",
        source="decision 7",
        content="<tool_call>\n<function=write\n",
        cls="must-not",
    )
    yield made(
        "malformed/empty-tool-call",
        "an empty tool_call is text",
        "<tool_call>\n</tool_call>",
        source=rule,
        content="<tool_call>\n</tool_call>",
        cls="must-not",
    )
    hermes = '<tool_call>\n{"name": "read", "arguments": {"path": "/a"}}\n</tool_call>'
    json_calls = "format: JSON calls"
    read = ("read", {"path": "/a"})
    yield made(
        "malformed/json-call",
        "a call in JSON, nothing behind it",
        hermes,
        source=json_calls,
        calls=[read],
    )
    yield made(
        "malformed/json-calls",
        "two calls in JSON, nothing behind them",
        f"{hermes}\n{hermes}",
        source=json_calls,
        calls=[read, read],
    )
    for name, what, text in (
        ("then-text", "with text behind it", f"{hermes}\nis how a call looks."),
        ("undeclared", "of an undeclared function", hermes.replace("read", "search")),
        ("not-whole", "that has no end", hermes.removesuffix("</tool_call>")),
    ):
        yield made(
            f"malformed/json-call-{name}",
            f"a call in JSON {what} is text",
            text,
            source=json_calls,
            content=text,
            cls="must-not",
        )
    inside = f"{opener}I set the path now.\n{path}{end}"
    yield made(
        "malformed/text-inside-frame",
        "text inside the frame: no tag of the frame follows the function's name, so it is text",
        inside,
        source="format: left open",
        content=inside,
        cls="implementation-defined",
    )
    yield made(
        "malformed/three-times",
        "a parameter given three times",
        call("write", ("path", "/a"), ("content", "x"), ("path", "/b"), ("path", "/c")),
        source="D3: given twice",
        calls=[("write", {"path": "/c", "content": "x"})],
    )
    yield made(
        "malformed/double-tool-call",
        "two <tool_call> in a row: the first is text, the second begins the call",
        f"<tool_call>\n{call('read', ('path', '/a'))}",
        source="format: where a call begins",
        content="<tool_call>",
        calls=[("read", {"path": "/a"})],
    )
    yield made(
        "malformed/double-end",
        "a second </tool_call>",
        f"{opener}{path}{end}\n</tool_call>",
        source="format: a closing tag given twice is one",
        calls=[("write", {"path": "/a"})],
    )
    yield made(
        "malformed/crlf-frame",
        "a frame written with carriage returns",
        call("read", ("path", "/a")).replace("\n", "\r\n"),
        source="decision 1: a newline is \\n alone",
        calls=[("read", {"path": "\r\n/a\r"})],
        cls="implementation-defined",
    )
    yield made(
        "malformed/spaced-frame",
        "blank lines and indentation between the tags of a frame",
        "<tool_call>\n\n  <function=read>\n\n  <parameter=path>\n/a\n</parameter>\n\n  </function>\n\n</tool_call>",
        source="format: white space in a frame is free",
        calls=[("read", {"path": "/a"})],
    )
    yield made(
        "malformed/parameter-without-function",
        "a parameter outside any call is text",
        "<parameter=path>\n/a\n</parameter>",
        source="format: where a call begins",
        content="<parameter=path>\n/a\n</parameter>",
        cls="must-not",
    )
