"""Faithful values: unicode, white space, escapes, lengths. Every one comes back byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Case
from conformance.writers import STRING, call, made, tool, value

UNICODE = {
    "emoji": "ok 🙂",
    "emoji-joined": "crew: 🧑‍🚀👩‍👩‍👧‍👦!",
    "flags": "🇩🇪🇯🇵",
    "cjk": "漢字かな交じり文、そして中文。",
    "cjk-rare": "𠮷野家 𩸽",
    "combining": "e\u0301 a\u0308\u0323 n\u0303",
    "hangul-jamo": "\u1112\u1161\u11ab",
    "right-to-left": "שלום مرحبا",
    "mathematical": "𝔘𝔫𝔦 ∀x∈ℝ",
    "variation-selector": "✈\ufe0f ❤\ufe0f",
    "zero-width": "a\u200bb\u200dc\ufeffd",
    "line-separators": "a\u2028b\u2029c\x85d",
    "replacement-character": "bad \ufffd byte",
    "private-use": "\ue000\uf8ff",
    "emoji-only": "🙂" * 12,
    "ends-with-emoji": "end 🧑‍🚀",
}
WHITE = {
    "empty": "",
    "newline": "\n",
    "two-newlines": "\n\n",
    "spaces": "   ",
    "final-newline": "line\n",
    "final-newlines": "line\n\n\n",
    "leading-newline": "\nline",
    "leading-spaces": "    indented\n  less",
    "trailing-spaces": "word   ",
    "tabs": "\tif x:\n\t\ty\n",
    "crlf": "one\r\ntwo\r\n",
    "final-carriage-return": "one\r",
    "lone-carriage-returns": "a\rb\rc",
    "blank-lines": "a\n\n\n\nb",
    "no-break-spaces": "\u00a0a\u3000b\u00a0",
    "form-feed": "a\x0cb\x0bc",
}
ESCAPES = {
    "quotes": "say \"hi\" and 'ho'",
    "backslashes": "C:\\dir\\new \\n \\u0041 \\\\",
    "json-text": '{"a": "b\\n", "c": [1, 2]}',
    "control-characters": "a\x01b\x1bc\x7fd",
    "escaped-tags": "&lt;/parameter&gt; \\u003ctool_call\\u003e",
    "dollar": "$HOME ${x} `cmd` %s {0}",
    "percent-and-braces": "{{ jinja }} {% raw %}",
    "code": "def f(a: dict[str, int]) -> None:\n    return {k: v for k, v in a.items() if v < 3}\n",
    "diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n",
    "html": '<!doctype html>\n<p class="a">x &amp; y<br/></p>\n',
    "nul": "a\x00b",
}


def cases() -> Iterator[Case]:
    """One case for each text."""
    rule = "format: every other character of the value belongs to the value"
    for name, text in UNICODE.items():
        yield value(
            f"unicode/{name}",
            f"unicode in a value: {name}; cut inside its characters",
            text,
            source=rule,
        )
    for name, text in WHITE.items():
        yield value(
            f"whitespace/value-{name}",
            f"white space in a value: {name}",
            text,
            source=rule + "; E5",
            starts=("plain", "thought"),
        )
    for name, text in ESCAPES.items():
        yield value(
            f"escapes/{name}",
            f"a value that JSON must escape or leave alone: {name}",
            text,
            source=rule,
            starts=("plain", "thought"),
        )
    yield made(
        "unicode/parameter-name",
        "names may be any characters",
        call("set", ("città", "Göteborg")),
        source="format: values",
        tools=[tool("set", {"città": STRING})],
        calls=[("set", {"città": "Göteborg"})],
        starts=["plain"],
    )
    yield made(
        "unicode/around-the-call",
        "unicode in content before and after a call",
        f"Très bien 🙂\n\n{call('read', ('path', '/é'))}\n完了 🎉",
        source="decision 4: content",
        content="Très bien 🙂\n\n完了 🎉",
        calls=[("read", {"path": "/é"})],
    )
    long = "".join(
        f"def f{i}(x):\n    return x * {i}  # 漢字 <{i}>\n\n" for i in range(60)
    )
    yield value(
        "long/file",
        "a file of some hundred lines",
        long,
        source=rule + "; E4",
        starts=("plain",),
        min_argument_deltas=300,
    )
    yield value(
        "long/one-line",
        "one line of six thousand characters",
        "lorem ipsum " * 500,
        source=rule + "; E4",
        starts=("plain",),
    )
    yield value(
        "long/newlines",
        "five hundred newlines",
        "\n" * 500,
        source=rule,
        starts=("plain",),
    )
    yield value(
        "long/angle-brackets",
        "many tags that are none of ours",
        "<a><b></c> < / > </ " * 120,
        source=rule,
        starts=("plain",),
    )
    yield value(
        "long/near-misses",
        "many beginnings of our own closing tags",
        "\n</para\n</parameter\n</func\n</function\n</tool_call\n" * 40,
        source=rule,
        starts=("plain",),
    )
    yield value(
        "streaming/string",
        "a string argument is sent as it is generated",
        "word " * 120,
        source="E3: #35615",
        starts=("plain",),
        min_argument_deltas=60,
    )
    nullable = [tool("set", {"v": {"anyOf": [STRING, {"type": "null"}]}})]
    yield made(
        "streaming/nullable-string",
        "a nullable string is sent as it is generated, not at the end",
        call("set", ("v", "word " * 120)),
        source="D11",
        tools=nullable,
        calls=[("set", {"v": "word " * 120})],
        starts=["plain", "closed"],
        min_argument_deltas=60,
    )
    yield made(
        "streaming/nullable-null-prefix",
        "text that begins like null stays text where null is allowed",
        call("set", ("v", "nullify everything")),
        source="D11",
        tools=nullable,
        calls=[("set", {"v": "nullify everything"})],
    )
    yield made(
        "streaming/nullable-null-line",
        "null with a line after it is text where null is allowed",
        call("set", ("v", "null\nand more")),
        source="D11",
        tools=nullable,
        calls=[("set", {"v": "null\nand more"})],
    )
