# SPDX-License-Identifier: Apache-2.0
"""The tool-call reader in ``patches/modules``, which imports nothing of vLLM."""

import random
import time
import weakref
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from vllm.parser import qwen_tool_reader, qwen_tool_tokens
from vllm.parser.qwen_tool_reader import QwenToolReader

from harness import call

TOOLS = {"write": ("path", "content"), "read": ("path",)}
UNKNOWN = call("unknown", ("x", "1"))


def events(
    pieces: Iterable[str],
    *,
    cut: bool = False,
    tools: Collection[str] = TOOLS.keys(),
    **options: Any,
) -> list[tuple[str, str]]:
    """Return events of a text, neighbours of one kind joined."""
    reader = QwenToolReader(tools, **options)
    found: list[tuple[str, str]] = []
    for batch in [*map(reader.feed, pieces), reader.finish(cut)]:
        for kind, text in batch:
            if text and found and found[-1][0] == kind:
                found[-1] = (kind, found[-1][1] + text)
            else:
                found.append((kind, text))
    return found


@pytest.mark.parametrize("think_tags", [True, False])
def test_reads_a_call(think_tags: bool) -> None:
    text = "Well.\n\n" + call("write", ("path", "/a"), ("content", "x\n"))
    assert events(text, think_tags=think_tags) == [
        ("CONTENT", "Well."),
        ("CALL", "write"),
        ("PARAMETER", "path"),
        ("VALUE", "/a"),
        ("VALUE_END", ""),
        ("PARAMETER", "content"),
        ("VALUE", "x\n"),
        ("VALUE_END", ""),
        ("CALL_END", ""),
    ]


def test_space_that_is_the_answers_own() -> None:
    read, quoted = call("read", ("path", "/a")), call("unknown", ("x", "1"))
    for text, content in (
        (f"\n\n{read}\n{read}\n", ""),
        (f"A\n\n{read}\n\n{read}\n", "A\n\n"),
        (f"A\n\n{read}\nB\t{read}", "A\n\n\nB\t"),
        (f"A\n\n{quoted}\nB", f"A\n\n{quoted}\nB"),
    ):
        for pieces in ([text], text):
            said = events(pieces, think_tags=False, keeps_space=True)
            assert "".join(one for kind, one in said if kind == "CONTENT") == content


@pytest.mark.parametrize(
    ("tag", "written", "is_frame"),
    [
        # The longest white space of a frame.
        ("<tool_call>\n", "<tool_call>" + " " * 256, True),
        ("<tool_call>\n", "<tool_call>" + " " * 257, False),
        # How often an opening may be given.
        ("<function=read>\n", "<function=read>\n" * 3, True),
        ("<function=read>\n", "<function=read>\n" * 4, False),
    ],
)
def test_what_is_still_a_frame(tag: str, written: str, is_frame: bool) -> None:
    text = call("read", ("path", "/a")).replace(tag, written)
    assert ("CONTENT" in dict(events([text]))) is not is_frame


TAGS = [
    "<tool_call>",
    "</tool_call>",
    "<function=write>",
    "<function=no>",
    "<function=",
    "</function>",
    "<parameter=path>",
    "<parameter=q>",
    "<parameter=",
    "</parameter>",
    "<think>",
    "</think>",
    "\n",
    "\n",
    "\n",
    " ",
    "a",
    "<",
    "</",
    ">",
    "</para",
    "<func",
    "é",
]
BLOCKS = [
    "<tool_call>\n<function=u>\n",
    "\n<parameter=x>\n",
    "</function>\n</tool_call>",
    "</parameter>\n",
    UNKNOWN,
    UNKNOWN + "\n",
    "<tool_call>\n<function=read>\nb\n</function>\n</tool_call>",
    "a </function> b",
    "```\n",
    "\n",
    "a",
    " ",
    "<tool_call>",
    call("read", ("path", "/a")),
    "</think>",
    "<think>",
    "<",
    "</",
]

MISSPELLED = [
    "\n",
    "\n",
    " ",
    ">",
    "a",
    "</parameter",
    "</PARAMETER>",
    "<parameter>",
    "</parameters>",
    "<parameter=content>",
    "</function>",
    "</invoke>",
    "</function_calls>\n",
    "</tool_call>",
    "\n</parameter>\n</function>\n</tool_call>",
]


