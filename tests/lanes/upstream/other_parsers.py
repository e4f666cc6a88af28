# SPDX-License-Identifier: Apache-2.0
"""Every other parser of a release, on the stock and the patched tree: the same outputs
give the same messages.

``python -m upstream.other_parsers STOCK PATCHED`` runs itself once in each tree and
compares what comes out, byte for byte. The outputs are drawn from the tags that each
parser's own source names, always the same ones.
"""

import inspect
import json
import os
import random
import re
import signal
import sys
from pathlib import Path
from typing import Any

from conformance.lines import LANES, run_json
from patchset import run_command

#: The parsers that the series changes.
OURS = {"qwen3_coder", "qwen3_xml", "step3p5", "step5"}
#: Outputs of each parser, and how many words each has at most.
OUTPUTS, WORDS = 24, 14
WIDTHS = (1, 3)

_TAG = re.compile(r"[\"']((?:<[^\"'\n]{1,40}>)|(?:\[/?[A-Z_]{3,20}\]))[\"']")
_COMMON = [
    "Sure.",
    "  \n\n",
    "\n",
    " ",
    '{"name": "write", "arguments": {"path": "/a"}}',
    '{"path": "/a"}',
    "write",
    "[",
    "]",
    ",",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<function=write>",
    "<parameter=path>\n/a\n</parameter>",
    "</function>",
    "functions.write:0",
]
_IDS = re.compile(
    r"(chatcmpl-tool-|call_|tool_)?[0-9a-f]{16,32}|\b[A-Za-z0-9]{9}\b(?=\W+type)"
)


def main(trees: list[str]) -> None:
    """Compare two trees, or report on the one on the path."""
    if trees:
        run_command.run_lane(lambda: compare(*trees))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what compares says it
    json.dump(_report(), sys.stdout)


def compare(*trees: str) -> int:
    stock, patched = map(_run, map(Path, trees))
    names = sorted(set(stock) | set(patched))
    different = [name for name in names if stock.get(name) != patched.get(name)]
    for name in different:
        both = (found.get(name, ["no parser"]) for found in (stock, patched))
        differing = (pair for pair in zip(*both, strict=False) if pair[0] != pair[1])
        one, other = next(differing, ("less", "more"))
        print(f"differs: {name}\n  stock   {one[:400]}\n  patched {other[:400]}")
    print(
        f"{len(names)} parsers, {sum(map(len, stock.values()))} results: "
        f"{len(names) - len(different)} as in stock, {len(different)} not"
    )
    return 1 if different else 0


def _run(tree: Path) -> Any:
    proofs = LANES.with_name("patches")  # has the harness
    path = os.pathsep.join(map(str, (tree.resolve(), LANES, proofs)))
    # A parser that refuses an output logs its traceback as an error.
    more = {"PYTHONPATH": path, "VLLM_LOGGING_LEVEL": "CRITICAL"}
    return run_json(tree, "upstream.other_parsers", **more)


def _report() -> dict[str, list[str]]:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    differing: dict[str, list[str]] = {}
    classes: dict[tuple[str, str], type] = {}
    managers = {"tool": ToolParserManager, "reasoning": ReasoningParserManager}
    for kind, manager in managers.items():
        there = {*manager.lazy_parsers, *getattr(manager, f"{kind}_parsers", {})}
        for name in sorted(there - OURS):
            try:
                classes[kind, name] = getattr(manager, f"get_{kind}_parser")(name)
            except Exception as error:
                why = f"cannot be loaded: {type(error).__name__}"
                differing[f"{kind} {name}"] = [why]
    tags = {key: _tags(parser_cls) for key, parser_cls in classes.items()}
    tokens = _tokenizer(sorted({tag for some in tags.values() for tag in some}))
    results = {
        " ".join(key): [*_results(key[0], parser_cls, tags[key], tokens)]
        for key, parser_cls in classes.items()
    }
    return differing | results


def _tags(parser_cls: type) -> list[str]:
    sources = {
        inspect.getsourcefile(base)
        for base in parser_cls.__mro__
        if base.__module__.startswith("vllm.")
    }
    texts = (Path(source or os.devnull).read_text("utf-8") for source in sources)
    return sorted({tag for text in texts for tag in _TAG.findall(text)})


def _tokenizer(tags: list[str]) -> Any:
    from harness import wrapped_tokenizer

    own = wrapped_tokenizer()
    own.add_tokens([tag for tag in tags if tag not in own.get_vocab()])
    # Made once, as vLLM does: it takes 0.2 s, and each parser asks for it.
    vocab = own.get_vocab()
    own.get_vocab = lambda: vocab
    return own


def _results(kind: str, parser_cls: Any, tags: list[str], tokens: Any) -> Any:
    draw = random.Random(f"{kind} {parser_cls.__name__}")
    for _ in range(OUTPUTS):
        text = "".join(draw.choices([*tags, *_COMMON], k=draw.randint(1, WORDS)))
        for width in (None, *WIDTHS):
            try:
                result = _read(kind, parser_cls, tokens, text, width)
            except Exception as error:
                result = [f"{type(error).__name__}: {error}"]
            yield _IDS.sub("ID", repr((text, width, result)))


def _read(
    kind: str, parser_cls: Any, tokens: Any, text: str, width: int | None
) -> list[Any]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    from harness import TOOLS, body_of

    request = ChatCompletionRequest(**body_of("chat", "none", width is not None, TOOLS))
    # What a tool parser takes besides, where its release has it so.
    if kind == "tool":
        what, tools, more = "tool_calls", [request.tools], [request]
    else:
        what, tools, more = "reasoning", [], []
    try:
        parser = parser_cls(tokens, *tools)
    except TypeError:
        parser = parser_cls(tokens)
    if width is None:
        return [getattr(parser, f"extract_{what}")(text, request)]
    read = getattr(parser, f"extract_{what}_streaming")
    ids = tokens.encode(text, add_special_tokens=False)
    deltas, before, seen = list[Any](), "", list[int]()
    for start in range(0, len(ids), width):
        burst = ids[start : start + width]
        piece = tokens.decode(burst, skip_special_tokens=False)
        arguments = [before, before + piece, piece, seen, seen + burst, burst]
        deltas.append(read(*arguments, *more))
        before, seen = before + piece, seen + burst
    return deltas


if __name__ == "__main__":
    main(sys.argv[1:])
