"""Runs one case from one start on one surface, at every schedule, and judges what
comes back.
"""

from __future__ import annotations

import re
from typing import Any

from conformance import check, schedule, sdk, tokens
from conformance.case import Case, Run
from conformance.host.asgi import post
from conformance.host.engine import MODEL, SCRIPT, Script
from conformance.reading import Reading, failed, raised

Judged = tuple[list[check.Found], bool]


class Judge:
    """Holds an application and the tokenizer.

    ``json_calls``: the release constrains required calls to JSON.
    """

    json_calls = False
    body = b""
    """The last response that is to be read."""

    def __init__(self, app: Any, *, json_calls: bool = False) -> None:
        self.app, self.json_calls = app, json_calls
        self.tokenizer = tokens.load()
        self.eos = self.tokenizer.token_to_id(tokens.EOS)
        self.streams = 0

    def pieces(self, run: Run, case: Case) -> tuple[list[int], list[str]]:
        """Token ids and what each adds to the text; an output that the model ended
        has the end token, which adds nothing.
        """
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
        self.streams, self.body = self.streams + 1, b""
        request = surface.request(case, run.start, stream=stream, model=MODEL)
        try:
            status, body = await post(self.app, surface.PATH, request)
        except TimeoutError:
            return raised("hang", "no end of the response")
        except Exception as error:  # the code under test may raise anything
            return raised("exception", f"{type(error).__name__}: {error}"[:300])
        return self.read(surface, status, body, stream=stream)

    def read(self, surface: Any, status: int, body: bytes, *, stream: bool) -> Reading:
        """The reading of a response."""
        if status != 200:
            return failed(status, body)
        self.body = body
        read = surface.read_stream if stream else surface.read_full
        try:
            return read(body)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            detail = f"{type(error).__name__}: {error} in {body[-200:]!r}"
            return raised("unreadable", detail)

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
        """A case from a start on a surface, at all schedules or those chosen.

        Args:
            names: Of schedules.
            pattern: Of schedules' names.
        """
        run = case.run(start, json_calls=self.json_calls)
        ids, texts = self.pieces(run, case)
        key = f"{case.name}/{start}"
        if names is None:
            plan = schedule.schedules(texts, key, full=full, seeds=seeds)
            plan = [s for s in plan if re.fullmatch(pattern or ".*", s.name)]
        else:
            plan = [schedule.named(n, len(ids)) for n in names if n != "full"]

        async def ask(widths: tuple[int, ...], *, stream: bool) -> Reading:
            script = self.script(ids, texts, widths, case.end, case.stop_string)
            return await self.ask(surface, case, run, script, stream=stream)

        whole = await ask((len(ids),), stream=False)
        found = {"full": self.judge(case, run, whole, None)}
        by_sdk: dict[str, str] = {}
        seen: dict[tuple[int, ...], Judged] = {}
        # With one that is lost or wrong there is nothing to agree.
        right = check.worst(found["full"][0]) in ("", "form")
        for entry in plan:
            if entry.widths not in seen:
                reading = await ask(entry.widths, stream=True)
                if entry.name == "w1" and reading.pieces < case.min_argument_deltas:
                    at_least = f"at least {case.min_argument_deltas} expected"
                    detail = f"{reading.pieces} argument deltas, {at_least}"
                    reading.breaks("streams", detail)
                seen[entry.widths] = self.judge(
                    case, run, reading, whole if right else None
                )
                key = f"{case.name}/{start}/{surface.NAME}/{entry.name}"
                if self.body and sdk.sampled(key):
                    difference = sdk.difference(surface.NAME, self.body, reading)
                    by_sdk[entry.name] = difference
            found[entry.name] = seen[entry.widths]
        return {
            "case": case.name,
            "class": case.class_,
            "ordinary": case.ordinary,
            "start": start,
            "reasoning": run.start.reasoning,
            "surface": surface.NAME,
            "right": [n for n, (bad, _) in found.items() if not bad],
            "wrong": {
                n: [check.worst(bad), *(why for _, why in bad)]
                for n, (bad, _) in found.items()
                if bad
            },
            "differs": any(differs for _, differs in found.values()),
            "sdk": by_sdk,
        }

    @staticmethod
    def script(
        ids: list[int],
        texts: list[str],
        widths: tuple[int, ...],
        end: str,
        stop_string: str,
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
    def judge(case: Case, run: Run, reading: Reading, whole: Reading | None) -> Judged:
        """What is wrong, and whether it differs where the format leaves a choice."""
        bad = check.problems(reading, run.expected)
        named = reading.stopped_by
        if reading.finish == "stop" and named not in (None, case.stop_string):
            why = f"stop string: got {named!r}, expected {case.stop_string!r}"
            bad.append(("form", why))
        if whole is not None:
            bad += check.same(reading, whole)
        if case.class_ != "implementation-defined":
            return bad, False
        choice = check.differences(reading, run.expected)
        return [each for each in bad if each not in choice], bool(choice)
