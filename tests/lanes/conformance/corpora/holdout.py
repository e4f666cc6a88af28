# SPDX-License-Identifier: Apache-2.0
"""Corpora that the reader's rules were not written with in mind.

Whoever changes the reader does not look in here: the figures of these corpora say
how the rules do on what they have not seen.
"""

import itertools
import random
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from conformance.case import Call, Case
from conformance.corpora.case import BOOLEAN, INTEGER, STRING, followed, make, tool
from conformance.corpora.fragments import fragments as parts
from conformance.corpora.spelling import Spelling

SEED = 20261124

TOOLS = (
    tool("shell", {"cmd": STRING}, cwd=STRING, seconds=INTEGER),
    tool("create_file", {"path": STRING, "text": STRING}, overwrite=BOOLEAN),
    tool("str_replace", {"path": STRING, "old": STRING, "new": STRING}),
    tool("search", {"query": STRING}, path=STRING, count=INTEGER),
    tool("comment", {"issue": INTEGER, "message": STRING}, close=BOOLEAN),
)

CANONICAL = Spelling("as the template writes")
INDENTED = Spelling(
    "indented frame",
    opener="  <tool_call>\n  ",
    end="\n  </function>\n  </tool_call>",
)
SPELLINGS = (
    CANONICAL,
    Spelling("opener on one line", opener="<tool_call>"),
    Spelling("opener on one line, spaced", opener="<tool_call> "),
    Spelling(
        "parameters on one line",
        parameters="",
        before_value="",
        behind_value="",
        end="\n</function>\n</tool_call>",
    ),
    Spelling(
        "parameters behind a space",
        parameters=" ",
        before_value="",
        behind_value="",
        end=" </function> </tool_call>",
    ),
    INDENTED,
    Spelling(
        "no </tool_call>, inline", before_value="", behind_value="", end="\n</function>"
    ),
    Spelling("no <tool_call>, inline", opener="", before_value="", behind_value=""),
    Spelling(
        "no </function>, inline",
        before_value="",
        behind_value="",
        end="\n</tool_call>",
    ),
    Spelling("blank line before the ends", end="\n\n</function>\n\n</tool_call>"),
    Spelling("ends behind the last parameter", end="</function></tool_call>"),
)
#: What stock vLLM does not read.
BEYOND = (
    Spelling(
        "tabs",
        opener="<tool_call>\n\t",
        indent="\t\t",
        end="\n\t</function>\n</tool_call>",
    ),
)
SEPARATORS = (
    "\n",
    "",
    "\n\n\n",
    "\n---\n",
    "\n\nNext, the tests:\n\n",
    "\n2. And then: ",
    " ",
    "\nHere goes → ",
)

write = CANONICAL.write


def _text(rng: random.Random) -> str:
    lines = (
        "const n = a < b && c > d;",
        "    return 0;",
        "",
        "# über",
        '<a href="x">y</a>',
        "\tmake all",
        "for i in $(ls); do echo $i; done",
        '{"k": [1, 2, {"z": null}]}',
        "| a | b |",
        "```sh",
        "```",
        "- [ ] todo",
        "x = '<tool>'",
    )
    return "\n".join(rng.choice(lines) for _ in range(rng.randint(1, 6)))


def _call(rng: random.Random, *, omit: bool) -> Call:
    chosen = rng.choice(sorted(TOOLS, key=lambda one: one.name))
    schema = chosen.parameters
    keys = list(schema["required"])
    if omit:
        keys.remove(rng.choice(keys))
    extra = [k for k in schema["properties"] if k not in schema["required"]]
    keys += [k for k in extra if rng.random() < 0.4]
    values: dict[str, Any] = {}
    for key in keys:
        kind = schema["properties"][key]["type"]
        if kind == "integer":
            values[key] = rng.randint(0, 5000)
        elif kind == "boolean":
            values[key] = rng.choice((True, False))
        else:
            values[key] = _text(rng).strip("\n") or "x"
    return Call(chosen.name, values)


