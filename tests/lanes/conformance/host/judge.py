"""Runs one case from one start on one surface, at every schedule, and judges what comes back."""

from __future__ import annotations

import re
from typing import Any

from conformance import check, schedule, tokens
from conformance.case import Case, Run
from conformance.host.asgi import post
from conformance.host.engine import MODEL, SCRIPT, Script
from conformance.reading import Reading, failed


class Judge:
    """Holds an application and the tokenizer. ``json_calls``: the release constrains required calls to JSON."""

    json_calls = False

    def __init__(self, app: Any, *, json_calls: bool = False) -> None:
        self.app, self.json_calls = app, json_calls
        self.tokenizer = tokens.load()
        self.eos = self.tokenizer.token_to_id(tokens.EOS)
        self.streams = 0

    def pieces(self, run: Run, case: Case) -> tuple[list[int], list[str]]:
        """Token ids and what each adds to the text; an output that the model ended has the end token, which adds nothing."""
        ids = tokens.encode(
            self.tokenizer, run.output, ordinary_tags=case.ordinary_tags
        )
        if case.drop_tokens:
            ids = ids[: -case.drop_tokens]
        texts = tokens.deltas(self.tokenizer, ids)
        if case.end == "stop":
            return [*ids, self.eos], [*texts, ""]
        return ids, texts

    async def ask(
        self, surface: Any, case: Case, run: Run, script: Script, *, stream: bool
    ) -> Reading:
        """One request. Whatever goes wrong is a reading, never an exception."""
        SCRIPT.set(script)
        self.streams += 1
        try:
            status, body = await post(
                self.app,
                surface.PATH,
                surface.request(case, run.start, stream=stream, model=MODEL),
            )
        except TimeoutError:
            return _raised("hang", "no end of the response")
        except Exception as error:  # the code under test may raise anything
            return _raised("exception", f"{type(error).__name__}: {error}"[:300])
        if status != 200:
            return failed(status, body)
        try:
            return surface.read_stream(body) if stream else surface.read_full(body)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            return _raised(
                "unreadable", f"{type(error).__name__}: {error} in {body[-200:]!r}"
            )

    async def run(
        self,
        surface: Any,
        case: Case,
        start: str,
        *,
        names: list[str] | None,
        full: bool,
        seeds: int,
        pattern: str | None = None,
    ) -> dict[str, Any]:
        """All schedules (or those named, or those whose name matches ``pattern``) of a case from a start on a surface."""
        run = case.run(start, json_calls=self.json_calls)
        ids, texts = self.pieces(run, case)
        if names is None:
            plan = schedule.schedules(
                texts, f"{case.name}/{start}", full=full, seeds=seeds
            )
            if pattern:
                plan = [s for s in plan if re.fullmatch(pattern, s.name)]
        else:
            plan = [schedule.named(n, len(ids)) for n in names if n != "full"]
        whole = await self.ask(
            surface,
            case,
            run,
            self.script(ids, texts, (len(ids),), case.end, case.stop_string),
            stream=False,
        )
        results, seen, near = {}, {}, []
        results["full"] = self.judge(case, run, whole, None)
        if check.only_white_space(whole, run.expected):
            near.append("full")
        for entry in plan:
            if entry.widths not in seen:
                reading = await self.ask(
                    surface,
                    case,
                    run,
                    self.script(ids, texts, entry.widths, case.end, case.stop_string),
                    stream=True,
                )
                if entry.name == "w1" and reading.pieces < case.min_argument_deltas:
                    reading.breaks(
                        "streams",
                        f"{reading.pieces} argument deltas, at least {case.min_argument_deltas} expected",
                    )
                seen[entry.widths] = (
                    self.judge(case, run, reading, whole),
                    check.only_white_space(reading, run.expected),
                )
            results[entry.name], close = seen[entry.widths]
            if close:
                near.append(entry.name)
        return {
            "case": case.name,
            "class": case.class_,
            "start": start,
            "reasoning": run.start.reasoning,
            "surface": surface.NAME,
            "tokens": len(ids),
            "right": [n for n, (bad, _) in results.items() if not bad],
            "wrong": {n: bad for n, (bad, _) in results.items() if bad},
            "near": [n for n in near if results[n][0]],
            "differs": {n: d for n, (_, d) in results.items() if d},
        }

    @staticmethod
    def script(
        ids: list[int],
        texts: list[str],
        widths: tuple[int, ...],
        end: str,
        stop_string: str = "",
    ) -> Script:
        """The bursts of a schedule."""
        bursts, at = [], 0
        for width in widths:
            bursts.append(
                ("".join(texts[at : at + width]), tuple(ids[at : at + width]))
            )
            at += width
        return Script(
            tuple(bursts),
            "stop" if end == "stop-string" else end,
            stop=stop_string or None,
        )

    @staticmethod
    def judge(
        case: Case, run: Run, reading: Reading, whole: Reading | None
    ) -> tuple[list[str], list[str]]:
        """(what is wrong, what differs from our choice where the format leaves one)."""
        bad = check.broken(reading, run.expected)
        difference = check.compare(reading, run.expected)
        if reading.finish == "stop" and reading.stopped_by not in (
            None,
            case.stop_string,
        ):
            difference.append(
                f"stop string: got {reading.stopped_by!r}, expected {case.stop_string!r}"
            )
        if whole is not None:
            bad += check.same(reading, whole)
        if case.class_ == "implementation-defined":
            return bad, difference
        return difference + bad, []


def _raised(kind: str, detail: str) -> Reading:
    reading = Reading()
    reading.breaks(kind, detail)
    return reading
