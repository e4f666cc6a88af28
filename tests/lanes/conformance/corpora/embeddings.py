# SPDX-License-Identifier: Apache-2.0
"""Values that quote a call, in the ways in which files and messages hold one.

Value × way of embedding × place of the parameter × what the quote names × what
follows.  The intended reading is always the same: the value arrives as it was
written, and what it quotes does not run.
"""

import html
import itertools
import json
import textwrap
from collections.abc import Callable, Iterator

from conformance.case import Call, Case
from conformance.corpora import spelling as spellings
from conformance.corpora.case import followed

Way = Callable[[Call], str]

QUOTED = Call("bash", {"command": "rm -rf build", "description": "Clean up"})
UNDECLARED = Call("WebFetch", {"url": "https://example.org/a?b=1", "prompt": "Sum up"})
SECOND_QUOTED = Call("read", {"file_path": "docs/secret.txt"})


canonical = Call.rendered
one_line = spellings.ONE_LINE.write


def _two(call: Call) -> str:
    return canonical(call) + "\n" + canonical(SECOND_QUOTED)


def _indent(by: str) -> Way:
    return lambda call: "Example:\n" + textwrap.indent(canonical(call), by) + "\nEnd."


def _around(before: str, behind: str, write: Way = canonical) -> Way:
    return lambda call: before + write(call) + behind


def _lines(prefix: str, before: str, behind: str, write: Way = canonical) -> Way:
    def embed(call: Call) -> str:
        lines = [prefix + line for line in write(call).split("\n")]
        return before + "\n".join(lines) + behind

    return embed


def _listed(mark: str, before: str, behind: str, write: Way = canonical) -> Way:
    """Return the call as an item of a list, its further lines under the first."""

    def embed(call: Call) -> str:
        text = write(call).replace("\n", "\n" + " " * len(mark))
        return before + mark + text + behind

    return embed


def _spelled(spelling: spellings.Spelling, before: str, behind: str) -> Way:
    return _around(before, behind, spelling.write)


def _python_list(call: Call) -> str:
    lines = [f"    '{one_line(call)}'," for call in (call, SECOND_QUOTED)]
    return "CALLS = [\n" + "\n".join(lines) + "\n]\n"


def _items(indent: str) -> Way:
    return lambda call: f"calls:\n{textwrap.indent(_two(call), indent)}\nrest: 1"


def _nested(inner: str, outer: str) -> Way:
    def embed(call: Call) -> str:
        content = f"See:\n{textwrap.indent(canonical(call), inner)}\nthere."
        file = Call("write", {"file_path": "inner.md", "content": content})
        return f"A file in a file:\n{textwrap.indent(canonical(file), outer)}\nEnd."

    return embed


def _diff(mark: str) -> Way:
    head = "--- a/README.md\n+++ b/README.md\n@@ -1,9 +1,9 @@\n # Title\n"
    return _lines(mark, head, "\n-old\n+new\n")


