# SPDX-License-Identifier: Apache-2.0
"""Asks a release's own server application, whose engine says what a proof scripts.

The application is the conformance suite's host; an output is cut into steps as there.
What differs between releases is asked of the code here, and in no test.
"""

import asyncio
import contextlib
import functools
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from packaging.version import Version

from conformance import tokens
from conformance.case import STARTS, Case, Tool
from conformance.host.engine import MODEL, SCRIPT, Script, build
from conformance.reading import Reading, failed, raised, sse
from conformance.surfaces import surfaces

SURFACES = surfaces()

#: Starts of the suite whose prompts end so.
_STARTS = {"none": "plain", "open": "open", "closed": "sealed"}
#: A server whose model thinks first.
THINKING: dict[str, Any] = {"reasoning": "qwen3", "prompt": "open"}
#: Tokens a step delivers: one, few, all.
WIDTHS = (1, 2, 3, 5, 9, 100_000)

#: A response that takes longer, in seconds, is a hang.
LIMIT = 60

LOOP = asyncio.new_event_loop()


def tool(name: str, parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A function tool, as a chat request names it."""
    function = {"name": name, "parameters": parameters, **more}
    return {"type": "function", "function": function}


def strings(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
    }


#: The tools of most tests.
TOOLS = [tool("write", strings("path", "content")), tool("read", strings("path"))]


def call(name: str, *parameters: tuple[str, str]) -> str:
    """A call as the chat template renders it."""
    values = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters
    )
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


#: Reasoning, text and calls behind a prompt that opens the reasoning, and what is read.
MIXED = (
    "Hm.</think>First.\n"
    + call("read", ("path", "/a"))
    + "\n"
    + call("write", ("content", "x\n"))
    + "\nThen."
)
MIXED_READ = (
    "Hm.",
    "First.\nThen.",
    [("read", {"path": "/a"}), ("write", {"content": "x\n"})],
)


@functools.cache
def application(reasoning: str, parser: str, *options: str) -> Any:
    """The release's application, made once; it keeps the engine's last parameters.

    Args:
        reasoning: A reasoning parser, or "none".
        options: More of ``vllm serve``'s command line.
    """
    _share_tokenizer()
    line = ["--tool-call-parser", parser, *options]
    app = LOOP.run_until_complete(build(str(tokens.model_folder()), reasoning, line))
    engine = app.state.engine_client
    generate = engine.generate

    def recorded(prompt: Any, params: Any, *args: Any, **more: Any) -> Any:
        app.state.params = params
        return generate(prompt, params, *args, **more)

    engine.generate = recorded
    return app


def _share_tokenizer() -> None:
    """Let an application ask its own tokenizer, not copies of it for its threads.

    Since v0.23.0 the copies take a third of the time of most proofs, which ask for one
    answer at a time. The conformance suite asks with the copies.
    """
    with contextlib.suppress(ImportError):
        import vllm.renderers.hf

        vllm.renderers.hf.maybe_make_thread_pool = lambda tokenizer, _: tokenizer


@functools.cache
def wrapped_tokenizer() -> Any:
    """Qwen's, as a release holds it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(tokens.model_folder()))


def parser_of(name: str, reasoning: str | None = None, **fields: Any) -> Any:
    """A parser as serving makes it, and its chat request."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    request = ChatCompletionRequest(
        model="m", messages=[{"role": "user", "content": "go"}], tools=TOOLS, **fields
    )
    kind = ParserManager.get_parser(name, reasoning, True)
    return kind(wrapped_tokenizer(), request.tools), request


def ids(text: str) -> list[int]:
    return tokens.encode(tokens.load(), text)


def script(output: str, width: int, end: str = "stop", stop: str | None = None) -> Any:
    """The steps of an output; one that stopped by itself ends with the end token,
    which adds no text.
    """
    said = ids(output)
    texts = tokens.deltas(tokens.load(), said)
    if end == "stop" and stop is None:
        said, texts = [*said, tokens.load().token_to_id(tokens.EOS)], [*texts, ""]
    bursts = [
        ("".join(texts[at : at + width]), tuple(said[at : at + width]))
        for at in range(0, len(said), width)
    ]
    return Script(tuple(bursts), end, stop)


def body_of(
    surface: str, prompt: str, stream: bool, tools: list[dict[str, Any]]
) -> dict[str, Any]:
    """A request's body, as the suite writes it."""
    case = Case.model_construct(
        name="proof",
        tools=tuple(Tool(**one["function"]) for one in tools),
        tool_choice="auto",
        request={},
        stop_string="",
    )
    body: dict[str, Any] = SURFACES[surface].request(
        case, STARTS[_STARTS[prompt]], stream=stream, model=MODEL
    )
    return body


def raw(
    output: str,
    width: int | None = None,
    *,
    surface: str = "chat",
    reasoning: str = "none",
    parser: str = "qwen3_coder",
    prompt: str = "none",
    end: str = "stop",
    stop: str | None = None,
    tools: list[dict[str, Any]] = TOOLS,
    **fields: Any,
) -> tuple[int, bytes]:
    """Status and body of one response; not streamed without a width.

    ``prompt`` says whether the prompt's end opened or closed the reasoning ("open",
    "closed", "none"), ``end`` how the output ended and ``stop`` at which stop string,
    and ``fields`` go into the request.
    """
    from vllm.parser.parser_manager import ParserManager

    body = body_of(surface, prompt, width is not None, tools) | fields
    app = application(reasoning, parser)
    # Before v0.23.0 all applications of a process share one parser class, which the
    # last look-up has set up.
    ParserManager.get_parser(parser, None if reasoning == "none" else reasoning, True)
    said = script(output, width or 100_000, end, stop)
    return post(app, SURFACES[surface].PATH, body, said)


def post(app: Any, path: str, body: dict[str, Any], said: Any) -> tuple[int, bytes]:
    """Status and body of an answer for which the engine says a script, which the
    application keeps: it has the prompt, if the engine was asked at all.
    """
    app.state.script = said
    SCRIPT.set(said)
    return LOOP.run_until_complete(asyncio.wait_for(_post(app, path, body), LIMIT))


async def _post(app: Any, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    # Where the application raises, a client has an error's status, or a stream that
    # ends too early.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://tree", timeout=None
    ) as client:
        answer = await client.post(path, json=body)
    return answer.status_code, answer.content


def ask(
    output: str, width: int | None = None, *, surface: str = "chat", **options: Any
) -> Reading:
    """What a client reads."""
    status, answer = raw(output, width, surface=surface, **options)
    if status != 200:
        return failed(status, answer)
    reader = SURFACES[surface]
    read = reader.read_full if width is None else reader.read_stream
    if surface == "messages":  # what test_messages_end.py alone is about
        answer = answer.replace(b"data: [DONE]\n\n", b"")
    try:
        reading: Reading = read(answer)
    except (LookupError, ValueError) as error:
        return raised("an answer of another form", str(error))
    return reading


def faults(reading: Reading) -> list[str]:
    """What is wrong in the form of a response.

    Up to v0.31.0 the last event of /v1/responses names other call ids than the items,
    in stock and patched.
    """
    if Version(os.environ.get("VLLM_RELEASE", "v0.32.0")) >= Version("v0.32.0"):
        return reading.broken
    return [one for one in reading.broken if not one.startswith("final-ids")]


def arguments(reading: Reading) -> list[tuple[str, Any]]:
    """Name and parsed arguments of the calls of a response without a broken form."""
    assert faults(reading) == []
    return [(one.name, one.parsed) for one in reading.calls]


def answer(
    output: str, width: int | None, **options: Any
) -> tuple[str, str, list[tuple[str, Any]]]:
    """Reasoning, text and calls of a response without a broken form."""
    reading = ask(output, width, **options)
    return reading.reasoning, reading.content, arguments(reading)


#: Arguments that no parser of JSON takes.
DEEP = '{"a":' * 5_000 + "1" + "}" * 5_000


def chat_history(arguments: str) -> list[dict[str, Any]]:
    """Messages with a call and its result."""
    function = {"name": "read", "arguments": arguments}
    call = {"id": "c", "type": "function", "function": function}
    return [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ]


#: A question, a call and what it gave.
USER, CALLED, RESULT = chat_history('{"path": "/a"}')


@dataclass
class Message:
    """What a client has at the end; ``calls`` are names and argument texts."""

    reasoning: str = ""
    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def arguments(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls, their arguments parsed."""
        return [(name, parsed(text)) for name, text in self.calls]


def parsed(text: str) -> dict[str, Any]:
    """The arguments of a call, or an event, which must be JSON."""
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise AssertionError(f"this is no JSON: {text!r}") from error
    return found


def messages(
    text: str, *, reasoning: bool = False, **options: Any
) -> Iterator[Message]:
    """The message of every width, and of the answer that is not streamed."""
    if reasoning:
        options |= THINKING
    for width in (*WIDTHS, None):
        found = ask(text, width, **options)
        assert not found.failed, f"width {width}: {found.failed}"
        calls = [(one.name, one.text or "") for one in found.calls]
        yield Message(found.reasoning, found.content, calls)


def events(output: str, width: int, **options: Any) -> list[dict[str, Any]]:
    _, answer = raw(output, width, **options)
    return [json.loads(data) for _, data in sse(answer) if data != "[DONE]"]


def response(output: str, width: int | None, **options: Any) -> Any:
    """What /v1/responses answers, or its stream ends with."""
    if width is None:
        return parsed(raw(output, surface="responses", **options)[1].decode())
    last = events(output, width, surface="responses", **options)[-1]
    assert last["type"] == "response.completed", last
    return last["response"]


def chat_choices(output: str, width: int, **options: Any) -> list[dict[str, Any]]:
    found = events(output, width, **options)
    return [choice for chunk in found for choice in chunk.get("choices") or ()]


def chat_deltas(output: str, width: int, **options: Any) -> list[dict[str, Any]]:
    """The deltas of a chat stream, those that say nothing left out."""
    said = [
        {key: value for key, value in delta.items() if value and key != "role"}
        for choice in chat_choices(output, width, **options)
        if (delta := choice.get("delta"))
    ]
    return [delta for delta in said if delta]


def argument_pieces(output: str, width: int, **options: Any) -> list[str]:
    return [
        part["function"].get("arguments") or ""
        for delta in chat_deltas(output, width, **options)
        for part in delta.get("tool_calls") or ()
    ]


def copies_nothing(grow: Callable[[], int], step: Callable[[], Any]) -> int:
    """None of eight steps copies the text that was before, whose size ``grow``
    returns.
    """
    tracemalloc.start()
    try:
        size = grow()
        for _ in range(8):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            step()
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < size / 4
    finally:
        tracemalloc.stop()
    return size
