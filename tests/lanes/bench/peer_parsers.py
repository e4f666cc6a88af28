# SPDX-License-Identifier: Apache-2.0
"""Other engines' streaming parsers for the same format, out of their wheels.

The engines' packages import triton, torch extensions and whole servers in their ``__init__``; their parsers and what these
import need none of it. So some packages are made without running that file, and every module below them is the engine's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from bench.tree_parsers import Feed
from bench.workloads import TOOLS


def opener(peer: str, folder: Path) -> Callable[[], Feed]:
    """What opens a stream of the engine ``peer``, whose wheel is unpacked in ``folder``.

    Raises:
        KeyError: there is no such peer.
    """
    return PEERS[peer](folder)


def packages(folder: Path, *names: str) -> None:
    """Make packages of an unpacked wheel without running their ``__init__``."""
    for name in names:
        module = ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module


def _sglang(folder: Path) -> Callable[[], Feed]:
    """``Qwen3CoderDetector``, which reads calls; reasoning is split off before it."""
    packages(folder, "sglang", "sglang.srt")
    from sglang.srt.entrypoints.openai.protocol import Tool  # type: ignore[import-not-found]
    from sglang.srt.function_call.qwen3_coder_detector import (  # type: ignore[import-not-found]
        Qwen3CoderDetector,
    )

    tools = [Tool(**tool) for tool in TOOLS]

    def open_stream() -> Feed:
        parse = Qwen3CoderDetector().parse_streaming_increment
        return lambda text, ids, finished: (parse(text, tools),)

    return open_stream


def _lmdeploy(folder: Path) -> Callable[[], Feed]:
    """The default response parser with the tool parser ``qwen3coder`` and no reasoning parser."""
    packages(folder, "lmdeploy", "lmdeploy.serve", "lmdeploy.serve.openai")
    from lmdeploy.serve.openai.protocol import ChatCompletionRequest  # type: ignore[import-not-found]
    from lmdeploy.serve.parsers import ResponseParserManager  # type: ignore[import-not-found]

    parser_cls = ResponseParserManager.get("default")
    parser_cls.set_parsers(tool_parser_name="qwen3coder")
    messages = [{"role": "user", "content": "hello"}]
    request = ChatCompletionRequest(
        model="scripted", messages=messages, tools=TOOLS, stream=True
    )

    def open_stream() -> Feed:
        parse = parser_cls(request).stream_chunk
        return lambda text, ids, finished: parse(text, ids, final=finished)

    return open_stream


PEERS: dict[str, Callable[[Path], Callable[[], Feed]]] = {
    "sglang": _sglang,
    "lmdeploy": _lmdeploy,
}
