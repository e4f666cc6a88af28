# SPDX-License-Identifier: Apache-2.0
"""The outputs that are measured, and how they are cut into steps. The same in every process: nothing here is random."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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

#: A custom tool of /v1/responses, whose input is a text: Codex's apply_patch is one.
CUSTOM = {
    "type": "custom",
    "name": "edit",
    "description": "",
    "format": {"type": "text"},
}

#: Share of reasoning in front of an output that has some, in tokens of reasoning a token of output.
REASONING_SHARE = 0.25

#: Calls of the workload ``calls64``.
CALLS = 64

#: Streams that are open at once in the workload ``streams256``.
STREAMS = 256

Step = tuple[str, list[int]]


@dataclass(frozen=True)
class Workload:
    """One output, and what a client must read out of it."""

    name: str
    output: str
    reasoning: str = ""
    content: str = ""
    calls: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    @property
    def thinks(self) -> bool:
        """Whether the release's reasoning parser is switched on for it."""
        return bool(self.reasoning)

    @property
    def first_value(self) -> int | None:
        """Offset of the first character of the longest string value in the output; ``None`` without a call."""
        values = [value for _, arguments in self.calls for _, value in arguments]
        return self.output.index(max(values, key=len)) if values else None


_NAMES = (  # noqa: SIM905 - quoted one by one they would hide what they are
    "total index buffer result chunk offset handle reader stream parser count limit state queue label"
).split()
_WORDS = (  # noqa: SIM905
    "the a value that each file step of when is not and with which reads writes holds first last text line token name "
    "server client request answer before after between long short whole part open closed naïve über 数据 – “quoted”"
).split()
_MARKUP = (
    '<div class="note"><b>{0}</b> &amp; <i>{1}</i></div>\n',
    "A call ends with </tool_call>, a function with </function>; {0} < {1} and {1} > {0}.\n",
    "```xml\n<tool_call>\n<function=read>\n<parameter=path>\n/{0}/{1}\n</parameter>\n</function>\n</tool_call>\n```\n",
    "<ul><li>{0}</li><li>{1}</li></ul><!-- <parameter={0}> -->\n",
    "if ({0} < {1} && {1}<<2) {{ return <{0}>; }}\n",
)


def source_line(rng: random.Random) -> str:
    """A line such as a program has."""
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
    """A sentence, without any markup."""
    words = [rng.choice(_WORDS) for _ in range(rng.randrange(8, 20))]
    return f"{words[0].capitalize()} {' '.join(words[1:])}.{chr(10) * rng.choice((1, 1, 2))}"


def markup_line(rng: random.Random) -> str:
    """A line that is full of tags, those of the tool-call format among them; complete blocks are quoted."""
    return rng.choice(_MARKUP).format(rng.choice(_NAMES), rng.choice(_NAMES))


def text_of(
    tokens: int, line: Callable[[random.Random], str], count: Callable[[str], int]
) -> str:
    """Whole lines of at least ``tokens`` tokens, as few as can be, beginning with a letter and ending with one."""
    rng = random.Random(tokens)
    parts = ["Text\n"]
    have = count(parts[0])
    while have < tokens:
        more = [line(rng) for _ in range(max(1, (tokens - have) // 20))]
        parts += more
        have += count("".join(more))
    return "".join(parts).rstrip("\n") + "\nend"


def _call(name: str, *arguments: tuple[str, str]) -> str:
    values = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments
    )
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


def _string(
    name: str, tokens: int, line: Callable[[random.Random], str], count: Any
) -> Workload:
    arguments = (("path", "/src/main.py"), ("content", text_of(tokens, line, count)))
    return Workload(name, _call("write", *arguments), calls=(("write", arguments),))


def _custom(tokens: int, count: Any) -> Workload:
    arguments = (("input", text_of(tokens, source_line, count)),)
    return Workload("custom", _call("edit", *arguments), calls=(("edit", arguments),))


def _calls(tokens: int, count: Any) -> Workload:
    value = text_of(max(8, tokens // CALLS), source_line, count)
    calls = tuple(
        ("write", (("path", f"/src/{n}.py"), ("content", value))) for n in range(CALLS)
    )
    return Workload(
        "calls64",
        "\n".join(_call(name, *arguments) for name, arguments in calls),
        calls=calls,
    )


def _prose(tokens: int, count: Any) -> Workload:
    text = text_of(tokens, prose_line, count)
    return Workload("prose", text, content=text)


_KINDS: dict[str, Callable[[int, Any], Workload]] = {
    "string": lambda tokens, count: _string("string", tokens, source_line, count),
    "markup": lambda tokens, count: _string("markup", tokens, markup_line, count),
    "custom": _custom,
    "calls64": _calls,
    "prose": _prose,
    "streams256": lambda tokens, count: _string(
        "streams256", tokens, source_line, count
    ),
}

#: Names of all workloads; one with reasoning in front is called NAME+reasoning.
NAMES = tuple(_KINDS)


def build(name: str, tokens: int, count: Callable[[str], int]) -> Workload:
    """The workload NAME or NAME+reasoning, its text about ``tokens`` tokens long; ``count`` counts a text's tokens.

    Raises:
        ValueError: there is no workload of this name.
    """
    kind, _, mode = name.partition("+")
    if kind not in _KINDS or mode not in ("", "reasoning"):
        raise ValueError(
            f"no workload {name!r}; there are {', '.join(NAMES)}, each also with +reasoning"
        )
    made = _KINDS[kind](tokens, count)
    if not mode:
        return made
    thought = text_of(max(16, int(tokens * REASONING_SHARE)), prose_line, count) + "."
    return Workload(
        name, f"{thought}\n</think>\n\n{made.output}", thought, made.content, made.calls
    )


def steps_of(texts: list[str], ids: list[int], width: int) -> list[Step]:
    """Steps of ``width`` tokens each: what they add to the text, and their token ids."""
    return [
        ("".join(texts[at : at + width]), ids[at : at + width])
        for at in range(0, len(ids), max(1, width))
    ]
