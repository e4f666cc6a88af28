# SPDX-License-Identifier: Apache-2.0
"""``python -m peers.engines ENGINE``: read outputs with another engine's own parser,
one JSON document a line. Runs in the peers' environment, which has nothing of ours.

Each engine is driven as its own server drives it, as far as a parser goes: tags are
text, no grammar is in force, no reasoning parser reads.
"""

import importlib.machinery
import json
import logging
import os
import re
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conformance.lines import answer

PROMPT = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"

Tools = list[dict[str, Any]]


class Message:
    """What a chat client assembles: text, and calls by their index."""

    def __init__(self) -> None:
        self.content, self.finish = "", ""
        self.calls: dict[int, list[str]] = {}

    def add(self, index: int, name: str | None, arguments: str | None) -> None:
        call = self.calls.setdefault(index, ["", ""])
        call[0] += name or ""
        call[1] += arguments or ""

    def add_all(self, deltas: list[dict[str, Any]] | None) -> None:
        """Add deltas as OpenAI's API has them, or calls without an index."""
        for number, delta in enumerate(deltas or []):
            function = delta.get("function") or delta
            index = delta.get("index", number)
            self.add(index, function.get("name"), function.get("arguments"))


#: Fills a message; takes tools, the output in pieces, its end (``stop`` or ``length``),
#: and whether the response is streamed; if not, there is one piece.
Read = Callable[[Message, Tools, list[str], str, bool], None]


class Attributes(type):
    """A class that has every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Attributes(name, (Anything,), {})


class Anything(metaclass=Attributes):
    """Stands in for what a package needs to be imported, and its parser never uses."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    __getattr__ = Attributes.__getattr__


class StandIn(types.ModuleType):
    """A module of which every attribute is ``Anything``."""

    __getattr__ = Attributes.__getattr__


