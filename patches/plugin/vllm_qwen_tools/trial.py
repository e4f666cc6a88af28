# SPDX-License-Identifier: Apache-2.0
"""The self-test at load: three outputs, each at two cuts."""

from vllm_qwen_tools.qwen_tool_deltas import QwenDeltaStream, assemble

_TOOLS = {"write": {"properties": {"text": {"type": "string"}}, "required": ["text"]}}
_OPENS = "<tool_call>\n<function=write>\n<parameter=text>\n"
_CLOSES = "\n</parameter>\n</function>\n</tool_call>"
_QUOTED = f"{_OPENS}b{_CLOSES}"
#: What the model says, why it ends, and the content and arguments that are meant.
_OUTPUTS = (
    (f"So.\n{_OPENS}a </function> b{_CLOSES}", "stop", "So.", "a </function> b"),
    (f"{_OPENS}{_QUOTED}{_CLOSES}", "stop", None, _QUOTED.replace("\n", "\\n")),
    (f"{_OPENS}rm -rf data", "length", None, "rm -rf data"),
)


def run() -> str | None:
    """The refusal of a reader that reads wrongly, or None."""
    for output, ending, content, value in _OUTPUTS:
        arguments = f'{{"text": "{value}' + ('"}' if ending == "stop" else "")
        for width in (len(output), 3):
            stream = QwenDeltaStream(_TOOLS, str)
            parts = [output[at : at + width] for at in range(0, len(output), width)]
            deltas = [delta for part in parts for delta in stream.feed(part)]
            _, text, calls = assemble(deltas + stream.end(None, ending, None))
            read = text, [(call.name, call.arguments) for call in calls]
            if read != (content, [("write", arguments)]):
                return f"the self-test failed: {output!r} was read as {read!r}"
    return None
