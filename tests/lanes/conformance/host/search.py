"""Random search and fuzzing inside the host: at the release's parser object (fast), a share over the whole serving path."""

from __future__ import annotations

import random
from typing import Any

from conformance import check, schedule, tokens
from conformance.case import STARTS, Expected, parse
from conformance.generate import TOOLS, Generator, Message, kept
from conformance.reading import ReadCall, Reading
from conformance.surfaces.chat import _add

SERVING_SHARE = 100
"""One of so many runs goes over the whole serving path instead."""


class NoParserObject(RuntimeError):
    """An old release, whose serving code holds the parsing loop itself."""


class ParserLevel:
    """Feeds bursts to the parser object that the release's chat serving would make for a request."""

    def __init__(self, judge: Any, reasoning: str) -> None:
        from vllm.entrypoints.openai.chat_completion.protocol import (
            ChatCompletionRequest,
        )

        serving = judge.app.state.openai_serving_chat
        self.cls, self.config = (
            getattr(serving, "parser_cls", None),
            serving.model_config,
        )
        if not hasattr(self.cls, "parse_delta"):
            raise NoParserObject(
                "this release has no parser object with parse_delta: random search needs v0.24.0 or newer"
            )
        self.hf = serving.renderer.tokenizer
        self.request_cls, self.judge, self.reasoning = (
            ChatCompletionRequest,
            judge,
            reasoning,
        )
        self.prompts = {
            k: judge.tokenizer.encode(
                f"<|im_start|>assistant\n{v}", add_special_tokens=False
            ).ids
            for k, v in (
                ("none", ""),
                ("open", "<think>\n"),
                ("closed", "<think>\n\n</think>\n\n"),
            )
        }
        self.requests: dict[Any, Any] = {}

    def parser(self, start: str) -> tuple[Any, Any, list[int]]:
        """(parser, request, prompt token ids) for a start."""
        state = STARTS[start]
        if start not in self.requests:
            switch = (
                {}
                if state.enable_thinking is None
                else {"enable_thinking": state.enable_thinking}
            )
            body = {
                "model": "scripted",
                "messages": [{"role": "user", "content": "x"}],
                "tool_choice": "auto",
                "tools": [{"type": "function", "function": t} for t in TOOLS],
                "chat_template_kwargs": switch or None,
            }
            self.requests[start] = (self.request_cls(**body), switch)
        request, switch = self.requests[start]
        parser = self.cls(
            self.hf,
            request.tools,
            chat_template_kwargs=switch,
            model_config=self.config,
        )
        return parser, request, self.prompts[state.prompt]

    def streamed(
        self, start: str, ids: list[int], texts: list[str], widths: tuple[int, ...]
    ) -> Reading:
        """The reading of a stream."""
        parser, request, prompt = self.parser(start)
        reading, at, last, left = Reading(), 0, -1, set()
        for width in widths:
            text, at = "".join(texts[at : at + width]), at + width
            delta = parser.parse_delta(
                text, ids[at - width : at], request, prompt, finished=at >= len(ids)
            )
            if delta is None:
                continue
            kinds = [bool(delta.reasoning), bool(delta.content), bool(delta.tool_calls)]
            # One chunk may not mix kinds; the serving code may split a parser's delta, so that is judged on the surfaces.
            if delta.reasoning:
                reading.reasoning += delta.reasoning
            if delta.content:
                if last >= 0 and not kinds[2]:
                    left.add(last)
                reading.content += delta.content
            for call in delta.tool_calls or []:
                last = _add(reading, call.model_dump(), last, left)
        return reading

    def whole(self, start: str, output: str, ids: list[int]) -> Reading:
        """The reading of a whole output."""
        parser, request, prompt = self.parser(start)
        if hasattr(parser, "set_prompt_token_ids"):
            parser.set_prompt_token_ids(prompt)
        reasoning, content, calls = parser.parse(
            output, request, enable_auto_tools=True, model_output_token_ids=ids
        )
        reading = Reading(reasoning or "", content or "")
        reading.calls = [
            ReadCall(c.name, getattr(c, "id", None) or f"call-{i}", c.arguments)
            for i, c in enumerate(calls or [])
        ]
        return reading


def _plan(rng: random.Random, count: int) -> tuple[int, ...]:
    """A random schedule."""
    kind = rng.random()
    if kind < 0.15:
        return (count,)
    if kind < 0.3:
        return schedule.fixed(count, 1)
    return schedule.irregular(count, rng.choice((1, 2, 3, 4, 5, 12)), rng.random())


def _finish(reading: Reading) -> Reading:
    """The parser level has no finish reason: set the one that follows, then close."""
    reading.finish = "tool_calls" if reading.calls else "stop"
    reading.close()
    return reading


