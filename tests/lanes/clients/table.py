"""Results as a table: client by scenario, stock beside patched."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from clients import scenarios
from clients.runs import Job
from patchset import files
from patchset.release import load
from patchset.results import totals
from patchset.results.key import key

LETTERS: dict[str, str] = {"right": "✓", "server": "✗", "refused": "4xx", "client": "own", "lane": "?"}


def line(result: dict[str, Any]) -> str:
    """One result for the eye that waits."""
    what = f"{result['client']} {result['surface']} {result['scenario']} k={result['k']} ({result['seconds']} s): "
    return f"{what}{result['verdict']}" + (f": {result['why'][0][:200]}" if result["why"] else "")


def own_fault(result: dict[str, Any]) -> str:
    """The client's own fault that explains a result, by its module's ``faults``; empty if none does."""
    client = importlib.import_module(f"clients.agents.{result['client']}").CLIENT
    return str(client.faults.get(result["scenario"], "")) if result["verdict"] == "client" else ""


def document(release: str, kinds: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The whole matrix as JSON."""
    return {
        "lane": "clients",
        "release": release,
        "scenarios": list(scenarios.ALL),
        **kinds,
    }


def _cell(runs: list[dict[str, Any]]) -> str:
    """All widths of a scenario: one mark if they agree, else the share that is right."""
    if not runs:
        return "–"
    kinds = {LETTERS[r["verdict"]] for r in runs}
    if len(kinds) == 1:
        return kinds.pop()
    return f"{sum(r['verdict'] == 'right' for r in runs)}/{len(runs)}"


def markdown(document: dict[str, Any]) -> str:
    """Totals, then one table for each tree."""
    kinds = [kind for kind in ("stock", "patched") if kind in document]
    runs = {kind: document[kind] for kind in kinds}
    rows = list(dict.fromkeys((r["client"], r["surface"]) for kind in kinds for r in runs[kind]))
    names = [
        name for name in document["scenarios"] if any(r["scenario"] == name for k in kinds for r in runs[k])
    ]
    out = [f"| client | API | {' | '.join(names)} | right |", f"|---|---|{'---|' * (len(names) + 1)}"]
    for client, surface in rows:
        cells = []
        for name in names:
            pair = [
                _cell(
                    [
                        r
                        for r in runs[kind]
                        if (r["client"], r["surface"], r["scenario"]) == (client, surface, name)
                    ]
                )
                for kind in kinds
            ]
            cells.append(pair[0] if len(set(pair)) == 1 else " → ".join(pair))
        totals = []
        for kind in kinds:
            mine = [r for r in runs[kind] if (r["client"], r["surface"]) == (client, surface)]
            totals.append(f"{sum(r['verdict'] == 'right' for r in mine)}/{len(mine)}")
        out.append(f"| {client.replace('_', ' ')} | {surface} | {' | '.join(cells)} | {' → '.join(totals)} |")
    out.append("")
    for kind in kinds:
        mine = runs[kind]
        out.append(
            f"{document['release']} {kind}: {sum(r['verdict'] == 'right' for r in mine)} of {len(mine)} runs right; "
            f"quoted calls that reached a client: {sum(r['quoted'] for r in mine)}."
        )
    out += dict.fromkeys(
        f"- {r['client'].replace('_', ' ')}, {r['scenario']}: {fault}."
        for kind in kinds
        for r in runs[kind]
        if (fault := own_fault(r))
    )
    return "\n".join(out) + "\n"


def faults(document: dict[str, Any], runs: Path) -> str:
    """The faults of clients' own on the patched release, each with what was said and the raw responses."""
    worst: dict[tuple[str, str, str], dict[str, Any]] = {}
    for run in document.get("patched", []):
        if run["verdict"] == "client":  # the widest bursts make the shortest streams
            worst[run["client"], run["surface"], run["scenario"]] = run
    out = []
    for (client, surface, scenario), run in worst.items():
        told = json.loads((runs / Job.of(run).name / "exchanges.json").read_text(encoding="utf-8"))
        out += [f"# {client.replace('_', ' ')}, {surface}, {scenario}, k = {run['k']}: {own_fault(run) or 'not explained'}", *run["why"]]  # fmt: skip
        for exchange in told["exchanges"]:
            if exchange["turn"] is not None:
                out += [f"\n## Turn {exchange['turn']}, the model said\n\n{exchange['said']}"]
                out += [f"\n## Turn {exchange['turn']}, the response\n\n{exchange['body'].rstrip()}"]
        out.append("")
    # The folder that a client works in is a run's own.
    return re.sub(rf"{re.escape(str(runs.resolve()))}/[^/\s]+/work/", "FOLDER/", "\n".join(out))


def write_results(document: dict[str, Any], runs: Path) -> None:
    """Put the totals of a release, and the faults of clients' own, into ``results/clients/``.

    Clients that were not run keep the totals they have.
    """
    release = load(document["release"])
    for kind in ("stock", "patched"):
        if kind not in document:
            continue
        now, old = key(release, kind, "clients"), totals.read("clients", release.name).get(kind)
        clients: dict[str, Any] = {}
        for run in document[kind]:
            name = f"{run['client']}/{run['surface']}"
            mine = clients.setdefault(name, {"k": [], "right": 0, "runs": 0, "quoted": 0, "not right": {}})
            mine["k"] = sorted({*mine["k"], run["k"]})
            mine["runs"] += 1
            mine["right"] += run["verdict"] == "right"
            mine["quoted"] += run["quoted"]
            if run["verdict"] != "right":
                mine["not right"].setdefault(f"{run['scenario']}: {run['verdict']}", []).append(run["k"])
        kept = old["clients"] if old and old["key"] == now else {}
        totals.keep("clients", release.name, kind, {"key": now, "clients": {**kept, **clients}})
    if told := faults(document, runs):
        files.write_text(totals.file("clients", release.name).with_suffix(".faults.txt"), told)