#: The ways that the rules were written with in mind.
FIRST: dict[str, Way] = {
    "raw, at column 0": _around("Intro\n\n", "\n\nOutro"),
    "raw, no blank lines": _around("Intro\n", "\nOutro"),
    "raw, first in the value": _around("", "\nOutro"),
    "raw, last in the value": _around("Intro\n", ""),
    "raw, alone": _around("", ""),
    "raw, two": lambda call: f"Intro\n{_two(call)}\nOutro",
    "raw, two, prose between": lambda call: (
        f"Intro\n{canonical(call)}\nand\n{canonical(SECOND_QUOTED)}\nOutro"
    ),
    "raw, two, first in the value": lambda call: f"{_two(call)}\nOutro",
    "raw, two, last in the value": lambda call: f"Intro\n{_two(call)}",
    "indented by 1": _indent(" "),
    "indented by 2": _indent("  "),
    "indented by 4": _indent("    "),
    "indented by 8": _indent("        "),
    "indented by a tab": _indent("\t"),
    "indented, last in the value": lambda call: (
        "Example:\n" + textwrap.indent(canonical(call), "    ")
    ),
    "indented, first in the value": lambda call: (
        textwrap.indent(canonical(call), "    ") + "\nEnd."
    ),
    "indented, alone": lambda call: textwrap.indent(canonical(call), "  "),
    "indented, two in a list": _items("  "),
    "indented, two by a tab": _items("\t"),
    "YAML block": _lines("  ", "prompt: |\n", "\nmodel: qwen\n"),
    "YAML block, folded": _lines("    ", "a:\n  text: >-\n", "\n  n: 1\n"),
    "YAML list item": _listed("- ", "calls:\n", "\n- other\n"),
    "YAML list of blocks": _lines(
        "      ", "- role: x\n  content: |\n", "\n- role: y\n"
    ),
    "YAML, one line": _around("call: '", "'\nn: 1\n", one_line),
    "YAML, two items on a line each": lambda call: (
        f"calls:\n  - '{one_line(call)}'\n  - '{one_line(SECOND_QUOTED)}'\nn: 1\n"
    ),
    "Markdown list item": _listed("- ", "Steps:\n", "\n- then stop"),
    "Markdown star item": _listed("* ", "Steps:\n", "\n* then stop"),
    "Markdown numbered item": _listed("1. ", "Steps:\n\n", "\n2. Stop."),
    "Markdown nested item": _listed("  - ", "- Steps:\n", "\n- then stop"),
    "Markdown, one line in a list": _around("- first\n- ", "\n- last", one_line),
    "block quote": _lines("> ", "He wrote:\n", "\nand stopped."),
    "block quote without space": _lines(">", "He wrote:\n", "\nand stopped."),
    "nested block quote": _lines("> > ", "> He wrote:\n", "\n\nand stopped."),
    "fenced": _around("Intro\n```\n", "\n```\nOutro"),
    "fenced, with a language": _around("Intro\n```xml\n", "\n```\nOutro"),
    "fenced by tildes": _around("Intro\n~~~\n", "\n~~~\nOutro"),
    "fenced, last in the value": _around("Intro\n```\n", "\n```"),
    "fenced in a list": _lines("  ", "- one:\n  ```\n", "\n  ```\n- two"),
    "fence never closed": _around("Intro\n```\n", "\nOutro"),
    "inline code": _around("Write `", "` and stop.", one_line),
    "diff context": _diff(" "),
    "diff, added": _diff("+"),
    "diff, removed": _diff("-"),
    "dedent string": lambda call: (
        'TEXT = dedent("""\\\n'
        + textwrap.indent(canonical(call), "    ")
        + '\n    """)\n'
    ),
    "dedent string, two": lambda call: (
        'TEXT = dedent("""\n    '
        + _two(call).replace("\n", "\n    ")
        + '\n""")\nprint(TEXT)\n'
    ),
    "Python string at column 0": _around('TEXT = """\n', '\n"""\nprint(TEXT)\n'),
    "Python string, behind the quotes": _around('TEXT = """', '"""\nprint(TEXT)\n'),
    "Python, two strings on a line each": lambda call: (
        f'first = "{one_line(call)}"\nsecond = "{one_line(SECOND_QUOTED)}"\n'
    ),
    "Python, a list of lines": _python_list,
    "JSON, escaped": lambda call: json.dumps(
        {"role": "assistant", "content": canonical(call)}
    ),
    "JSON, escaped and indented": lambda call: json.dumps(
        {"messages": [{"content": canonical(call)}], "n": 1}, indent=2
    ),
    "JSON, as it stands": _around('{\n  "call": "', '",\n  "n": 1\n}', one_line),
    "one line in a sentence": _around("Then it writes ", " and goes on.", one_line),
    "one line, alone on its line": _around("Then:\n", "\nand so on.", one_line),
    "one line, last in the value": _around("Then:\n", "", one_line),
    "one line, in quotes": _around('It says "', '" there.', one_line),
    "one line, in brackets": _around("A call (", ") is one.", one_line),
    "comment": _lines("# ", "x = 1\n", "\ny = 2\n"),
    "comment of two slashes": _lines("// ", "let x = 1;\n", "\nlet y = 2;\n"),
    "comment of C": _lines(" * ", "/**\n", "\n */\nint x;\n"),
    "comment, one line": _around("x = 1  # ", "\ny = 2\n", one_line),
    "HTML pre": _around("<pre>", "</pre>\n<p>x</p>", canonical),
    "HTML pre on lines": _around("<pre>\n", "\n</pre>\n<p>x</p>"),
    "HTML pre, indented": _lines("    ", "<div>\n  <pre>\n", "\n  </pre>\n</div>"),
    "HTML, escaped": lambda call: f"<pre>{html.escape(canonical(call))}</pre>",
    "HTML comment": _around("<!--\n", "\n-->\n<p>x</p>"),
    "nested": _nested("", ""),
    "nested and indented": _nested("  ", "    "),
}


