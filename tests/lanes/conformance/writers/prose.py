"""Outputs that talk about markup, outputs without any call, requests without tools (D1, D5)."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Case
from conformance.writers import call, made

BLOCK = call("read", ("path", "/x"))
OTHER = call("search", ("q", "x"))
PLAIN = {
    "sentence": "Hello, how can I help?",
    "empty": "",
    "white-space": "\n\n",
    "leading-and-trailing": "\n\n  Hello.  \n\n",
    "newline-at-end": "Done.\n",
    "markdown": "# Title\n\n- a\n- b\n\n```python\nprint('<x>')\n```\n\n| a | b |\n|---|---|\n",
    "unicode": "Grüße 🙂 漢字 e\u0301 🧑‍🚀",
    "comparison": "if a < b and c > d: a <= b",
    "html": "<p>Hello <b>you</b></p>\n<function>f</function>",
    "json": '{"name": "read", "arguments": {"path": "/x"}}',
    "ends-less-than": "The sign is <",
    "ends-tag-begin": "The tag begins with <tool_",
    "ends-function-begin": "It begins with <function",
    "crlf": "a\r\nb\r\n",
    "one-character": "y",
    "less-than-lines": "<\n<\n</\n<t\n<f\n",
}
PROSE = {
    "tool-call": "Use <tool_call> to begin a call. Then the server reads it.",
    "tool-call-end": "A call ends with </tool_call>, always.",
    "tool-call-pair": "Between <tool_call> and </tool_call> stands the call.\nNothing else.",
    "tool-call-line": "It begins with a line:\n<tool_call>\nand then the function.",
    "tool-call-last": "The tag that begins a call is <tool_call>",
    "tool-call-first": "<tool_call> is the tag that begins a call.",
    "tool-call-twice": "<tool_call> and <tool_call> again, then text.",
    "function": "Write <function=read> to name the tool, and go on.",
    "function-undeclared": "Write <function=search> to name the tool, and go on.",
    "function-end": "A call ends with </function> first.",
    "function-unclosed": "It looks like <function=read and goes on without end.",
    "parameter": "Each <parameter=path> has a value </parameter> behind it.",
    "all-tags": "Tags: `<tool_call>`, `<function=NAME>`, `<parameter=KEY>`, `</parameter>`, `</function>`, `</tool_call>`. That is the list.",
    "quoted-template": f"The template is:\n\n```\n{call('NAME', ('KEY', 'VALUE'))}\n```\n\nReplace the words in capitals.",
    "undeclared-call-and-text": f"For example:\n\n{OTHER}\n\nwould search.",
    "two-undeclared-calls": f"{OTHER}\n{OTHER}\nare calls.",
    "tool-call-then-newlines": "<tool_call>\n\n\nNo call follows.",
    "tool-call-then-tag": "<tool_call><b>bold</b> text",
    "tool-call-json-text": "<tool_call> {} </tool_call> is how other models do it.",
}


def cases() -> Iterator[Case]:
    """Plain outputs, prose about markup, with and without tools."""
    rule = "decision 4: without a call nothing is dropped"
    for name, text in PLAIN.items():
        yield made(
            f"no-call/{name}",
            f"an output without a call: {name}",
            text,
            source=rule,
            content=text,
            cls="must-not",
        )
    for name, text in PROSE.items():
        # A bare <function=read> with a declared name does begin a call where the release accepts it: the format leaves no other way.
        cls = "implementation-defined" if name == "function" else "must-not"
        yield made(
            f"prose/{name}",
            f"an answer that talks about markup: {name}",
            text,
            source="D1: #56658; D5: #58147, #58227",
            content=text,
            cls=cls,
        )
        yield made(
            f"no-tools/{name}",
            f"the same without tools in the request: {name}",
            text,
            source="D1: #56658; decision 3",
            content=text,
            tools=[],
            cls="must-not",
            starts=["plain", "closed"],
        )
    for name, text in (
        ("call", BLOCK),
        ("call-and-text", f"Reading:\n\n{BLOCK}\nDone."),
        (
            "bare-function",
            "<function=read>\n<parameter=path>\n/x\n</parameter>\n</function>",
        ),
        ("call-without-end", BLOCK[:-30]),
    ):
        yield made(
            f"no-tools/whole-{name}",
            f"a whole {name} in an answer to a request without tools is text",
            text,
            source="decision 3",
            content=text,
            tools=[],
            cls="must-not",
            starts=["plain", "closed"],
        )
        yield made(
            f"tool-choice-none/{name}",
            f"a whole {name} where tool_choice is none is text",
            text,
            source="decision 3",
            content=text,
            tool_choice="none",
            cls="must-not",
            starts=["plain", "closed"],
        )
    yield made(
        "tool-choice-none/sentence",
        "a plain answer where tool_choice is none",
        "Hello.",
        source="decision 3",
        content="Hello.",
        tool_choice="none",
        cls="must-not",
        starts=["plain", "closed"],
    )
    real = ("read", {"path": "/x"})
    for name, text in (
        ("tag", "I use a <tool_call> now."),
        ("pair", "Not <tool_call> </tool_call> but a real one:"),
        ("undeclared-call", f"Not this one:\n{OTHER}\nbut this one:"),
        ("function-name", "Now <function=search> is not there, so I read."),
        ("closing-tags", "After </parameter> and </function> comes"),
    ):
        yield made(
            f"prose/{name}-then-call",
            f"prose with markup ({name}), then a real call",
            f"{text}\n\n{BLOCK}",
            source="D1: #56658; D5: #58147",
            content=text,
            calls=[real],
        )
        yield made(
            f"prose/call-then-{name}",
            f"a real call, then prose with markup ({name})",
            f"{BLOCK}\n\n{text}",
            source="D1: #56658; D2: #55284",
            content=text,
            calls=[real],
            opens_with="call",
        )