@pytest.mark.parametrize(
    "words", [TAGS, BLOCKS, MISSPELLED], ids=["tags", "blocks", "misspelled"]
)
def test_random_outputs_and_cuts(words: list[str]) -> None:
    random_ = random.Random(20260901)
    for _ in range(1500):
        text = "".join(random_.choices(words, k=random_.randint(1, 24)))
        if random_.random() < 0.3:
            text = "<tool_call>\n<function=write>\n<parameter=content>\n" + text
        options: dict[str, Any] = {
            "reasoning": random_.random() < 0.4,
            "think_tags": random_.random() < 0.7,
        }
        expected = events([text], **options)
        for longest in (1, 3, 9):
            pieces, end = [], 0
            while end < len(text):
                start, end = end, end + random_.randint(1, longest)
                pieces.append(text[start:end])
            assert events(pieces, **options) == expected, (text, options, pieces)


def seconds(text: str, width: int) -> float:
    """Return the shortest of three times to read a text in pieces."""
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    times = []
    for _ in range(3):
        start = time.process_time()
        events(pieces)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize(
    "repeated",
    [
        "some <b>text</b>\n",
        "<",
        "`",
        "\n",
        " ",
        "</parameter>\n",
        "\n<tool_call>\n<function=u>\n<parameter=x>\n",
        "\n<tool_call>\n<function=u>\nx",
        UNKNOWN + "\n",
    ],
)
@pytest.mark.parametrize(
    "opening",
    [
        "",
        "<tool_call>\n<function=write>\n<parameter=content>\n",
        "\n<tool_call>\n<function=u>\n<parameter=x>\n",
    ],
)
@pytest.mark.parametrize("width", [4, 1_000_000])
def test_adversarial_output_is_read_in_linear_time(
    repeated: str, opening: str, width: int
) -> None:
    long, short = (
        opening + repeated * (length // len(repeated)) for length in (64_000, 8_000)
    )
    # Quadratic cost would be 64 times as much for 8 times the length.
    assert seconds(long, width) < 24 * seconds(short, width) + 0.02


def test_nested_openings_are_read_in_linear_time() -> None:
    long, short = (
        OTHER * count + "</parameter>\n</function>\nX\n" * count
        for count in (1_600, 200)
    )
    assert seconds(long, 10**6) < 24 * seconds(short, 10**6) + 0.02


def test_a_reader_and_its_text_are_freed_with_the_request() -> None:
    """An exception raised again and again would keep every frame in its traceback."""
    text = "a <b>\n" + call("write", ("content", "x </b>\n" * 20))
    reader = QwenToolReader(TOOLS)
    for piece in text:
        reader.feed(piece)
    reader.finish()
    kept = weakref.ref(reader)
    del reader
    assert kept() is None
    for value in [*vars(qwen_tool_reader).values(), *vars(qwen_tool_tokens).values()]:
        assert not isinstance(value, BaseException), "it would be raised again"


@pytest.mark.parametrize(
    ("value", "is_open"),
    [
        ("<tool_call>\n<function=read>\n<parameter=path>\na </function> b", True),
        (
            "<tool_call>\n<function=read>\n<parameter=path>\na </function>\n"
            "</tool_call>",
            False,
        ),
        ("<tool_call>\n<function=read>\n<parameter=path>\na\n</function>", False),
        ("<function=read>\n<parameter=path>\na\n</parameter>\nb </function>", False),
        ("<function=read> takes <parameter=path> and </function>", False),
    ],
)
def test_where_a_quoted_block_closes(value: str, is_open: bool) -> None:
    """Behind an open block only the end of the output ends the value."""
    closing = "\n</parameter>\n</function>\n</tool_call>\n"
    text = "<tool_call>\n<function=write>\n<parameter=content>\n" + value + "\n. "
    found = events([text + closing + call("read", ("path", "/a"))])
    calls = [name for kind, name in found if kind == "CALL"]
    assert calls == (["write"] if is_open else ["write", "read"])
    assert found == events(text + closing + call("read", ("path", "/a")))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        # A closing sequence, and a key that is due directly behind it.
        (
            call("write", ("path", "/a")).removesuffix("\n</tool_call>")
            + "\n<parameter=content>\nb\n</parameter>\n</function>\n</tool_call>",
            ["path", "content"],
        ),
        (UNKNOWN + "\n</tool_call>", ["x"]),
        (
            "<function=read>\n<parameter=path>\n/a\n</function>\n</function>\n",
            ["path"],
        ),
    ],
)
def test_closing_tags_given_twice(text: str, names: list[str]) -> None:
    for pieces in ([text], text):
        found = events(pieces, parameters_of=lambda name: TOOLS.get(name, ()))
        assert [name for kind, name in found if kind == "PARAMETER"] == names
        assert found[-1] == ("CALL_END", "")