class Search:
    """Runs of one kind, with shrinking."""

    def __init__(self, judges: dict[str, Any]) -> None:
        self.judges = judges
        self.levels = {r: ParserLevel(j, r) for r, j in judges.items()}

    def _pieces(self, start: str, output: str) -> tuple[Any, list[int], list[str]]:
        level = self.levels[STARTS[start].reasoning]
        ids = tokens.encode(level.judge.tokenizer, output)
        return (
            level,
            [*ids, level.judge.eos],
            [*tokens.deltas(level.judge.tokenizer, ids), ""],
        )

    def roundtrip(self, message: Message, seed: Any) -> list[str]:
        """What is wrong with a message at two random schedules and not streamed."""
        output, want, rng = (
            message.output(),
            Expected.model_validate(message.expected()),
            random.Random(seed),
        )
        level, ids, texts = self._pieces(message.start, output)
        bad = []
        for _ in range(2):
            widths = _plan(rng, len(ids))
            try:
                reading = _finish(level.streamed(message.start, ids, texts, widths))
            except Exception as error:  # the code under test may raise anything
                return [f"exception: {type(error).__name__}: {error}"]
            if problems := check.compare(reading, want) + reading.broken:
                bad += [f"cuts:{','.join(map(str, widths))}", *problems]
                break
        try:
            whole = _finish(level.whole(message.start, output, ids))
        except Exception as error:
            return [f"exception: not streamed: {type(error).__name__}: {error}"]
        return bad + [
            f"not streamed: {p}" for p in check.compare(whole, want) + whole.broken
        ]

    def fuzz(self, fragments: list[str], start: str, seed: Any) -> list[str]:
        """What is wrong with a malformed output: it raises, depends on the cut, or loses or doubles a word."""
        output, rng = "".join(fragments), random.Random(seed)
        level, ids, texts = self._pieces(start, output)
        try:
            first = _finish(
                level.streamed(start, ids, texts, schedule.fixed(len(ids), 1))
            )
            second = _finish(level.streamed(start, ids, texts, _plan(rng, len(ids))))
            whole = _finish(level.whole(start, output, ids))
        except Exception as error:
            return [f"exception: {type(error).__name__}: {error}"]
        bad = (
            list(first.broken)
            + [f"another cut: {p}" for p in check.same(second, first)]
            + check.same(whole, first)
        )
        seen = (
            first.reasoning
            + "\n"
            + first.content
            + "\n"
            + "\n".join(f"{c.name} {c.text}" for c in first.calls)
        )
        return bad + kept(output, seen)


def shrink(fragments: list[Any], fails: Any) -> list[Any]:
    """The fewest fragments that still fail: leave out halves, then quarters, then one by one."""
    size = max(1, len(fragments) // 2)
    budget = 150
    while size and budget:
        at = 0
        while at < len(fragments) and budget:
            budget -= 1
            fewer = fragments[:at] + fragments[at + size :]
            if fewer and fails(fewer):
                fragments = fewer
            else:
                at += size
        size //= 2
    return fragments


def _smaller(message: Message, search: Search, seed: Any) -> Message:
    """A failing message with fewer pieces, parameters and lines."""

    def fails(m: Message) -> bool:
        try:
            return bool(search.roundtrip(m, seed))
        except ValueError:
            return False

    pieces = shrink(
        message.pieces, lambda p: fails(Message(message.start, message.reasoning, p))
    )
    for i, (kind, piece) in enumerate(pieces):
        if kind == "call" and piece[1]:

            def put(
                params: list[Any],
                at: int = i,
                name: str = piece[0],
                rest: list[Any] = pieces,
            ) -> Message:
                return Message(
                    message.start,
                    message.reasoning,
                    [*rest[:at], ("call", (name, params)), *rest[at + 1 :]],
                )

            pieces = put(shrink(piece[1], lambda p, put=put: fails(put(p)))).pieces
    return Message(message.start, message.reasoning, pieces)


async def search(
    judges: dict[str, Any],
    ways: dict[str, Any],
    *,
    kind: str,
    seed: int,
    runs: int,
    limit: int = 1,
) -> dict[str, Any]:
    """``runs`` runs from a seed. Returns how many failed and up to ``limit`` shrunk counterexamples."""
    try:
        engine = Search(judges)
    except NoParserObject as error:
        return {
            "search": kind,
            "seed": seed,
            "runs": 0,
            "failed": 0,
            "served": 0,
            "found": [],
            "error": str(error),
        }
    out, failed, served = [], 0, 0
    for number in range(runs):
        key = f"{seed}/{number}"
        generator = Generator(key)
        if kind == "fuzz":
            fragments, start = (
                generator.malformed(),
                generator.rng.choice(("plain", "closed", "open")),
            )
            problems = engine.fuzz(fragments, start, key)
            if problems:
                failed += 1
                if len(out) < limit:
                    small = shrink(
                        fragments, lambda f, s=start, k=key: bool(engine.fuzz(f, s, k))
                    )
                    out.append(
                        {
                            "key": key,
                            "start": start,
                            "output": "".join(small),
                            "problems": engine.fuzz(small, start, key),
                        }
                    )
            continue
        message = generator.message()
        if number % SERVING_SHARE == SERVING_SHARE - 1:
            served += 1
            problems = await _serve(judges, ways, message, key)
        else:
            problems = engine.roundtrip(message, key)
        if problems:
            failed += 1
            if len(out) < limit:
                small = (
                    _smaller(message, engine, key)
                    if engine.roundtrip(message, key)
                    else message
                )
                out.append(
                    {
                        "key": key,
                        "case": small.document(f"found by random search, seed {key}"),
                        "problems": engine.roundtrip(small, key) or problems,
                    }
                )
    return {
        "search": kind,
        "seed": seed,
        "runs": runs,
        "failed": failed,
        "served": served,
        "found": out,
    }


async def _serve(
    judges: dict[str, Any], ways: dict[str, Any], message: Message, key: str
) -> list[str]:
    """One message over the serving path, on a surface chosen by the key."""
    case = parse(
        message.document("a random message over the serving path"), f"random/{key}"
    )
    rng = random.Random(key)
    judge = judges[STARTS[message.start].reasoning]
    result = await judge.run(
        ways[rng.choice(sorted(ways))],
        case,
        message.start,
        names=[f"mtp{rng.randint(1, 5)}#{key}"],
        full=False,
        seeds=1,
    )
    return [
        f"{result['surface']} {name}: {p}"
        for name, problems in result["wrong"].items()
        for p in problems
    ]
