"""Runs cases against a running server over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from conformance import case as cases
from conformance import schedule, tokens
from conformance.case import Case, Run
from conformance.host.judge import Judge
from conformance.reading import Reading, raised
from conformance.surfaces import surfaces

TIMEOUT_S = 300.0


class RemoteJudge(Judge):
    """The same judge with HTTP in place of the in-process call. The schedule is asked
    for in headers; an ordinary server cuts as it pleases, which is then the one
    schedule that is judged.
    """

    def __init__(self, url: str, model: str, headers: dict[str, str]) -> None:
        self.url, self.model, self.headers = url, model, headers
        self.tokenizer = tokens.load()
        self.eos = self.tokenizer.token_to_id(tokens.EOS)
        self.streams = 0

    async def job(self, job: dict[str, Any], reasoning: str) -> dict[str, Any]:
        """One case on its surfaces, from the starts that the server's reasoning
        parser allows.
        """
        case, out, ways = cases.parse(job["case"], job["name"]), [], surfaces()
        before = self.streams
        async with httpx.AsyncClient(
            base_url=self.url, timeout=TIMEOUT_S, headers=self.headers
        ) as self.client:
            scripted = (await self.client.get("/health")).headers.get("x-conformance")
            self.json_calls = scripted == "json-calls"
            names = job.get("schedules") or (None if scripted else ["whole"])
            for surface in job["surfaces"]:
                for start in job["starts"]:
                    if cases.STARTS[start].reasoning == reasoning:
                        out.append(
                            await self.run(
                                ways[surface],
                                case,
                                start,
                                names=names,
                                full=job["full"],
                                seeds=job["seeds"],
                                pattern=job.get("pattern"),
                            )
                        )
        return {
            "name": case.name,
            "results": out,
            "streams": self.streams - before,
            "seconds": 0.0,
        }

    async def ask(
        self, surface: Any, case: Case, run: Run, script: Any, *, stream: bool
    ) -> Reading:
        """One request over HTTP."""
        self.streams, self.body = self.streams + 1, b""
        widths = ",".join(str(len(ids)) for _, ids in script.bursts)
        body = surface.request(case, run.start, stream=stream, model=self.model)
        headers = {
            "x-conformance-start": run.start.name,
            "x-conformance-schedule": f"cuts:{widths}",
        }
        try:
            response = await self.client.post(surface.PATH, json=body, headers=headers)
        except httpx.TimeoutException:
            return raised("hang", "no end of the response")
        except httpx.HTTPError as error:
            return raised("connection", f"{type(error).__name__}: {error}")
        return self.read(surface, response.status_code, response.content, stream=stream)


def schedule_of(name: str, count: int) -> schedule.Schedule:
    """The schedule a request's header names, one token a step without one."""
    return schedule.named(name or "w1", count)