QUOTING = call("unknown", ("x", call("read", ("path", "/a")))) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        # Behind prose: the newline that makes it a call comes before or in a piece.
        "h <function=write><parameter=q>\n</parameter>n",
        "h <function=write>\n<parameter=q></tool_call>",
        "h <function=write><parameter=q></parameter></function>\n<parameter=path>",
        "h <function=write><parameter=q>\na</parameter></function>\n."
        "</parameter></function>",
        "h <function=write>\n</function></tool_call>",
        # Behind a held call: the state must survive a tag that is cut.
        "<tool_call><function=u></function><t ",
        "h <function=write></function><tool_call><function=t>\n",
        # A held text and the answer must not share their lines.
        "<tool_call>{\n```</tool_call><function=write><parameter=w>\n",
        # Within a held call no closing tag is held as well.
        "<tool_call><function=read><parameter=q></parameter><parameter=content>"
        "</parameter></function>`",
        # A backslash and what it escapes.
        '<tool_call>\n{"name": "read", "arguments": {"path": "a \\"b\\""}}\n'
        "</tool_call>",
        "<function=read>\n<parameter=path>\n/a\n</parameter>\n</invoke>\n</tool_call>",
    ],
)
def test_pieces_do_not_matter(text: str) -> None:
    required = {"required_of": lambda name: ("path",)}
    for options in ({}, {"reasoning": True}, required | {"reasoning": True}):
        for cut in (False, True):
            expected = events([text], cut=cut, **options)
            assert events(text, cut=cut, **options) == expected
            for at in range(len(text)):
                found = events([text[:at], text[at:]], cut=cut, **options)
                assert found == expected, (options, cut, at)


#: Text in a frame that says nothing.
SAID = (
    "<parameters>\n</parameters>\n",
    "<!-- all -->\n",
    "</invoke>\n",
    ",\n",
    "None\n",
)


@pytest.mark.parametrize("before", ["", "I look.\n", "I look: ", "- ", "```\n"])
@pytest.mark.parametrize("said", (*SAID, "</Parameter>\n", "<parameter>\n"))
def test_text_in_the_frame_of_a_held_call(before: str, said: str) -> None:
    whole = before + call("write", ("path", "/a"), ("content", "x"))
    given = TOOLS.__getitem__
    options: dict[str, Any] = {"parameters_of": given, "required_of": given}
    for reasoning in (True, False):
        for tag in ("<parameter=path>\n", "<parameter=content>\n", "</function>\n"):
            if tag == "<parameter=path>\n" and said == "<parameter>\n":
                continue
            text = whole.replace(tag, said + tag)
            for pieces in ([text], text):
                found = events(pieces, reasoning=reasoning, **options)
                values = [text for kind, text in found if kind == "VALUE"]
                assert (values, found[-1][0]) == (["/a", "x"], "CALL_END")


@pytest.mark.parametrize("said", SAID)
def test_a_call_without_arguments_says_nothing(said: str) -> None:
    text = f"<tool_call>\n<function=read>\n{said}</function>\n</tool_call>"
    for pieces in ([text], text):
        assert events(pieces) == [("CALL", "read"), ("CALL_END", "")]
    words = "<tool_call>\n<function=read>\nNo path.\n</function>\n</tool_call>"
    assert events([words], parameters_of=TOOLS.__getitem__) == [("CONTENT", words)]
    assert events([words]) == [("CALL", "read"), ("CALL_END", "")]
    undeclared = words.replace("read", "f")
    assert events([undeclared]) == [("CONTENT", undeclared)]


