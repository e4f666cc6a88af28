# SPDX-License-Identifier: Apache-2.0
"""SGLang's and LMDeploy's parsers for this format, fed with a case's text; what
their servers do around them is left out.
"""

import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance.case import Case
from conformance.reading import ReadCall, Reading
from patchset import console, files, paths
from patchset.inputs import fetch
from patchset.release import Artifact

#: Takes a case and the text of each step, or of the whole output; gives what a client
#: is sent: (content, call deltas) a step. A call delta is (index, name, arguments).
Deltas = list[tuple[str, list[tuple[int, str, str]]]]
Parse = Callable[[Case, list[str], bool], Deltas]


def pinned() -> dict[str, Artifact]:
    """The wheels by engine."""
    listed = tomllib.loads(Path(__file__).with_name("peers.toml").read_text())
    return {
        name: Artifact.model_validate(fields)
        for name, fields in listed["wheels"].items()
    }


def unpacked(name: str) -> Path:
    """A folder with the Python files of an engine's wheel."""
    wheel = pinned()[name]
    place = paths.build_dir() / "engines" / wheel.file.removesuffix(".whl")
    if not place.is_dir():
        with (
            console.step(f"unpack {wheel.file}"),
            files.atomic_folder(place) as folder,
            zipfile.ZipFile(fetch.artifact(wheel)) as opened,
        ):
            names = [name for name in opened.namelist() if name.endswith(".py")]
            opened.extractall(folder, names)
    return place


def packages(folder: Path, *names: str) -> None:
    """Make packages of an unpacked wheel without running their ``__init__``.

    These import triton, torch extensions and whole servers; the parsers need none of
    it.
    """
    for name in names:
        module = ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module


def sglang(folder: Path) -> Parse:
    """``FunctionCallParser`` with its parser ``qwen3_coder``."""
    packages(folder, "sglang", "sglang.srt")
    from sglang.srt.entrypoints.openai.protocol import Tool  # type: ignore[import-not-found]
    from sglang.srt.function_call.qwen3_coder_detector import (  # type: ignore[import-not-found]
        Qwen3CoderDetector,
    )

    def parse(case: Case, texts: list[str], stream: bool) -> Deltas:
        tools, detector = (
            [Tool(**tool) for tool in declared(case)],
            Qwen3CoderDetector(),
        )
        if stream:
            results = [
                detector.parse_streaming_increment(text, tools) for text in texts
            ]
            results.append(detector.finish(tools))
        else:
            results = [detector.detect_and_parse("".join(texts), tools)]
        deltas = [
            (one.normal_text, [(c.tool_index, c.name, c.parameters) for c in one.calls])
            for one in results
        ]
        # Not streamed, its index is that of the tool, and the server numbers the calls.
        return (
            deltas
            if stream
            else [
                (text, [(i, n, a) for i, (_, n, a) in enumerate(calls)])
                for text, calls in deltas
            ]
        )

    return parse


def lmdeploy(folder: Path) -> Parse:
    """The default response parser with the tool parser ``qwen3coder`` and no
    reasoning parser.
    """
    packages(folder, "lmdeploy", "lmdeploy.serve", "lmdeploy.serve.openai")
    from lmdeploy.serve.openai.protocol import ChatCompletionRequest  # type: ignore[import-not-found]
    from lmdeploy.serve.parsers import ResponseParserManager  # type: ignore[import-not-found]

    parser = ResponseParserManager.get("default")
    parser.set_parsers(tool_parser_name="qwen3coder")

    def parse(case: Case, texts: list[str], stream: bool) -> Deltas:
        messages = [{"role": "user", "content": "hello"}]
        request = ChatCompletionRequest(
            model="scripted", messages=messages, tools=declared(case), stream=stream
        )
        opened = parser(request)
        if not stream:
            content, calls, _ = opened.parse_complete("".join(texts))
            return [
                (
                    content or "",
                    [
                        (i, c.function.name, c.function.arguments)
                        for i, c in enumerate(calls or [])
                    ],
                )
            ]
        found = []
        for number, text in enumerate(texts, 1):
            for delta, _ in opened.stream_chunk(text, [0], final=number == len(texts)):
                calls = [
                    (c.index, c.function.name, c.function.arguments)
                    for c in delta.tool_calls or []
                ]
                found.append((delta.content or "", calls))
        return found

    return parse


PEERS: dict[str, Callable[[Path], Parse]] = {"sglang": sglang, "lmdeploy": lmdeploy}


def declared(case: Case) -> list[dict[str, Any]]:
    """The tools of a case, as a request has them."""
    return [{"type": "function", "function": tool.model_dump()} for tool in case.tools]


def read(deltas: Deltas, end: str) -> Reading:
    """What a client assembles; identifiers and the finish reason are the server's,
    and are given here as they should be.
    """
    reading = Reading()
    calls: dict[int, ReadCall] = {}
    for content, parts in deltas:
        reading.content += content
        for index, name, arguments in parts:
            call = calls.setdefault(index, ReadCall(id=f"call-{index}"))
            call.name += name or ""
            call.text = (call.text or "") + (arguments or "")
    reading.calls = list(calls.values())
    reading.finish = "length" if end == "length" else "tool_calls" if calls else "stop"
    reading.close()
    return reading