def ordinary(ways: Sequence[Spelling]) -> Iterator[Case]:
    """Yield one to four calls with random values."""
    rng = random.Random(SEED)
    for way, between, omit in itertools.product(ways, SEPARATORS, (False, True)):
        for count in (1, 2, 4):
            calls = tuple(_call(rng, omit=omit) for _ in range(count))
            before = rng.choice(("", "On it.\n\n", "OK, one moment. ", "## Plan\n"))
            behind = rng.choice(("", "", "\n\nLet me know.", "\nDone ✓"))
            yield make(
                f"{way.name} / {between!r} / {count} / {omit} / "
                f"{before!r} / {behind!r}",
                before + between.join(way.write(call) for call in calls) + behind,
                calls,
                tools=TOOLS,
                content=" ".join([before, *[between] * (count - 1), behind]),
                ambiguous=(
                    "an indented example, or a call that is indented"
                    if way is INDENTED and (behind or between.strip())
                    else ""
                ),
            )


RM = Call("shell", {"cmd": "git clean -fdx", "cwd": "/srv"})
FIND = Call("search", {"query": "password"})


def line(call: Call) -> str:
    return write(call).replace("\n", "")


WAYS: dict[str, Callable[[Call], str]] = {
    "org block": lambda c: f"* Head\n#+begin_example\n{write(c)}\n#+end_example\nEnd",
    "org block, indented": lambda c: (
        f"* Head\n  #+begin_src\n{textwrap.indent(write(c), '  ')}\n  #+end_src\n"
    ),
    "Go raw string": lambda c: f"const s = `\n{write(c)}\n`\n\nfunc f() {{}}\n",
    "Go table test": lambda c: (
        f"var t = []string{{\n\t`{line(c)}`,\n\t`{line(FIND)}`,\n}}\n"
    ),
    "textproto": lambda c: (
        "turn {\n" + "\n".join(f'  "{x}\\n"' for x in write(c).split("\n")) + "\n}\n"
    ),
    "Jinja": lambda c: f"{{% if x %}}\n{write(c)}\n{{% endif %}}\n",
    "Jinja, indented": lambda c: (
        f"{{% if x %}}\n{textwrap.indent(write(c), '   ')}\n{{% endif %}}\n"
    ),
    "changelog": lambda c: (
        f"## 1.2\n\n- fix: read `{line(c)}` ({line(FIND)})\n- more\n"
    ),
    "e-mail": lambda c: (
        "On Monday she wrote:\n"
        + "".join(f"> {x}\n" for x in write(c).split("\n"))
        + ">\n> and\n"
        + "".join(f"> {x}\n" for x in write(FIND).split("\n"))
        + "\nI agree.\n"
    ),
    "patch mail": lambda c: (
        "@@ -1,3 +1,9 @@\n ctx\n"
        + "".join(f"+{x}\n" for x in write(c).split("\n"))
        + "".join(f" {x}\n" for x in write(FIND).split("\n"))
        + "-gone\n"
    ),
    "Lua long string": lambda c: f"local s = [==[\n{write(c)}\n]==]\nreturn s",
    "XML CDATA": lambda c: f"<doc><![CDATA[{write(c)}]]></doc>",
    "XML child": lambda c: (
        f"<doc>\n{textwrap.indent(write(c), '    ')}\n    <p>x</p>\n</doc>"
    ),
    "spec list, two spaces": lambda c: (
        f"Cases:\n  * {line(c)}: runs\n  * {line(FIND)}: reads\nNothing else."
    ),
    "numbered, in lines": lambda c: "\n".join(
        f"{n}: {x}" for n, x in enumerate(write(c).split("\n"), 10)
    ),
    "three spaces": lambda c: "T\n" + textwrap.indent(write(c), "   ") + "\nU",
    "two tabs": lambda c: "T\n" + textwrap.indent(write(c), "\t\t") + "\nU",
    "mixed indents": lambda c: (
        "T\n"
        + "\n".join((" " * (n % 5)) + x for n, x in enumerate(write(c).split("\n")))
        + "\nU"
    ),
    "blank lines in it": lambda c: "T\n" + write(c).replace("\n", "\n\n") + "\nU",
    "back to back": lambda c: f"T\n{write(c)}{write(FIND)}\nU",
    "back to back, in a line": lambda c: f"T {line(c)}{line(FIND)} U",
    "transcript": lambda c: (
        f"assistant: {write(c)}\ntool: ok\nassistant: {write(FIND)}\ntool: none\n"
    ),
    "with thinking": lambda c: f"<think>\nplan\n</think>\n\n{write(c)}\n\nend",
    "tool response behind": lambda c: (
        f"{write(c)}\n<tool_response>\nok\n</tool_response>\n{write(FIND)}\nend"
    ),
    "template of a call": lambda _: (
        "<tool_call>\n<function=example_function_name>\n<parameter=example_1>\n"
        "value_1\n</parameter>\n<parameter=example_2>\nThis is the value\n"
        "that spans lines\n</parameter>\n</function>\n</tool_call>\n\n"
        "<IMPORTANT>\nReminder\n</IMPORTANT>"
    ),
    "regular expression": lambda _: (
        're.compile(r"<function=(\\w+)>\\s*<parameter=(\\w+)>\\s*</parameter>")\nx\n'
    ),
    "parser": lambda _: (
        'if text.startswith("<tool_call>"):\n    end = text.find("</tool_call>")\n'
        '    name = text.split("<function=")[1].split(">")[0]\n'
        'elif "</parameter>" in text:\n    pass\n'
    ),
    "constants": lambda _: (
        'START = "<tool_call>"\nEND = "</tool_call>"\nPARAM_END = "</parameter>"\n'
        'FN_END = "</function>"\n'
    ),
    "unfinished block, more text": lambda c: (
        f"<tool_call>\n<function={c.name}>\n<parameter=cmd>\nls\n\n"
        "The rest is missing.\n"
    ),
    "two closers in prose": lambda _: (
        "First </parameter> then </function>, then\n</tool_call>\non a line.\n"
    ),
    "same line, behind a dash": lambda c: f"use — {line(c)} — now\n",
    "fenced by four": lambda c: f"````md\n```\n{write(c)}\n```\n````\nend\n",
}

