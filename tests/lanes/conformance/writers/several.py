"""Several calls, calls with text around them, calls without arguments (D2, E1, E2, E8)."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.case import Case
from conformance.writers import FILES, STRING, call, made, tool

PING = tool("ping")


def _read(path: str) -> str:
    return call("read", ("path", path))


def cases() -> Iterator[Case]:
    """Numbers of calls, separators, and text in every gap."""
    d2 = "D2: #55284, #47704"
    for count in range(2, 9):
        paths = [f"/file{i}" for i in range(count)]
        yield made(
            f"calls/{count}-calls",
            f"{count} calls in one answer",
            "\n".join(map(_read, paths)),
            source=d2 + "; E2",
            calls=[("read", {"path": p}) for p in paths],
            starts=["plain", "closed", "thought"] if count in (2, 3, 8) else ["plain"],
        )
    yield made(
        "calls/same-call-twice",
        "the same call with the same arguments twice is two calls",
        _read("/a") + "\n" + _read("/a"),
        source="E1: #35421",
        calls=[("read", {"path": "/a"})] * 2,
    )
    yield made(
        "calls/same-name-twice",
        "two calls of one name keep their own arguments",
        call("write", ("path", "/a"), ("content", "1"))
        + "\n"
        + call("write", ("path", "/b"), ("content", "2")),
        source="E1: #35421",
        calls=[
            ("write", {"path": "/a", "content": "1"}),
            ("write", {"path": "/b", "content": "2"}),
        ],
    )
    for name, gap in (
        ("nothing", ""),
        ("blank-line", "\n\n"),
        ("spaces", "  "),
        ("many-newlines", "\n" * 7),
        ("crlf", "\r\n"),
    ):
        yield made(
            f"calls/between-{name}",
            f"two calls with {name} between: white space there is no content",
            _read("/a") + gap + _read("/b"),
            source="decision 4: content; E8",
            calls=[("read", {"path": "/a"}), ("read", {"path": "/b"})],
        )
    yield made(
        "calls/different-tools",
        "calls to different tools in order",
        call("write", ("path", "/a"), ("content", "x\n"))
        + "\n"
        + _read("/a")
        + "\n"
        + call("ping"),
        source=d2,
        tools=[*FILES, PING],
        calls=[
            ("write", {"path": "/a", "content": "x\n"}),
            ("read", {"path": "/a"}),
            ("ping", {}),
        ],
    )
    for name, text in (
        ("newline", "<tool_call>\n<function=ping>\n</function>\n</tool_call>"),
        ("nothing", "<tool_call>\n<function=ping></function>\n</tool_call>"),
        ("one-line", "<tool_call><function=ping></function></tool_call>"),
    ):
        yield made(
            f"calls/no-arguments-{name}",
            f"a call without arguments, with {name} inside, has the arguments {{}}",
            text,
            source="decision 9: JSON text",
            tools=[PING],
            calls=[("ping", {})],
        )
    yield made(
        "calls/no-arguments-twice",
        "two calls without arguments",
        call("ping") + "\n" + call("ping"),
        source="decision 9: JSON text",
        tools=[PING],
        calls=[("ping", {}), ("ping", {})],
    )
    yield made(
        "calls/compact",
        "a whole call on one line",
        "<tool_call><function=write><parameter=path>/a</parameter><parameter=content>x"
        "</parameter></function></tool_call>",
        source="format: white space in a frame is free",
        calls=[("write", {"path": "/a", "content": "x"})],
    )
    many = {f"p{i}": f"value {i}" for i in range(20)}
    yield made(
        "calls/twenty-parameters",
        "a call with twenty parameters keeps them all, in order",
        call("set", *many.items()),
        source="E1: #35615",
        tools=[tool("set", {k: STRING for k in many})],
        calls=[("set", many)],
        starts=["plain"],
    )
    yield from _text(d2)


def _text(d2: str) -> Iterator[Case]:
    """Text before, between and after calls."""
    one, two = _read("/a"), _read("/b")
    a, b = ("read", {"path": "/a"}), ("read", {"path": "/b"})
    rule = "decision 4: content"
    for name, description, output, content, calls in [
        (
            "before",
            "text before a call; the white space between is frame",
            f"I will read it.\n\n{one}",
            "I will read it.",
            [a],
        ),
        (
            "before-two",
            "a preface and two parallel calls",
            f"Reading both.\n\n{one}\n{two}",
            "Reading both.",
            [a, b],
        ),
        (
            "before-no-gap",
            "text directly before a call",
            f"Reading:{one}",
            "Reading:",
            [a],
        ),
        (
            "before-spaces",
            "text and spaces before a call",
            f"Reading   {one}",
            "Reading",
            [a],
        ),
        (
            "before-lines",
            "several paragraphs before a call",
            f"First.\n\nSecond:\n\n- a\n- b\n\n{one}",
            "First.\n\nSecond:\n\n- a\n- b",
            [a],
        ),
        (
            "after",
            "text right after a call is content, sent after the call",
            f"{one}\nThat was it.",
            "That was it.",
            [a],
        ),
        (
            "after-no-gap",
            "text directly after a call",
            f"{one}That was it.",
            "That was it.",
            [a],
        ),
        (
            "after-blank-line",
            "the white space after a call is frame",
            f"{one}\n\n\nThat was it.\n",
            "That was it.\n",
            [a],
        ),
        (
            "after-white-space",
            "white space after the last call is no content",
            f"{one}\n \n",
            "",
            [a],
        ),
        (
            "around",
            "text before and after: the gap before the call parts them",
            f"Before.\n\n{one}\nAfter.",
            "Before.\n\nAfter.",
            [a],
        ),
        (
            "between",
            "text between two calls",
            f"{one}\nAnd the other:\n{two}",
            "And the other:",
            [a, b],
        ),
        (
            "everywhere",
            "text in every gap",
            f"One.\n{one}\nTwo.\n\n{two}\nThree.",
            "One.\nTwo.\n\nThree.",
            [a, b],
        ),
        (
            "leading-white-space",
            "white space before a call that begins the answer",
            f"\n\n{one}",
            "",
            [a],
        ),
        (
            "leading-white-space-and-after",
            "only white space before the call: it parts nothing",
            f"\n\n{one}\nDone.",
            "Done.",
            [a],
        ),
    ]:
        yield made(
            f"content/{name}",
            description,
            output,
            source=f"{rule}; {d2}" if calls[1:] or "after" in name else rule,
            content=content,
            calls=calls,
            opens_with="call" if output.lstrip().startswith("<tool_call>") else "text",
        )