@pytest.mark.parametrize("before", ["", "- ", "I edit: "])
@pytest.mark.parametrize(
    "behind", ["]", "] ok", "]]", "];", "] <!-- x -->", "]\n```", ",]", ", True]"]
)
def test_tags_in_the_strings_of_json(behind: str, before: str) -> None:
    edits = '[{"old": "</parameter><parameter=path>"}' + behind
    text = before + call("edit", ("edits", edits), ("path", "/a"))
    options: dict[str, Any] = {"takes_json": lambda name, key: key == "edits"}
    options |= {"tools": ("edit",), "parameters_of": lambda name: ("edits", "path")}
    for at in range(len(text)):
        found = events([text[:at], text[at:]], **options)
        assert [text for kind, text in found if kind == "VALUE"] == [edits, "/a"]


@pytest.mark.parametrize(
    "ends", ["</function>\n</tool_call>", "</function></tool_call>"]
)
@pytest.mark.parametrize("between", ["", "\n", "\n  ", "x\n"])
def test_a_value_that_begins_with_closing_tags(ends: str, between: str) -> None:
    for quoted in (call("read", ("path", "/b")), "<function=read>\n</function>"):
        content = f"{ends}\n{between}{quoted}"
        text = call("write", ("path", "/a"), ("content", content))
        for pieces in ([text], text):
            found = events(pieces)
            assert [text for kind, text in found if kind == "VALUE"] == ["/a", content]


@pytest.mark.parametrize(
    "tag",
    ["</function=read>", "</function read>", '</function name="read">', "</function"],
)
def test_a_closing_tag_of_another_spelling_says_nothing(tag: str) -> None:
    text = f"<tool_call>\n<function=read>\n{tag}\n</tool_call>"
    for pieces in ([text], text):
        found = events(pieces, parameters_of=TOOLS.__getitem__)
        assert found == [("CALL", "read"), ("CALL_END", "")]


@pytest.mark.parametrize(
    "tag",
    [
        "<param=x>",
        "<parameter: x>",
        "<Parameter=x>",
        "<PARAM=x>",
        "<arg x>",
        "<x>",
        "<parameter=x",
        '<param="x">',
        "<x=z>",
        "<param=undeclared>",
        "use <x>",
    ],
)
@pytest.mark.parametrize("last", ["", "<parameter=y>\n2\n</parameter>\n"])
def test_a_misspelled_opening_ends_the_value(tag: str, last: str) -> None:
    rest = f"{tag}\n1\n</parameter>\n{last}</function>\n</tool_call>"
    text = f"<tool_call>\n<function=f>\n<parameter=a>\nls\n</parameter>\n{rest}"
    options: dict[str, Any] = {"tools": ("f",)}
    options["parameters_of"] = lambda name: ("a", "x", "y")
    is_due = not tag.startswith(("<x=", "<param=u", "use"))
    value = "ls" if is_due else f"ls\n</parameter>\n{tag}\n1"
    for at in range(len(text)):
        found = events([text[:at], text[at:]], **options)
        values = [text for kind, text in found if kind == "VALUE"]
        assert values == [value, "2"] if last else [value]


def test_json_calls_before_a_call() -> None:
    one = '<tool_call>\n{"name": "read", "arguments": {"path": "/a"}}\n</tool_call>\n'
    other = call("read", ("path", "/b")) + "\n"
    for text in (one + other, one * 2 + other, other + one + other):
        for pieces in ([text], text):
            found = [kind for kind, _ in events(pieces)]
            assert found.count("CALL") == text.count("<tool_call>")
            assert "CONTENT" not in found
    assert events([f"So:\n{one}{other}"])[0][0] == "CONTENT"


@pytest.mark.parametrize(
    "said",
    [
        "It ends with `</parameter>`, `</tool_call>`:",
        "Then `</parameter>`, `</function>` and `</tool_call>`.\n\nSo:",
        "ENDS = ['</parameter>', '</function>', '</tool_call>']\nCALL = '",
        "re.compile('</parameter>|</function>|</tool_call>')",
    ],
)
def test_tags_that_a_line_names_end_nothing(said: str) -> None:
    content = f"{said}\n{call('read', ('path', '/b'))}\n."
    text = call("write", ("path", "/a"), ("content", content))
    for pieces in ([text], text):
        found = events(pieces)
        assert [text for kind, text in found if kind == "VALUE"] == ["/a", content]