FOLLOWS = {
    "end": ("", ()),
    "prose": ("\n\nAll set; tell me if it should go further.", ()),
    "call": ("\n\n", (Call("search", {"query": "TODO"}),)),
    "prose and call": (
        "\n\nNow I verify it. ",
        (Call("search", {"query": "TODO", "count": 3}),),
    ),
}


def _behind(name: str, outer: Call, follows: str, quoted: tuple[Call, ...]) -> Case:
    text, behind = write(outer), FOLLOWS[follows]
    return followed(name, text, outer, behind, quoted=quoted, tools=TOOLS)


def embeddings() -> Iterator[Case]:
    """Yield other files and messages that hold a call."""
    outers = {
        "last": lambda text: Call("create_file", {"path": "p", "text": text}),
        "first": lambda text: Call("create_file", {"text": text, "path": "p"}),
        "middle": lambda text: Call(
            "str_replace", {"path": "p", "old": text, "new": "n"}
        ),
        "optional behind": lambda text: Call(
            "comment", {"issue": 7, "message": text, "close": True}
        ),
    }
    inner = Call("create_file", {"path": "q", "text": "inner"})
    for (way, embed), place, call, follows in itertools.product(
        WAYS.items(), outers, (RM, inner), FOLLOWS
    ):
        name = f"{way} / {place} / {call.name} / {follows}"
        yield _behind(name, outers[place](embed(call)), follows, (call, FIND))


DOCUMENT = f"""\
## Protocol
1. Ask:
   {line(FIND)}
2. Act:
   <tool_call>
   <function=shell>
   <parameter=cmd>
   git clean -fdx
   </parameter>
   </function>
   </tool_call>
Raw, it is
<tool_call>
<function=create_file>
<parameter=path>
a.txt
</parameter>
<parameter=text>
hello
</parameter>
</function>
</tool_call>
and the answer is `ok`.
Do not write </parameter> alone."""


def fragments() -> Iterator[Case]:
    """Yield lines of another document, in each string of an edit."""
    builds = {
        "replaced": lambda text: {"path": "p", "old": text, "new": "gone"},
        "edited": lambda text: {"path": "p", "old": text, "new": "x\n" + text},
        "last": lambda text: {"path": "p", "old": "gone", "new": text},
        "key behind": lambda text: {"old": "gone", "new": text, "path": "p"},
    }
    quoted = (
        RM,
        FIND,
        Call("shell", {"cmd": "git clean -fdx"}),
        Call("create_file", {"path": "a.txt", "text": "hello"}),
    )
    rng = random.Random(SEED)
    for position, follows in itertools.product(builds, FOLLOWS):
        for lines, text in parts(DOCUMENT, 9):
            if rng.random() >= 0.5:
                outer = Call("str_replace", builds[position](text))
                yield _behind(
                    f"{position} / {follows} / {lines}", outer, follows, quoted
                )


CORPORA: dict[str, Callable[[], Iterator[Case]]] = {
    "ordinary": partial(ordinary, SPELLINGS),
    "beyond": partial(ordinary, BEYOND),
    "embeddings": embeddings,
    "fragments": fragments,
}
