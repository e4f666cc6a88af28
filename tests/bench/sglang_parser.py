# SPDX-License-Identifier: Apache-2.0
"""SGLang's detector for the same format, out of its wheel.

SGLang's packages import triton and torch in their ``__init__``; the detector and the modules it imports need neither. So
``sglang`` and ``sglang.srt`` are made without running these two files, and every module below them is SGLang's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from bench.tree_parsers import Feed
from bench.workloads import TOOLS


def opener(folder: Path) -> Callable[[], Feed]:
    """What opens a ``Qwen3CoderDetector`` of the wheel unpacked in ``folder``. It knows no reasoning."""
    for name in ("sglang", "sglang.srt"):
        module = ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module
    from sglang.srt.entrypoints.openai.protocol import Tool  # type: ignore[import-not-found]
    from sglang.srt.function_call.qwen3_coder_detector import (  # type: ignore[import-not-found]
        Qwen3CoderDetector,
    )

    tools = [Tool(**tool) for tool in TOOLS]

    def open_stream() -> Feed:
        parse = Qwen3CoderDetector().parse_streaming_increment
        return lambda text, ids, finished: (parse(text, tools),)

    return open_stream
