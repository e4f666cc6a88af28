# SPDX-License-Identifier: Apache-2.0
"""The outputs that are measured, and how they are cut into steps.

The same in every process: nothing here is random.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.case import Call

#: The tools of every request.
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string"} for key in keys},
                "required": list(keys),
            },
        },
    }
    for name, keys in (("write", ("path", "content")), ("read", ("path",)))
]

#: Share of reasoning in front of an output that has some, in tokens of reasoning a
#: token of output; all of ``thought`` is reasoning.
REASONING_SHARE = 0.25

#: Calls of the workload ``calls64``.
CALLS = 64

#: Streams that are open at once in the workload ``streams64``.
STREAMS = 64

Step = tuple[str, list[int]]
Line = Callable[[random.Random], str]
#: Counts the tokens of a text.
Count = Callable[[str], int]


@dataclass(frozen=True)
class Workload:
    """One output, and the reasoning in front of it, for which a parser is switched
    on.
    """

    name: str
    output: str
    reasoning: str = ""


_NAMES = (  # noqa: SIM905 - quoted one by one they would hide what they are
    "total index buffer result chunk offset handle reader stream "
    "parser count limit state queue label"
).split()
_WORDS = (  # noqa: SIM905
    "the a value that each file step of when is not and with which reads writes "
    "holds first last text line token name server client request answer before after "
    "between long short whole part open closed naïve über 数据 – “quoted”"
).split()
_MARKUP = (
    '<div class="note"><b>{0}</b> &amp; <i>{1}</i></div>\n',
    "A call ends with </tool_call>, a function with </function>; "
    "{0} < {1} and {1} > {0}.\n",
    "```xml\n<tool_call>\n<function=read>\n<parameter=path>\n/{0}/{1}\n"
    "</parameter>\n</function>\n</tool_call>\n```\n",
    "<ul><li>{0}</li><li>{1}</li></ul><!-- <parameter={0}> -->\n",
    "if ({0} < {1} && {1}<<2) {{ return <{0}>; }}\n",
)


def source_line(rng: random.Random) -> str:
    one, two, three = (rng.choice(_NAMES) for _ in range(3))
    return rng.choice(
        (
            f"    {one} = {two}[{rng.randrange(1000)}] + {three}\n",
            f"    if {one} < {two} and not {three}:\n",
            f'        raise ValueError(f"{one} {{{two}}} is \\"{three}\\"")\n',
            f"def {one}_{two}({three}: int = {rng.randrange(100)}) -> str:\n",
            f"    # {one} {' '.join(rng.choice(_WORDS) for _ in range(6))}\n",
            f"    return {one}.{two}({three}, '{one}\\t{two}')\n",
            "\n",
        )
    )


def prose_line(rng: random.Random) -> str:
    first, *words = [rng.choice(_WORDS) for _ in range(rng.randrange(8, 20))]
    return f"{first.capitalize()} {' '.join(words)}." + "\n" * rng.choice((1, 1, 2))


def markup_line(rng: random.Random) -> str:
    """Return a line that is full of tags, those of the tool-call format among them;
    complete blocks are quoted.
    """
    return rng.choice(_MARKUP).format(rng.choice(_NAMES), rng.choice(_NAMES))


def text_of(tokens: int, line: Line, count: Count) -> str:
    """Return whole lines of at least ``tokens`` tokens; its ends are letters."""
    rng = random.Random(tokens)
    parts = ["Text\n"]
    have = count(parts[0])
    while have < tokens:
        more = [line(rng) for _ in range(max(1, (tokens - have) // 20))]
        parts += more
        have += count("".join(more))
    return "".join(parts).rstrip("\n") + "\nend"


def _string(tokens: int, line: Line, count: Count) -> str:
    text = text_of(tokens, line, count)
    return Call("write", {"path": "/src/main.py", "content": text}).rendered()


def _calls(tokens: int, count: Count) -> str:
    text = text_of(max(8, tokens // CALLS), source_line, count)
    return "\n".join(
        Call("write", {"path": f"/src/{n}.py", "content": text}).rendered()
        for n in range(CALLS)
    )


def _behind(tokens: int, count: Count) -> str:
    """Return a call whose closing sequence may be part of its value: prose follows."""
    return f"{_string(8, source_line, count)}\n{text_of(tokens, prose_line, count)}"


_KINDS: dict[str, Callable[[int, Count], str]] = {
    "string": lambda tokens, count: _string(tokens, source_line, count),
    "markup": lambda tokens, count: _string(tokens, markup_line, count),
    "behind": _behind,
    "calls64": _calls,
    "prose": lambda tokens, count: text_of(tokens, prose_line, count),
    "streams64": lambda tokens, count: _string(tokens, source_line, count),
    "thought": lambda tokens, count: text_of(8, prose_line, count),
}

#: Names of all workloads; one with reasoning in front is called NAME+reasoning.
NAMES = tuple(name + more for name in _KINDS for more in ("", "+reasoning"))


def build(name: str, tokens: int, count: Count) -> Workload:
    """Return the workload of a name, about ``tokens`` tokens long, as ``count`` counts
    them.
    """
    kind, _, thinks = name.partition("+")
    output = _KINDS[kind](tokens, count)
    if not thinks:
        return Workload(name, output)
    share = 1 if kind == "thought" else REASONING_SHARE
    thought = text_of(max(16, int(tokens * share)), prose_line, count) + "."
    return Workload(name, f"{thought}\n</think>\n\n{output}", thought)


def steps_of(texts: list[str], ids: list[int], width: int) -> list[Step]:
    """Return steps of ``width`` tokens: what they add to the text, and their ids."""
    return [
        ("".join(texts[at : at + width]), ids[at : at + width])
        for at in range(0, len(ids), width)
    ]