class StandIns:
    """Finds the modules of packages that are not there as stand-ins."""

    def __init__(self, *names: str) -> None:
        self.names = names
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if any(name == each or name.startswith(f"{each}.") for each in self.names):
            loader: Any = self
            return importlib.machinery.ModuleSpec(name, loader, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: there is no code."""


def packages(*names: str) -> None:
    for name in names:
        folder = Path(name.replace(".", "/"))
        module = types.ModuleType(name)
        module.__path__ = [str(Path(site) / folder) for site in sys.path]
        sys.modules[name] = module


def sglang() -> Read:
    StandIns("sglang.srt.entrypoints.openai.protocol", "sglang.utils")
    packages("sglang", "sglang.srt", "sglang.srt.entrypoints")
    packages("sglang.srt.entrypoints.openai", "sglang.srt.function_call")
    from sglang.srt.function_call.qwen3_coder_detector import Qwen3CoderDetector

    def read(
        message: Message, tools: Tools, pieces: list[str], end: str, streamed: bool
    ) -> None:
        detector = Qwen3CoderDetector()
        asked = [
            types.SimpleNamespace(
                type="function", function=types.SimpleNamespace(**tool["function"])
            )
            for tool in tools
        ]
        if streamed:
            feed = detector.parse_streaming_increment
            results = [
                *(feed(piece, asked) for piece in pieces),
                detector.finish(asked),
            ]
        else:
            results = [detector.detect_and_parse(pieces[0], asked)]
        for result in results:
            message.content += result.normal_text or ""
            for number, call in enumerate(result.calls):
                index = call.tool_index if streamed else number
                message.add(index, call.name, call.parameters)

    return read


def lmdeploy() -> Read:
    class Registry(dict[str, Any]):
        """That of mmengine, as far as it is used."""

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def register_module(self, name: Any = None, **_: Any) -> Any:
            def register(cls: Any) -> Any:
                names = name if isinstance(name, list) else [name or cls.__name__]
                self.update(dict.fromkeys(names, cls))
                return cls

            return register

        module_dict = property(lambda self: self)

    StandIns("mmengine", "shortuuid", "lmdeploy.utils", "transformers", "xgrammar")
    registry = types.SimpleNamespace(Registry=Registry)
    sys.modules["mmengine"] = registry  # type: ignore[assignment]
    packages("lmdeploy", "lmdeploy.serve", "lmdeploy.serve.openai")
    packages("lmdeploy.serve.parsers")
    from lmdeploy.serve.openai.protocol import ChatCompletionRequest
    from lmdeploy.serve.parsers.response_parser import BaseResponseParser

    class Parser(BaseResponseParser): ...

    Parser.set_parsers(None, "qwen3coder", None)
    asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}

    def read(
        message: Message, tools: Tools, pieces: list[str], end: str, streamed: bool
    ) -> None:
        parser = Parser(ChatCompletionRequest(**asked, tools=tools, tool_choice="auto"))
        if not streamed:
            message.content, calls, _ = parser.parse_complete(pieces[0])
            message.add_all([call.model_dump() for call in calls or []])
            return
        for left, piece in enumerate(pieces, 1 - len(pieces)):
            for delta, _ in parser.stream_chunk(piece, [1], final=left == 0):
                message.content += delta.content or ""
                message.add_all([c.model_dump() for c in delta.tool_calls or []])

    return read


def transformers() -> Read:
    """The response parser of ``transformers serve``, with its template of Qwen3.5."""
    StandIns("torch", "numpy", "tqdm", "huggingface_hub", "transformers.utils.logging")
    StandIns(
        "transformers.utils.chat_template_utils", "transformers.utils.import_utils"
    )
    packages("transformers", "transformers.utils", "transformers.cli")
    packages("transformers.cli.serving")
    from transformers.utils import chat_parsing

    source = Path(chat_parsing.__file__).parents[2] / "cli/serving/utils.py"
    match = re.search(
        r"^_RESPONSE_TEMPLATE_FALLBACKS = (\{.*?^\})", source.read_text(), re.M | re.S
    )
    assert match
    import ast

    templates = ast.literal_eval(match[1])
    template = next(each for models, each in templates.items() if "qwen3_5" in models)

    def read(
        message: Message, tools: Tools, pieces: list[str], end: str, streamed: bool
    ) -> None:
        pieces = [*pieces, *(["<|im_end|>"] if end == "stop" else [])]
        if not streamed:
            whole = chat_parsing.parse_response(
                "".join(pieces), template, prefix=PROMPT, tools=tools
            )
            message.content, calls = whole.get("content"), whole.get("tool_calls") or []
        else:
            parser = chat_parsing.ResponseParser(template, prefix=PROMPT, tools=tools)
            events = [*parser.initial_events]
            for piece in pieces:
                events += parser.feed(piece)
            events += parser.finalize()[1]
            calls = []
            for event in events:
                kind, field = event["type"], event.get("field")
                if kind == "region_chunk" and field == "content":
                    message.content += "" if event.get("dirty") else event["text"]
                elif kind == "region_close" and field == "tool_calls":
                    calls.append(event["value"])
        for index, call in enumerate(calls):
            arguments = call["function"]["arguments"]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            message.add(index, call["function"]["name"], text)
        message.finish = "tool_calls" if calls else end

    return read


MLX = ("mlx", "numpy", "huggingface_hub", "transformers", "fastapi", "starlette")


def mlx_lm() -> Read:
    StandIns(*MLX, "jinja2", "tqdm", "yaml")
    from mlx_lm.generate import TextStateMachine as Machine
    from mlx_lm.server import ToolCallFormatter
    from mlx_lm.tool_parsers import qwen3_coder as module

    edges = {
        "normal": [(module.tool_call_start, "tool")],
        "tool": [(module.tool_call_end, "normal")],
    }

    def read(
        message: Message, tools: Tools, pieces: list[str], end: str, streamed: bool
    ) -> None:
        calls, text, before = list[str](), "", "normal"
        state = Machine(edges).make_state("normal")

        def segments() -> Iterator[tuple[str, str]]:
            nonlocal state
            for piece in pieces:
                state, some = Machine.split(state, piece)
                yield from some
            if end == "length":
                state, rest, now = Machine.flush(state)
                yield now, rest
            else:
                state, now = Machine.discard(state)
                yield now, ""

        for now, piece in segments():
            if now == "tool":
                text += piece
            elif before == "tool":
                calls, text = [*calls, text], ""
            message.content += piece if now == "normal" else ""
            before = now
        calls += [text] if before == "tool" and text else []
        format_calls = ToolCallFormatter(module.parse_tool_call, tools, streamed)
        message.add_all(format_calls(calls))
        message.finish = "tool_calls" if calls and end == "stop" else end

    return read


def mlx_vlm() -> Read:
    StandIns(*MLX)
    packages("mlx_vlm", "mlx_vlm.tools", "mlx_vlm.tools.parsers", "mlx_vlm.server")
    StandIns("mlx_vlm.prompt_utils")
    sys.modules["mlx_vlm.tools"].process_tool_calls = None  # type: ignore[attr-defined]
    from mlx_vlm.server.responses_state import ToolCallStreamState
    from mlx_vlm.tools.extractor import process_tool_calls
    from mlx_vlm.tools.parsers import qwen3_coder as module
    from mlx_vlm.tools.streaming import ToolCallDeltaState

    def read(
        message: Message, tools: Tools, pieces: list[str], end: str, streamed: bool
    ) -> None:
        whole = process_tool_calls("".join(pieces), module, tools)
        message.finish = "tool_calls" if whole.calls else end
        if not streamed:
            message.content = whole.remaining_text
            message.add_all(whole.calls)
            return
        deltas = ToolCallDeltaState(module, tools)
        texts = ToolCallStreamState(module.tool_call_start, module.tool_call_end)
        for left, piece in enumerate(pieces, 1 - len(pieces)):
            message.add_all(deltas.feed(piece))
            message.content += texts.feed(piece, last=left == 0) or ""
        message.add_all(deltas.finish(whole.calls))

    return read


def vllm_mlx() -> Read:
    StandIns(*MLX, "jsonschema")
    from vllm_mlx.tool_parsers.qwen3_xml_tool_parser import Qwen3XMLToolParser

    def read(
        message: Message, tools: Tools, pieces: list[str], end: str, streamed: bool
    ) -> None:
        parser, request = Qwen3XMLToolParser(None), {"tools": tools}
        if not streamed:
            whole = parser.extract_tool_calls(pieces[0], request)
            message.content = whole.content
            message.add_all(whole.tool_calls)
        before = ""
        for piece in pieces if streamed else ():
            delta = parser.extract_tool_calls_streaming(
                before, before + piece, piece, request=request
            )
            before += piece
            message.content += (delta or {}).get("content") or ""
            message.add_all((delta or {}).get("tool_calls"))

    return read


def rapid_mlx() -> Read:
    """The post-processor and the helper of its routes, parser ``qwen3_coder_xml``."""
    StandIns(*MLX, "mlx_lm", "jsonschema", "psutil", "httpx", "tqdm", "yaml", "jinja2")
    from rapid_mlx.api.models import ChatCompletionRequest
    from rapid_mlx.config import get_config
    from rapid_mlx.engine.base import GenerationOutput
    from rapid_mlx.service import helpers
    from rapid_mlx.service.postprocessor import StreamingPostProcessor

    config = get_config()
    config.tool_call_parser, config.enable_auto_tool_choice = "qwen3_coder_xml", True
    config.reasoning_parser = config.reasoning_parser_name = None
    asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}

    def read(
        message: Message, tools: Tools, pieces: list[str], end: str, streamed: bool
    ) -> None:
        if not streamed:
            request = ChatCompletionRequest(**asked, tools=tools)
            message.content, calls = helpers._parse_tool_calls_with_parser(
                pieces[0], request, finish_reason=end
            )
            message.add_all([call.model_dump() for call in calls or []])
            return
        processor = StreamingPostProcessor(config, True, request={"tools": tools})
        processor.reset()

        def events() -> Iterator[Any]:
            text = ""
            for left, piece in enumerate(pieces, 1 - len(pieces)):
                text += piece
                last = left == 0
                yield from processor.process_chunk(
                    GenerationOutput(
                        text=text,
                        new_text=piece,
                        finished=last,
                        finish_reason=end if last else None,
                    )
                )
            yield from processor.finalize()

        for event in events():
            message.content += event.content or ""
            message.add_all(event.tool_calls)
            message.finish = event.finish_reason or message.finish

    return read


ENGINES: dict[str, Callable[[], Read]] = {
    "sglang": sglang,
    "lmdeploy": lmdeploy,
    "transformers": transformers,
    "mlx-lm": mlx_lm,
    "mlx-vlm": mlx_vlm,
    "vllm-mlx": vllm_mlx,
    "rapid-mlx": rapid_mlx,
}


def begin() -> Callable[[Any], Any]:
    """Return what answers with the messages of an output, by schedule; or, asked for
    the cost, with the processor's seconds of one stream.
    """
    logging.disable(logging.CRITICAL)
    read = ENGINES[sys.argv[1]]()

    def message(asked: dict[str, Any], name: str) -> dict[str, Any]:
        got, pieces = Message(), asked["pieces"][name]
        try:
            read(got, asked["tools"], pieces, asked["end"], name != "full")
        except Exception as error:  # the code under test may raise anything
            return {"error": f"{type(error).__name__}: {error}"[:200]}
        called = "tool_calls" if got.calls and asked["end"] == "stop" else asked["end"]
        return {
            "content": got.content or "",
            "calls": list(got.calls.values()),
            "finish": got.finish or called,
        }

    def give(asked: Any) -> Any:
        began = time.thread_time()
        messages = {name: message(asked, name) for name in asked["pieces"]}
        return {"messages": messages, "seconds": time.thread_time() - began}

    return give


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    answer(begin)
