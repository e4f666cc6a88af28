# SPDX-License-Identifier: Apache-2.0
"""Runs one case from one start on one surface, at every schedule, and judges what
comes back.
"""

import asyncio
import re
from typing import Any

import httpx

from conformance import case as cases
from conformance import check, schedule, sdk, tokens
from conformance.case import Case, Run
from conformance.host.engine import MODEL, SCRIPT, Script
from conformance.reading import Reading, failed, raised
from conformance.surfaces import surfaces

#: Bound of a scripted response; a model takes longer.
LIMIT_S = 60.0

Judged = tuple[list[check.Found], bool, tuple[str, list[check.Act]] | None]


def pieces(case: Case, run: Run) -> tuple[list[int], list[str]]:
    """Return token ids and what each adds to the text; an output that the model ended
    has the end token, whose text comes with the request's
    ``include_stop_str_in_output``.
    """
    tokenizer = tokens.load()
    ids = tokens.encode(tokenizer, run.output, ordinary_tags=case.ordinary_tags)
    if case.drop_tokens:
        ids = ids[: -case.drop_tokens]
    texts = tokens.deltas(tokenizer, ids)
    if case.end == "stop":
        return [*ids, tokenizer.token_to_id(tokens.EOS)], [*texts, ""]
    if case.stop_token:
        return [*ids, tokens.id_of(case.stop_token)], [*texts, ""]
    return ids, texts


def script(
    ids: list[int],
    texts: list[str],
    widths: tuple[int, ...],
    end: str,
    stop: str | int,
) -> Script:
    bursts = [
        ("".join(texts[part]), tuple(ids[part])) for part in schedule.parts(widths)
    ]
    ended = "stop" if end in ("stop-string", "stop-token") else end
    return Script(tuple(bursts), ended, stop=stop or None)


class Judge:
    """Asks a server. ``json_calls``: the release constrains required calls to JSON."""

    def __init__(self, client: httpx.AsyncClient, *, json_calls: bool = False) -> None:
        self.client, self.json_calls = client, json_calls
        #: The last response that is to be read.
        self.body = b""
        self.bodies: dict[str, bytes] = {}

    async def ask(
        self, surface: Any, case: Case, run: Run, said: Script, *, stream: bool
    ) -> Reading:
        """Make one request. Whatever goes wrong is a reading, never an exception."""
        SCRIPT.set(said)
        self.body = b""
        request = surface.request(case, run.start, stream=stream, model=MODEL)
        try:
            asked = self.client.post(surface.PATH, json=request)
            answer = await asyncio.wait_for(asked, LIMIT_S)
        except TimeoutError:
            return raised("hang", "no end of the response")
        except httpx.HTTPError as error:
            return raised("connection", f"{type(error).__name__}: {error}")
        except Exception as error:  # the code under test may raise anything
            return raised("exception", f"{type(error).__name__}: {error}"[:300])
        if answer.status_code != 200:
            return failed(answer.status_code, answer.content)
        self.body = answer.content
        read = surface.read_stream if stream else surface.read_full
        try:
            reading: Reading = read(self.body)
        except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            detail = f"{type(error).__name__}: {error} in {self.body[-200:]!r}"
            return raised("unreadable", detail)
        return reading

    async def readings(
        self,
        surface: Any,
        case: Case,
        start: str,
        names: list[str],
        *,
        json_calls: bool = False,
    ) -> dict[str, Reading]:
        """Return what a client reads of a case, by schedule; ``full`` is not streamed.

        ``bodies`` has the streams: of schedules with equal widths that of the first.
        """
        run = case.run(start, json_calls=json_calls)
        ids, texts = pieces(case, run)
        stop = ids[-1] if case.stop_token else case.stop_string
        seen: dict[tuple[bool, tuple[int, ...]], Reading] = {}
        found, self.bodies = dict[str, Reading](), {}
        for name in names:
            stream, widths = name != "full", schedule.named(name, len(ids))
            if (stream, widths) not in seen:
                said = script(ids, texts, widths, case.end, stop)
                reading = await self.ask(surface, case, run, said, stream=stream)
                seen[stream, widths] = reading
                self.bodies[name] = self.body
            found[name] = seen[stream, widths]
        return found

    async def run(
        self, surface: Any, case: Case, start: str, job: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a case from a start on a surface, at all schedules or those of the
        job.
        """
        run = case.run(start, json_calls=self.json_calls)
        key = f"{case.name}/{start}"
        names = [name for name in job["schedules"] or () if name != "full"]
        if job["schedules"] is None:
            plan = schedule.schedules(pieces(case, run)[1], key, full=job["full"])
            wanted = re.compile(job["pattern"] or ".*")
            names = [name for name in plan if wanted.fullmatch(name)]
        read = await self.readings(
            surface, case, start, ["full", *names], json_calls=self.json_calls
        )
        if (w1 := read.get("w1")) and w1.pieces < case.min_argument_deltas:
            at_least = f"at least {case.min_argument_deltas} expected"
            w1.breaks("streams", f"{w1.pieces} argument deltas, {at_least}")
        verdicts = {"full": judged(case, run, read["full"], None)}
        # With one that is lost or wrong there is nothing to agree.
        right = check.worst(verdicts["full"][0]) in ("", "form")
        whole = read["full"] if right else None
        verdicts |= {name: judged(case, run, read[name], whole) for name in names}
        by_sdk = {
            name: sdk.difference(surface.NAME, body, read[name])
            for name, body in self.bodies.items()
            if name != "full" and body and sdk.sampled(f"{key}/{surface.NAME}/{name}")
        }
        return {
            "case": case.name,
            "class": case.class_,
            "ordinary": case.ordinary,
            "start": start,
            "reasoning": run.start.reasoning,
            "surface": surface.NAME,
            "right": [n for n, (bad, _, _) in verdicts.items() if not bad],
            "wrong": {
                n: [check.worst(bad), *(why for _, why in bad)]
                for n, (bad, _, _) in verdicts.items()
                if bad
            },
            "differs": any(differs for _, differs, _ in verdicts.values()),
            "acts": {n: acts for n, (_, _, acts) in verdicts.items() if acts},
            "sdk": by_sdk,
            "streams": len(self.bodies),
        }


async def results(
    judges: dict[str, Judge], case: Case, job: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return a job's results, by the judges of each reasoning parser that there is."""
    ways = surfaces()
    return [
        await judge.run(ways[surface], case, start, job)
        for surface in job["surfaces"]
        for start in job["starts"]
        if (judge := judges.get(cases.STARTS[start].reasoning))
    ]


def judged(case: Case, run: Run, reading: Reading, whole: Reading | None) -> Judged:
    """Return what is wrong; where the format leaves a choice, whether it differs, how
    the calls do, and what a client does with them.
    """
    bad = check.problems(reading, run.expected)
    named = reading.stopped_by
    if reading.finish == "stop" and named not in (None, case.stop_string):
        why = f"stop string: got {named!r}, expected {case.stop_string!r}"
        bad.append(("form", why))
    if whole is not None:
        bad += check.same(reading, whole)
    if case.class_ != "implementation-defined":
        return bad, False, None
    choice = check.differences(reading, run.expected)
    harm = check.worst(check.of_calls(reading, run.expected))
    does = harm, check.acts(reading, run.expected)
    return [each for each in bad if each not in choice], bool(choice), does
