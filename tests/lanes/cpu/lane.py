# SPDX-License-Identifier: Apache-2.0
"""One lane run: a wheel, its environment, a server for each k, the checks, a result for each."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cpu import (
    build_dir,
    checkpoints,
    checks,
    environment,
    metrics,
    results,
    server,
    transcripts,
)
from cpu.asking import Lane
from cpu.surfaces import common
from cpu.verdict import Answers, Verdict
from patchset import console, files
from patchset.release import Release

_SOAK_SEED = 5
_CHECKS = (
    ("everywhere", checks.everywhere),
    ("cut", checks.cuts),
    ("budget", checks.budgets),
)


@dataclass(frozen=True)
class Variant:
    """A wheel under test: ``stock`` or ``patched``."""

    name: str
    wheel: Path


@dataclass
class Run:
    """What was found at one k."""

    verdicts: list[Verdict]
    drafts: metrics.Drafts
    disconnects: list[dict[str, Any]]
    soak: dict[str, Any] | None = None
    control: dict[str, list[int]] | None = None
    unlearnt: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def complaints(self, mtp: int) -> list[str]:
        """Why this run proves nothing, or what broke besides single answers."""
        found = self.drafts.complaints() if mtp else []
        if self.unlearnt:
            found.append(f"the model does not know {', '.join(self.unlearnt)}")
        for left in self.disconnects:
            bad = [
                kind for kind in left["right_after"] if kind in ("request", "unknown")
            ]
            if bad or not (left["healthy"] and left["idle"]):
                found.append(f"not well after {left['clients']} clients left: {left}")
        return found


def run(release: Release, variant: Variant, ks: Sequence[int], soak: int) -> list[Path]:
    """Run the checks at each k and write the results; the last k gets the soak of ``soak`` requests."""
    started = time.monotonic()
    server_environment = environment.base(release, variant.wheel)
    times = {"environment": time.monotonic() - started}
    model = checkpoints.checkpoint(server_environment)
    times["checkpoint"] = time.monotonic() - started - times["environment"]
    server_environment = environment.with_wheel(server_environment, variant.wheel)
    folder = build_dir() / "runs" / variant.name
    control: dict[str, list[int]] | None = None
    places = []
    for k in sorted(ks):
        with console.step(f"{variant.name}, k = {k}"):
            begun = time.monotonic()
            with server.running(server_environment, model, k, folder) as running:
                console.note(
                    f"  healthy after {running.started_seconds:.0f} s at {running.url}"
                )
                found = asyncio.run(
                    judge(running, model, control, soak if k == max(ks) else 0)
                )
            control = found.control or control
            found.seconds |= {
                "server_start": running.started_seconds,
                "all": time.monotonic() - begun,
            }
        found.seconds |= times
        result = {
            "lane": "cpu",
            "release": release.name,
            "variant": variant.name,
            "wheel": {
                "file": variant.wheel.name,
                "sha256": files.sha256_file(variant.wheel),
            },
            **findings(found, k, model, controlled=control is not None),
            "versions": server_environment.versions,
        }
        place = build_dir() / "results" / f"{release.name}-{variant.name}-k{k}.json"
        files.write_text(place, json.dumps(result, ensure_ascii=False, indent=1) + "\n")
        places.append(place)
        say(result, place)
    return places


async def judge(
    running: server.Server, model: Path, control: dict[str, list[int]] | None, soak: int
) -> Run:
    """Ask a server of the model that knows the transcripts, everything; ``control`` are its tokens at k = 0."""
    answers = Answers.load(model)
    clients = common.clients(running.url, server.MODEL_NAME)
    lane = Lane(running, clients, transcripts.load(), answers, control)
    found = Run([], metrics.Drafts(0, 0, 0, ()), [])
    async with clients.openai, clients.anthropic:
        if running.mtp == 0:
            found.control = lane.control = await checks.control(lane)
            # A forced call is generated under a grammar, which may take away white space that was learnt.
            free = [
                id
                for id, transcript in lane.transcripts.items()
                if transcript.tool_choice == "auto"
            ]
            found.unlearnt = [
                id for id in free if found.control.get(id) != answers.tokens[id]
            ]
        for name, check in _CHECKS:
            begun = time.monotonic()
            found.verdicts += await check(lane)
            found.seconds[name] = time.monotonic() - begun
        found.drafts = metrics.drafts(running.metrics(), running.mtp)
        begun = time.monotonic()
        found.disconnects = await checks.disconnects(lane)
        found.seconds["disconnects"] = time.monotonic() - begun
        if soak:
            verdicts, found.soak = await checks.soak(lane, soak, _SOAK_SEED)
            found.verdicts += verdicts
    return found


def findings(found: Run, k: int, model: Path, *, controlled: bool) -> dict[str, Any]:
    """What a result says of a run, whatever lane it was in."""
    groups = {id: transcript.group for id, transcript in transcripts.load().items()}
    return {
        "mtp": k,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **results.summary(found.verdicts, groups),
        "complaints": found.complaints(k),
        "acceptance": round(found.drafts.acceptance, 4),
        "acceptance_by_position": found.drafts.acceptance_by_position,
        "burst_widths": found.drafts.widths() if k else {},
        "delivered_widths": results.delivered_widths(found.verdicts),
        "drafts": asdict(found.drafts),
        "control": "k = 0 of the same run"
        if controlled
        else "the transcripts' own tokens",
        "disconnects": found.disconnects,
        "soak": found.soak,
        "checkpoint": {"key": model.name}
        | json.loads((model / "made.json").read_text(encoding="utf-8")),
        "seconds": {name: round(value, 1) for name, value in found.seconds.items()},
    }


def say(result: dict[str, Any], place: Path) -> None:
    """A result in some lines."""
    console.note(
        f"  {result['right']} of {result['requests']} right {result['by_kind']}; result {place}"
    )
    for complaint in result["complaints"]:
        console.note(f"  ! {complaint}")
    for verdict in result["wrong"][:5]:
        where = f"{verdict['check']} {results.surface_name(verdict['surface'], verdict['streamed'])}"
        console.note(
            f"  {verdict['kind']}: {verdict['transcript']} on {where}: {'; '.join(verdict['why'])}"
        )