@pytest.mark.parametrize("marks", ["**", ", ", "\n,"])
@pytest.mark.parametrize("behind", ["", "\n\nThat is all."])
def test_marks_behind_a_closing_tag(marks: str, behind: str) -> None:
    opened = "<tool_call>\n<function=read>\n   <parameter=path>\n/a\n"
    text = f"{opened}</parameter>{marks}</function>\n</tool_call>{behind}"
    for pieces in ([text], text):
        found = events(pieces)
        assert found[2:5] == [("VALUE", "/a"), ("VALUE_END", ""), ("CALL_END", "")]
    text = text.replace("\n</parameter>", "</parameter>").removesuffix(behind)
    assert events([text])[2:4] == [("VALUE", "/a"), ("VALUE_END", "")]


def test_what_an_empty_object_says() -> None:
    text = "<tool_call>\n<function=read>\n{}\n</function>\n</tool_call>"
    assert events(text) == events([text]) == [("CALL", "read"), ("CALL_END", "")]


@pytest.mark.parametrize("tag", ["invoke", "function_invocation", "function_calls"])
def test_a_closing_tag_of_another_frame(tag: str) -> None:
    text = WHOLE.replace("</tool_call>", f"</{tag}>\n</tool_call>")
    assert events(text) == events([text]) == events([WHOLE])


@pytest.mark.parametrize("opening", ["<parameter=content>\n", "<parameter=content>"])
def test_a_value_keeps_a_closing_tag_of_another_format(opening: str) -> None:
    for value in ("</invoke>", "<invoke>\nx\n</invoke>"):
        text = f"<tool_call>\n<function=write>\n{opening}{value}\n</tool_call>"
        found = events([text])
        assert found == events(text) and ("VALUE", value) in found


def test_an_opening_is_in_a_call_before_the_tag_behind_it() -> None:
    reader = QwenToolReader(TOOLS)
    reader.feed("<tool_call>\n<function=read>\n")
    assert reader.in_call


HALF = call("write", ("path", "/a")).partition("\n</function>")[0]
WHOLE = call("write", ("path", "/a"))


@pytest.mark.parametrize(
    "text",
    [
        f"A call begins with `{HALF}`",
        f"- {HALF}\n",
        f"> {HALF}\n",
        f"```\n{HALF}\n```\nand so on.",
        f"- {WHOLE}\n<tool_call>",
        f"- {WHOLE}\n<",
        f"```\n{HALF}\n```\nand\n```\n</function>\n</tool_call>",
        "I look: <function=now></function><tool_call>\n",
        # Half a tag behind a held call.
        *(QUOTING + tail for tail in ("<", "<t", "</t", "<tool_call>", "<function=r")),
    ],
)
def test_what_only_quotes_a_call_runs_nothing(text: str) -> None:
    for pieces in ([text], text):
        assert events(pieces) == [("CONTENT", text)]


SCHEMA = {
    "run": ("command", "y"),
    "write": ("path", "content", "mode"),
}
REQUIRED = {"run": ("command",), "write": ("path", "content")}
ENDS = "\n</parameter>\n</function>\n</tool_call>"
OPENED = "<tool_call>\n<function=run>\n<parameter=command>\n"
RUN = OPENED + "ls" + ENDS
OTHER = "<tool_call>\n<function=u>\n<parameter=x>\n"
PATH = "<tool_call>\n<function=write>\n<parameter=path>\n/a\n</parameter>\n"
INVENTED = "\n<parameter=z>\nv"
JSON = '<tool_call>{"name": "run", "arguments": {"command": "j"}}</tool_call>'
AROUND = ("CONTENT", "REASONING")
LINE = "<function=run><parameter=command>ls"


def read(text: str, **options: Any) -> tuple[list[tuple[str, dict[str, str]]], str]:
    """Return whole calls of a text, and the text around them."""
    schema: dict[str, Any] = {
        "tools": SCHEMA,
        "parameters_of": lambda name: SCHEMA.get(name, ()),
        "required_of": lambda name: REQUIRED.get(name, ()),
    }
    found = events([text], **schema, **options)
    assert events(text, **schema, **options) == found
    calls: list[tuple[str, dict[str, str]]] = []
    key = ""
    for kind, value in found:
        if kind == "CALL":
            calls.append((value, {}))
        elif kind == "PARAMETER":
            key = value
            calls[-1][1][key] = ""
        elif kind == "VALUE":
            calls[-1][1][key] += value
        elif kind == "CALL_CUT":
            del calls[-1]
    return calls, "".join(text for kind, text in found if kind in AROUND)


