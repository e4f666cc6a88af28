# SPDX-License-Identifier: Apache-2.0
"""Real weights: nobody knows their answers by heart, so answers are held against each other and against the schemas.

Each prompt is asked on every surface, streamed and not, under greedy decoding. Two answers of the same tokens must
be the same message; every call must be valid against its tool's schema; and the tokens are compared with those of
the server without speculative decoding, the first difference being reported and no fault of a parser.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jsonschema

from cpu import metrics, results, server, transcripts
from cpu.asking import Asked, Lane, gather
from cpu.surfaces import SURFACES, common
from cpu.transcripts import Message, Transcript
from cpu.verdict import Answers, Verdict
from gpu import cells
from patchset import console, files

PROMPTS = Path(__file__).parent / "prompts.json"
#: No answer may be longer; one that is, is cut, and its last call is not held against its schema.
MAX_TOKENS = 4096
#: The prompt whose answer is timed.
LONG = "snake"


def prompts(file: Path = PROMPTS) -> dict[str, Transcript]:
    """The prompts as requests without a known answer, by id."""
    found = {}
    for entry in json.loads(file.read_text(encoding="utf-8")):
        found[entry["id"]] = Transcript(
            id=entry["id"],
            group=entry["group"],
            user=entry["user"],
            thinking=entry.get("thinking", False),
            tools=tuple(entry["tools"]),
            tool_choice=entry.get("tool_choice", "auto"),
            parts=(),
        )
    return found


def revision(folder: Path) -> str:
    """What names the weights of a folder: a hash over its configuration and index."""
    names = ("config.json", "model.safetensors.index.json")
    return "+".join(
        files.sha256_file(folder / name)[:16]
        for name in names
        if (folder / name).is_file()
    )


async def judge(running: server.Server, control_file: Path) -> dict[str, Any]:
    """Ask everything of a server; ``control_file`` holds the tokens at k = 0, and is written by the server at k = 0."""
    known = prompts()
    control: dict[str, list[int]] = {}
    if running.mtp and control_file.is_file():
        control = json.loads(control_file.read_text(encoding="utf-8"))
    clients = common.clients(running.url, server.MODEL_NAME)
    lane = Lane(
        running, clients, known, Answers({}, {id: [] for id in known}, {}), None
    )
    makers = [
        functools.partial(_ask, lane, surface, streamed, id)
        for id in known
        for surface in SURFACES
        for streamed in (True, False)
    ]
    async with clients.openai, clients.anthropic:
        with console.progress("prompts", len(makers), unit="requests") as advance:
            asked = await gather(makers, cells.AT_ONCE, advance)
        tokens = await _tokens(lane, asked)
        drafts = metrics.drafts(running.metrics(), running.mtp)
    if running.mtp == 0:
        control = {
            a.transcript.id: said
            for a, said in zip(asked, tokens, strict=True)
            if said and a.surface == "chat" and not a.streamed
        }
        files.write_text(control_file, json.dumps(control))
    return report(asked, tokens, control, running.mtp, drafts)


async def _ask(lane: Lane, surface: str, streamed: bool, id: str) -> Asked:
    transcript = lane.transcripts[id]
    asked = Asked(
        "real weights",
        surface,
        streamed,
        transcript,
        MAX_TOKENS,
        Message("", "", (), "stop"),
    )
    try:
        asked.got = await lane.send(surface, streamed, transcript, MAX_TOKENS)
    except Exception as error:  # whatever a client raises about an answer is a finding about that answer
        asked.failure = f"{type(error).__name__}: {error}"[:500]
    return asked


async def _tokens(lane: Lane, asked: list[Asked]) -> list[list[int] | None]:
    for _ in range(50):
        lane.look()
        if all(a.got is None or lane.tokens(a) is not None for a in asked):
            break
        await asyncio.sleep(0.1)
    return [lane.tokens(a) for a in asked]


def report(
    asked: list[Asked],
    tokens: list[list[int] | None],
    control: dict[str, list[int]],
    mtp: int,
    drafts: metrics.Drafts,
) -> dict[str, Any]:
    """A result's findings: verdicts, calls, and where tokens first differ from k = 0."""
    first: dict[tuple[str, tuple[int, ...]], Any] = {}
    verdicts: list[Verdict] = []
    differing: dict[str, dict[str, Any]] = {}
    for a, said in zip(asked, tokens, strict=True):
        where = (a.check, a.surface, a.streamed, a.transcript.id, a.max_tokens)
        if a.got is None:
            verdicts.append(Verdict("request", *where, (a.failure,)))
            continue
        why = [*dict.fromkeys(a.got.broken), *invalid(a)]
        message = asdict(a.got.message())
        if said is not None:
            other = first.setdefault((a.transcript.id, tuple(said)), message)
            if other != message:
                why.append("another message was made of the same tokens")
            reference = control.get(a.transcript.id)
            if mtp and reference is not None and said != reference:
                differing.setdefault(a.transcript.id, _difference(reference, said))
        kind = "unknown" if said is None and why else "parser" if why else "right"
        verdicts.append(Verdict(kind, *where, tuple(why), got=message if why else None))  # type: ignore[arg-type]
    called = Counter(len(a.got.names) for a in asked if a.got is not None)
    silent = sorted(
        {a.transcript.id for a in asked}
        - {a.transcript.id for a in asked if a.got is not None and a.got.names}
    )
    groups = {a.transcript.id: a.transcript.group for a in asked}
    return {
        "mtp": mtp,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **results.summary(verdicts, groups),
        "complaints": [] if drafts.drafts or not mtp else ["nothing was drafted"],
        "acceptance": round(drafts.acceptance, 4),
        "acceptance_by_position": drafts.acceptance_by_position,
        "burst_widths": drafts.widths() if mtp else {},
        "calls_by_answer": dict(sorted(called.items())),
        "prompts_without_a_call": silent,
        "control": f"tokens of {len(control)} prompts at k = 0" if control else "none",
        "prompts_differing_from_k0": differing,
    }


def invalid(asked: Asked) -> list[str]:
    """What is wrong with an answer's calls by their tools' schemas; the last call of a cut answer is let be."""
    got = asked.got
    assert got is not None
    schemas = transcripts.tool_schemas(asked.transcript.tools)
    whole = len(got.names) - (got.finish == "length")
    found = []
    for number, (name, text) in enumerate(
        zip(got.names[:whole], got.arguments[:whole], strict=True)
    ):
        if name not in schemas:
            found.append(f"call {number}: no tool is called {name[:80]!r}")
            continue
        try:
            jsonschema.validate(json.loads(text), schemas[name])
        except ValueError:
            found.append(f"call {number}: arguments are no JSON")
        except jsonschema.ValidationError as error:
            found.append(f"call {number}: {error.message[:200]}")
    return found


def _difference(reference: list[int], said: list[int]) -> dict[str, Any]:
    same = next(
        (n for n, (a, b) in enumerate(zip(reference, said, strict=False)) if a != b),
        min(len(reference), len(said)),
    )
    return {
        "first_differing_token": same,
        "at_k0": reference[same : same + 1],
        "here": said[same : same + 1],
        "lengths": [len(reference), len(said)],
    }