def _shell(call: Call) -> str:
    return f"cat > x.txt <<'EOF'\n{canonical(call)}\nEOF\necho done\n"


#: Ways that came later.
OTHERS: dict[str, Way] = {
    "shell heredoc": _shell,
    "shell heredoc, indented": lambda call: textwrap.indent(_shell(call), "\t"),
    "table": _around("| call | what |\n|---|---|\n| ", " | cleans |\n", one_line),
    "conversation": _around(
        "<|im_start|>user\nClean up.<|im_end|>\n<|im_start|>assistant\n",
        "<|im_end|>\n<|im_start|>user\n<tool_response>\nok\n</tool_response>"
        "<|im_end|>\n",
    ),
    "log lines": _lines("2026-01-02 10:00:00 INFO ", "start\n", "\nstop\n"),
    "log line": _around("INFO out=", "\nINFO done\n", one_line),
    "CSV": lambda call: f'id,text\n1,"{one_line(call)}"\n2,"x"\n',
    "TOML string": _around('text = """\n', '\n"""\nn = 1\n'),
    "INI, indented": _lines("\t", "[a]\ntext =\n", "\nn = 1\n"),
    "LaTeX verbatim": _around("\\begin{verbatim}\n", "\n\\end{verbatim}\nText."),
    "reStructuredText": _lines("   ", "Text::\n\n", "\n\nMore."),
    "AsciiDoc": _around("----\n", "\n----\nMore."),
    "Rust raw string": _lines("        ", 'let s = r#"\n', '\n    "#;\n'),
    "JavaScript template": _around("const s = `", "`;\nrun(s);\n"),
    "JavaScript, + on lines": lambda call: (
        "const s =\n"
        + " +\n".join(f"  '{line}\\n'" for line in canonical(call).split("\n"))
        + ";\n"
    ),
    "C string on lines": lambda call: (
        "char *s =\n"
        + "\n".join(f'  "{line}\\n"' for line in canonical(call).split("\n"))
        + ";\n"
    ),
    "assert": _around("assert read('", "') == []\n", one_line),
    "two asserts": lambda call: (
        f"assert read('{one_line(call)}') == 1\n"
        f"assert read('{one_line(SECOND_QUOTED)}') == 2\n"
    ),
    "parametrize": lambda call: (
        "CASES = (\n"
        + "".join(f'    ("{one_line(c)}", 1),\n' for c in (call, SECOND_QUOTED, call))
        + ")\n"
    ),
    "block without </tool_call>": _spelled(spellings.NO_END, "Intro\n", "\nOutro"),
    "block without </tool_call>, last": _spelled(spellings.NO_END, "Intro\n", ""),
    "block without </function>": _spelled(
        spellings.NO_FUNCTION_END, "Intro\n", "\nOutro"
    ),
    "block without <tool_call>": _spelled(spellings.NO_OPENER, "Intro\n", "\nOutro"),
    "bare block": _spelled(spellings.BARE, "Intro\n", "\nOutro"),
    "bare block, indented": _lines("  ", "Intro\n", "\nOutro", spellings.BARE.write),
    "bare block, last": _spelled(spellings.BARE, "Intro\n", ""),
    "block, closer behind the text": _spelled(
        spellings.CLOSER_BEHIND, "Intro\n", "\nOutro"
    ),
    "block, inline": _spelled(spellings.INLINE, "Intro\n", "\nOutro"),
    "block, inline, indented": _lines("    ", "In\n", "\nOut", spellings.INLINE.write),
    "block, inline, last": _spelled(spellings.INLINE, "Intro\n", ""),
    "block, pretty-printed": _spelled(spellings.PRETTY, "Intro\n", "\nOutro"),
    "block, pretty-printed, inline": _spelled(
        spellings.PRETTY_INLINE, "Intro\n", "\nOutro"
    ),
    "block, pretty-printed, last": _spelled(spellings.PRETTY, "Intro\n", ""),
    "block, CRLF": _spelled(spellings.CRLF, "Intro\r\n", "\r\nOutro\r\n"),
    "block, blank lines": _spelled(spellings.BLANK_LINES, "Intro\n", "\nOutro"),
    "block, ends on one line": _spelled(spellings.JOINED_ENDS, "Intro\n", "\nOutro"),
    "block, names in quotes": _spelled(spellings.QUOTED_NAMES, "Intro\n", "\nOutro"),
    "block without last </parameter>": _spelled(
        spellings.NO_PARAMETER_END, "Intro\n", "\nOutro"
    ),
    "block without parameters": lambda call: (
        f"Intro\n{canonical(Call(call.name, {}))}\nOutro"
    ),
    "empty block": lambda call: (
        f"Intro\n<tool_call>\n<function={call.name}></function>\n</tool_call>\nOutro"
    ),
    "block, an empty value": lambda call: (
        "Intro\n"
        + canonical(Call(call.name, dict.fromkeys(call.arguments, "")))
        + "\nOutro"
    ),
    "block, blank line in its value": lambda call: (
        "Intro\n"
        + canonical(Call(call.name, dict.fromkeys(call.arguments, "a\n\nb")))
        + "\nOutro"
    ),
    "one line, in a sentence at its start": _around("", " is a call.", one_line),
    "one line, twice in a sentence": lambda call: (
        f"Not {one_line(call)} but {one_line(SECOND_QUOTED)} is right."
    ),
    "one line, behind a colon": _around("Right: ", "\nWrong: x", one_line),
    "one line, indented": _around("Right:\n    ", "\nWrong: x", one_line),
    "one line, indented, two": lambda call: (
        f"Right:\n    {one_line(call)}\n    {one_line(SECOND_QUOTED)}\nWrong: x"
    ),
    "one line, bare": _around("Right: ", " or not", spellings.ONE_LINE_BARE.write),
    "one line, bare, alone on its line": _around(
        "Right:\n", "\nor not", spellings.ONE_LINE_BARE.write
    ),
    "mention of openers": lambda call: (
        f"Models write <tool_call> and\n<function={call.name}> before that.\nEnd."
    ),
    "mention of one opener": lambda call: (
        f"Write `<function={call.name}>` first.\nEnd."
    ),
    "mention of one opener on a line": lambda call: (
        f"In:\n<function={call.name}>\nEnd."
    ),
    "mention of <tool_call> on a line": lambda _: "Models write\n<tool_call>\nfirst.",
    "mention of closers": lambda _: "It ends with `</parameter>` and `</function>`.",
    "mention of closers on lines": lambda _: "It ends with\n</parameter>\nand so on.",
    "mention of </tool_call>": lambda _: "Behind </tool_call> stands nothing.\nEnd.",
    "mention of a parameter": lambda _: "Write <parameter=command> and the text.\nEnd.",
    "mention of a parameter on a line": lambda _: "Write\n<parameter=command>\nfirst.",
    "half a block: opener": lambda call: (
        f"It began\n<tool_call>\n<function={call.name}>\nand broke off."
    ),
    "half a block: parameter": lambda call: (
        f"It began\n<tool_call>\n<function={call.name}>\n<parameter=command>\nls\n"
        "and broke off."
    ),
    "half a block: one parameter whole": lambda call: (
        f"It began\n<tool_call>\n<function={call.name}>\n<parameter=command>\nls\n"
        "</parameter>\nand broke off."
    ),
    "half a block: closers": lambda _: (
        "It went on\n</parameter>\n</function>\n</tool_call>\nand ended."
    ),
    "half a block: closers, indented": lambda _: (
        "It went on\n    </parameter>\n    </function>\n    </tool_call>\nand ended."
    ),
    "half a block: closers on one line": lambda _: (
        "It ends with </parameter></function></tool_call> and nothing else."
    ),
    "block, then half a block": lambda call: (
        f"Whole:\n{canonical(call)}\nHalf:\n<tool_call>\n<function={call.name}>\nEnd."
    ),
    "value in the block ends in a fragment": lambda call: (
        "In:\n"
        + canonical(Call(call.name, {"command": "echo '</parameter>'"}))
        + "\nOut"
    ),
    "think tags around": _around("<think>\nhm\n</think>\n", "\nOutro"),
    "JSON call": lambda call: (
        f'<tool_call>\n{{"name": "{call.name}", "arguments": {{"command": "ls"}}}}\n'
        "</tool_call>\nx"
    ),
    "tool definitions": _around(
        "<tools>\n{}\n</tools>\n\n", "\n\nReminder: x", canonical
    ),
    "three in prose": lambda call: (
        "\n\nor\n\n".join([canonical(call), canonical(SECOND_QUOTED), one_line(call)])
        + "\nEnd."
    ),
    "three fenced": lambda call: (
        "\n".join(f"```\n{canonical(c)}\n```" for c in (call, SECOND_QUOTED, call))
        + "\nEnd."
    ),
    "indented, blank lines around": lambda call: (
        "A:\n\n" + textwrap.indent(canonical(call), "    ") + "\n\nB"
    ),
    "indented, closers at column 0": lambda call: (
        "A:\n    " + canonical(call).replace("\n<", "\n    <", 3) + "\nB"
    ),
    "indented unevenly": lambda call: (
        "A:\n  " + canonical(call).replace("\n<p", "\n      <p") + "\nB"
    ),
    "spaces behind the tags": lambda call: (
        "A:\n" + canonical(call).replace(">\n", ">  \n") + "\nB"
    ),
    "no break space before": _lines("\u00a0", "A:\n", "\nB"),
    "emoji before": _lines("🔧 ", "A:\n", "\nB"),
    "line numbers": lambda call: (
        "\n".join(f"{i:>6}\t{x}" for i, x in enumerate(canonical(call).split("\n"), 1))
        + "\n"
    ),
    "grep output": _lines("docs/a.md:12:", "", "\n"),
}

