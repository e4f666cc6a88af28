"""Results as a table: client by scenario, stock beside patched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from clients import SUITE_VERSION, scenarios
from clients.agents import CLIENTS
from clients.judge import HARMS
from patchset import results
from patchset.release import Release, load

LANE = "clients"

LETTERS = {"right": "✓", "form": "form", "lane": "?"}


def is_right(result: dict[str, Any]) -> bool:
    """Whether nothing but form is wrong."""
    return result["verdict"] in ("right", "form")


def line(result: dict[str, Any]) -> str:
    """One result for the eye that waits."""
    what = " ".join(str(result[f]) for f in ("client", "surface", "scenario"))
    why = f": {result['why'][0][:200]}" if result["why"] else ""
    return f"{what} k={result['k']} ({result['seconds']} s): {result['verdict']}{why}"


def own_fault(result: dict[str, Any]) -> str:
    """The client's own fault that explains a result; empty if none does."""
    faults = CLIENTS[result["client"]].faults
    return faults.get(result["scenario"], "") if result["own"] else ""


def document(release: str, kinds: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The whole matrix as JSON."""
    names = [*scenarios.ALL, *scenarios.SILENCE]
    return {"lane": "clients", "release": release, "scenarios": names, **kinds}


def _cell(runs: list[dict[str, Any]]) -> str:
    """The worst of all widths of a scenario."""
    if not runs:
        return "–"
    kinds = [*HARMS[:-1], "lane", "form", "right"]
    worst = min(runs, key=lambda run: kinds.index(run["verdict"]))
    mark = LETTERS.get(worst["verdict"], worst["verdict"])
    return f"({mark})" if worst["own"] and not is_right(worst) else mark


def markdown(document: dict[str, Any]) -> str:
    """One row a client and API, one column a scenario; then totals by harm."""
    kinds = [kind for kind in ("stock", "patched") if kind in document]
    every = [run for kind in kinds for run in document[kind]]
    rows = dict.fromkeys((run["client"], run["surface"]) for run in every)
    played = {run["scenario"] for run in every}
    names = [name for name in document["scenarios"] if name in played]

    def runs(kind: str, row: tuple[str, str], name: str = "") -> list[dict[str, Any]]:
        return [
            run
            for run in document[kind]
            if (run["client"], run["surface"]) == row and name in ("", run["scenario"])
        ]

    def change(cells: list[str]) -> str:
        return cells[0] if len(set(cells)) == 1 else " → ".join(cells)

    out = [
        f"| client | API | {' | '.join(names)} | right |",
        f"|---|---|{'---|' * (len(names) + 1)}",
    ]
    for row in rows:
        cells = [
            change([_cell(runs(kind, row, name)) for kind in kinds]) for name in names
        ]
        shares = [[is_right(run) for run in runs(kind, row)] for kind in kinds]
        share = " → ".join(f"{sum(share)}/{len(share)}" for share in shares)
        name, surface = row
        cells = [name.replace("_", " "), surface, *cells, share]
        out.append(f"| {' | '.join(cells)} |")
    out.append("")
    for kind in kinds:
        found = Counter(run["verdict"] for run in document[kind])
        right = sum(map(is_right, document[kind]))
        harms = ", ".join(f"{harm} {found[harm]}" for harm in HARMS)
        out.append(
            f"{document['release']} {kind}: {right} of {len(document[kind])} right; {harms}."
        )
    out += dict.fromkeys(
        f"- {run['client'].replace('_', ' ')}, {run['scenario']}: {fault}."
        for run in every
        if (fault := own_fault(run))
    )
    return "\n".join(out) + "\n"


def write_results(document: dict[str, Any]) -> None:
    """Put the totals of a release into ``results/clients/``.

    Clients that were not run keep the totals they have.
    """
    release = load(document["release"])
    for kind in ("stock", "patched"):
        if kind not in document:
            continue
        clients: dict[str, Any] = {}
        for run in document[kind]:
            mine = clients.setdefault(
                f"{run['client']}/{run['surface']}", {"runs": 0, "right": 0}
            )
            mine["runs"] += 1
            mine["right"] += is_right(run)
            if run["verdict"] != "right":
                mine.setdefault(run["verdict"], []).append(run["scenario"])
        old = results.read(LANE, release.name).get(kind, {})
        kept = old.get("clients", {}) if old.get("suite") == SUITE_VERSION else {}
        widths = sorted({run["k"] for run in document[kind]})
        figures = {"k": widths, "clients": {**kept, **clients}}
        results.keep(LANE, SUITE_VERSION, release.name, kind, figures)


#: The rows of harms in the table.
TITLES = {
    "ran": "ran something unasked",
    "bytes": "a call with other bytes",
    "lost": "a call or the session lost",
    "text": "text lost or misplaced",
    "form": "form alone (counted as right)",
}


def table(found: Iterable[Release]) -> str:
    """One row a client and API, then one a harm; one column a release with results."""
    run = {
        release.name: cells
        for release in found
        if (cells := results.read(LANE, release.name))
    }
    if not run:
        return f"{results.NOT_RUN}\n"
    names = dict.fromkeys(
        name
        for cells in run.values()
        for kind in results.KINDS
        for name in cells.get(kind, {}).get("clients", {})
    )
    rows = []
    for each in names:
        name, surface = each.split("/")
        shares = []
        for cells in run.values():
            both = {kind: cell["clients"].get(each, {}) for kind, cell in cells.items()}
            shares.append(results.change(both, _share))
        rows.append([name.replace("_", " "), surface, *shares])
    for harm, title in TITLES.items():
        counts = [
            " → ".join(_count(cells.get(kind, {}), harm) for kind in results.KINDS)
            for cells in run.values()
        ]
        rows.append([title, "all", *counts])
    days = [
        results.taken(cells.values(), SUITE_VERSION, release)
        for release, cells in run.items()
    ]
    rows.append(["taken", "all", *days])
    return results.table(" | ".join(["client", "API", *run]), rows)


def _share(runs: dict[str, Any]) -> str:
    return f"{runs['right']}/{runs['runs']}" if runs else results.NOT_RUN


def _count(cell: dict[str, Any], harm: str) -> str:
    """How many runs of all clients did a harm, as their worst."""
    if not cell:
        return results.NOT_RUN
    return str(sum(len(runs.get(harm, [])) for runs in cell["clients"].values()))