def runs(*commands: str, **more: str) -> list[tuple[str, dict[str, str]]]:
    return [("run", {"command": command, **more}) for command in commands]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        # A quoted parameter claims the last closing sequence, but the end follows.
        (RUN + "\nw" + INVENTED + ENDS, runs("ls" + ENDS + "\nw" + INVENTED)),
        # A tag that closes itself claims nothing.
        (
            f'{PATH}<parameter=content>\n<parameter name="a" />\n</parameter>'
            + INVENTED
            + ENDS,
            [("write", {"path": "/a", "content": '<parameter name="a" />', "z": "v"})],
        ),
        # A quoted block is open at the end: nothing is forgiven.
        (OPENED + "ls\n</parameter>\nw\n- " + OPENED + "x", []),
        # A tag given twice is one, and no closing sequence.
        (OPENED + "ls\n</function>\n</function>\nfoo", []),
        # A call that is JSON, and a plain call behind it.
        (JSON + "\n" + RUN + "\nfoo", runs("j", "ls")),
        ("As:\n" + JSON + "\n" + RUN + "\nfoo", runs("ls")),
        # What stands behind a quoted call on its line is quoted as well.
        (f"- {RUN}<function=run>\n<parameter=command>\nz{ENDS}\nfoo", []),
        # Between the undeclared call and the plain one a call is indented.
        (f"{OTHER}x{ENDS}\n  {RUN}\n{OPENED}z{ENDS}", runs("z")),
        # An invented key, while a required one is missing.
        (
            f"{PATH}<parameter=command>\nd\n</parameter>\n<parameter=mode>\nm{ENDS}",
            [("write", {"path": "/a", "command": "d", "mode": "m"})],
        ),
        (
            OPENED + "a\n</parameter>\nw\n</parameter>" + INVENTED + ENDS,
            runs("a\n</parameter>\nw", z="v"),
        ),
        # The block's parameter is not open, and its tool has no such key.
        (
            f"{PATH}<parameter=content>\n{OPENED}x\n</parameter>\n</parameter>"
            + INVENTED
            + ENDS,
            [
                (
                    "write",
                    {"path": "/a", "content": OPENED + "x\n</parameter>", "z": "v"},
                )
            ],
        ),
        # The closing tag behind the call is not prose of the next one's line.
        (f"{RUN}\n</tool_call> {RUN}\nfoo", runs("ls", "ls")),
        # Behind prose closing tags are forgiven as in a call on its own line.
        (f"Now {LINE}</tool_call>", runs("ls")),
        (f"Now {LINE}</tool_call>\n", runs("ls")),
        # A fence in the value of a call to an undeclared tool.
        (f"{OTHER}```\nb{ENDS}\n{RUN}\nfoo", [("u", {"x": "```\nb"}), *runs("ls")]),
        # A declared tool needs no <tool_call>.
        ("- <function=run>\n<parameter=command>\nls" + ENDS, runs("ls")),
        # Behind the line of a call its closing sequence is held as any other.
        (f"Now <tool_call>{LINE}</parameter></function>\nfoo", runs("ls")),
    ],
)
def test_evidence(text: str, calls: list[tuple[str, dict[str, str]]]) -> None:
    assert read(text)[0] == calls


def test_evidence_of_the_position_loses_no_text() -> None:
    # The code fence ends in the value, so the call was an example.
    assert read("E:\n```\n" + OPENED + "a\n```\nx" + ENDS, reasoning=True)[0] == []
    assert read(f"Now {LINE}</parameter></function>\nfoo", cut=True)[0] == []
    assert read(RUN + "\n<") == (runs("ls"), "<")
    assert read(RUN + "\n</think>", reasoning=True, cut=True) == ([], RUN + "\n")


def test_plain_reasoning_is_not_cut_into_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = QwenToolReader(("write",), reasoning=True)
    told = reader.feed("Hm,")
    monkeypatch.setattr(qwen_tool_tokens.Lexer, "_add_text", None)
    for piece in (" what\n", "is a", "\n\n", "a > b?", "\n"):
        told += reader.feed(piece)
    monkeypatch.undo()
    told += reader.feed("</think>Yes.") + reader.finish()
    kinds = "REASONING", "CONTENT"
    texts = ["".join(text for kind, text in told if kind == one) for one in kinds]
    assert texts == ["Hm, what\nis a\n\na > b?\n", "Yes."]