#: Ways of which another reading can be defended, whatever the reader.
AMBIGUOUS = {
    "block without </tool_call>, last": (
        "the block's own </tool_call> may be missing, or the call's"
    ),
    "bare block, last": "the closers may be the block's or the call's",
}

FOLLOWS = {
    "end": ("", ()),
    "prose": ("\n\nI have written the example.", ()),
    "call": ("\n", (Call("bash", {"command": "git status"}),)),
    "prose and call": ("\nNow look.\n", (Call("bash", {"command": "git status"}),)),
}


def plain(ways: dict[str, Way]) -> Iterator[Case]:
    """Yield each way once: a file is written, and nothing follows."""
    for way, embed in ways.items():
        outer = Call("write", {"file_path": "a.md", "content": embed(QUOTED)})
        yield followed(
            way,
            outer.rendered(),
            outer,
            FOLLOWS["end"],
            quoted=(QUOTED, SECOND_QUOTED),
            ambiguous=AMBIGUOUS.get(way, ""),
        )


PLACES: dict[str, Callable[[str], Call]] = {
    "last": lambda text: Call("note", {"title": "t", "body": text}),
    "first, required behind": lambda text: Call("note", {"body": text, "title": "t"}),
    "middle, optional behind": lambda text: Call(
        "note", {"title": "t", "body": text, "tags": "a"}
    ),
    "middle, both behind": lambda text: Call(
        "note", {"color": "red", "body": text, "tags": "a", "title": "t"}
    ),
    "last, required omitted": lambda text: Call("note", {"color": "red", "body": text}),
}

QUOTES = {
    "declared": QUOTED,
    "undeclared": UNDECLARED,
    "same tool": Call("note", {"title": "inner", "body": "inner text"}),
}


def _ambiguity(way: str, place: str, kind: str) -> str:
    never_ends = "half a block" in way and "closers" not in way
    if never_ends and "behind" in place and kind != "declared":
        return "a block that never ends may claim the parameters behind it"
    return AMBIGUOUS.get(way, "")


def crossed() -> Iterator[Case]:
    """Yield ways × place of the parameter × what the quote names × what follows."""
    ways = {**FIRST, **OTHERS}
    for way, place, kind, follows in itertools.product(ways, PLACES, QUOTES, FOLLOWS):
        call = QUOTES[kind]
        outer = PLACES[place](ways[way](call))
        yield followed(
            f"{way} / {place} / {kind} / {follows}",
            outer.rendered(),
            outer,
            FOLLOWS[follows],
            quoted=(call, SECOND_QUOTED),
            ambiguous=_ambiguity(way, place, kind),
        )
