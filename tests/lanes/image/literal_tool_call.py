# SPDX-License-Identifier: Apache-2.0
"""Asks the installed parser for the case D1: a literal ``<tool_call>`` deletes nothing. Runs inside the image."""

from __future__ import annotations

import sys

sys.path.insert(0, "/mnt/patches")

from harness import TOOLS, Message, messages

THOUGHT = "I could write <tool_call> here, but why?"
ANSWER = "The answer is 42."


def main() -> None:
    """Fail when any way of cutting the output, streamed or not, gives another message."""
    count = 0
    for message in messages(f"{THOUGHT}</think>{ANSWER}", tools=TOOLS, reasoning=True):
        if message != Message(THOUGHT, ANSWER):
            sys.exit(f"wrong: {message}")
        count += 1
    import vllm

    print(f"right {count} times in {vllm.__file__} {vllm.__version__}")


main()
