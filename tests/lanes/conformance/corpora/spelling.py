# SPDX-License-Identifier: Apache-2.0
"""Ways to spell a call's frame, as models of this family do."""

from dataclasses import dataclass

from conformance.case import Call


@dataclass(frozen=True)
class Spelling:
    """How the tags of a call's frame are laid out.

    Attributes:
        name: Its name in the tables.
        opener: What stands before ``<function=NAME>``.
        parameters: What stands between ``<function=NAME>`` and the first parameter,
            and between any two.
        before_value: What stands before the value, behind its opening tag.
        behind_value: What stands between a value and its closing tag.
        indent: What stands before a parameter's tags on their line.
        closed: Whether the last parameter is closed.
        end: What stands behind the last parameter.

    """

    name: str
    opener: str = "<tool_call>\n"
    parameters: str = "\n"
    before_value: str = "\n"
    behind_value: str = "\n"
    indent: str = ""
    closed: bool = True
    end: str = "\n</function>\n</tool_call>"
    quote: str = ""

    def bare(self) -> bool:
        """Return whether the call has neither ``<tool_call>`` nor ``</tool_call>``."""
        return "tool_call" not in self.opener + self.end

    def write(self, call: Call) -> str:
        mark, closer = self.quote, "</parameter>"
        if self.behind_value:
            closer = f"{self.behind_value}{self.indent}{closer}"
        opened = f"{self.parameters}{self.indent}<parameter={mark}"
        values = [
            f"{opened}{key}{mark}>{self.before_value}{value}"
            for key, value in call.texts().items()
        ]
        last = closer if self.closed and values else ""
        function = f"{self.opener}<function={mark}{call.name}{mark}>"
        return function + closer.join(values) + last + self.end


CANONICAL = Spelling("canonical")

CLOSER_BEHIND = Spelling("closer behind the text", behind_value="")
INLINE = Spelling("inline", before_value="", behind_value="")
ONE_LINE = Spelling(
    "one line",
    opener="<tool_call>",
    parameters="",
    before_value="",
    behind_value="",
    end="</function></tool_call>",
)
PRETTY = Spelling(
    "pretty-printed",
    opener="<tool_call>\n  ",
    indent="    ",
    end="\n  </function>\n</tool_call>",
)
PRETTY_INLINE = Spelling(
    "pretty-printed, inline",
    opener="<tool_call>\n  ",
    indent="    ",
    before_value="",
    behind_value="",
    end="\n  </function>\n</tool_call>",
)
NO_OPENER = Spelling("no <tool_call>", opener="")
BARE = Spelling("no <tool_call>, no </tool_call>", opener="", end="\n</function>")
NO_END = Spelling("no </tool_call>", end="\n</function>")
NO_FUNCTION_END = Spelling("no </function>", end="\n</tool_call>")
NO_ENDS = Spelling("no </function>, no </tool_call>", end="")
CRLF = Spelling(
    "CRLF",
    opener="<tool_call>\r\n",
    parameters="\r\n",
    before_value="",
    behind_value="",
    end="\r\n</function>\r\n</tool_call>",
)
BLANK_LINES = Spelling(
    "blank lines",
    opener="<tool_call>\n\n",
    parameters="\n\n",
    end="\n\n</function>\n\n</tool_call>",
)
OPENER_INLINE = Spelling("value begins on its tag's line", before_value="")
ONE_LINE_BARE = Spelling(
    "one line, no <tool_call>",
    opener="",
    parameters="",
    before_value="",
    behind_value="",
    end="</function>",
)
JOINED_ENDS = Spelling("ends on one line", end="</function></tool_call>")
NO_PARAMETER_END = Spelling("no last </parameter>", closed=False)
QUOTED_NAMES = Spelling("names in quotes", quote='"')

#: The eleven spellings of the first set of ordinary outputs.
FIRST = (
    CANONICAL,
    CLOSER_BEHIND,
    INLINE,
    ONE_LINE,
    PRETTY_INLINE,
    JOINED_ENDS,
    NO_OPENER,
    BARE,
    NO_END,
    NO_FUNCTION_END,
    OPENER_INLINE,
)

#: All spellings that stock vLLM reads.
STOCK = (*FIRST, CRLF, BLANK_LINES, ONE_LINE_BARE, NO_ENDS)

#: Spellings that models use and stock vLLM does not read.
BEYOND = (PRETTY, NO_PARAMETER_END, QUOTED_NAMES)

ALL = (*STOCK, *BEYOND)

#: Why a call that is ``bare`` has no one right reading.
EXAMPLE = "with neither tag and prose behind it: an example, or a bare call"
