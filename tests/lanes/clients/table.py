# SPDX-License-Identifier: Apache-2.0
"""Results in words and as tables: of one run, and what is kept of releases."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import results
from clients import SUITE_VERSION, scenarios
from clients.agents import CLIENTS
from clients.judge import HARMS
from clients.proxies import PROXIES
from patchset.release import Release

LANE = "clients"
#: Lets a server leave out calls that were cut.
DROP = "VLLM_QWEN_CUT_CALLS"
#: The rows of harms in the table.
TITLES = {
    "ran": "ran something unasked",
    "bytes": "a call or a file with other bytes",
    "lost": "a call or the session lost",
    "text": "text lost or misplaced",
}


def line(result: dict[str, Any]) -> str:
    what = " ".join(str(result[f]) for f in ("client", "surface", "scenario"))
    why = f": {result['why'][0][:200]}" if result["why"] else ""
    return f"{what} k={result['k']}: {result['verdict']}{why}"


def own_fault(result: dict[str, Any]) -> str:
    """Return the client's own fault that explains a result; empty if none does."""
    known = CLIENTS[result["client"]].faults.get(result["scenario"], "")
    return known if result["own"] or result["scenario"] in scenarios.CUT else ""


def summary(release: str, kinds: dict[str, list[dict[str, Any]]]) -> str:
    """Return how many runs are right, the others by harm, and the faults of clients."""
    lines = []
    for kind, runs in kinds.items():
        found = Counter(run["verdict"] for run in runs)
        harms = ", ".join(f"{harm} {found[harm]}" for harm in (*HARMS, "lane"))
        lines.append(
            f"{release} {kind}: {found['right']} of {len(runs)} right; {harms}."
        )
    faults = dict.fromkeys(
        f"- {run['client'].replace('_', ' ')}, {run['scenario']}: {fault}."
        for runs in kinds.values()
        for run in runs
        if run["verdict"] != "right" and (fault := own_fault(run))
    )
    return "\n".join([*lines, *faults])


def write_results(
    release: str, kinds: dict[str, list[dict[str, Any]]], *, whole: bool = True
) -> None:
    """Put totals into ``results/clients/``; clients that were not run keep theirs.

    Args:
        whole: Every scenario was said. If not, only the figures of cut calls are kept.
    """
    for kind, runs in kinds.items():
        ran: dict[str, list[int]] = {}
        clients: dict[str, Any] = {}
        for run in runs:
            key = f"{run['client']}/{run['surface']}"
            mine = clients.setdefault(key, {"runs": 0, "right": 0})
            mine["runs"] += 1
            mine["right"] += run["verdict"] == "right"
            if run["verdict"] != "right":
                mine.setdefault(run["verdict"], []).append(run["scenario"])
            if run["asks"]:
                mine["asks"] = sorted({*mine.get("asks", ()), *run["asks"]})
            if run["scenario"] in scenarios.OPTIONAL:
                of = ran.setdefault(run["scenario"], [0, 0])
                of[0] += run["verdict"] == "ran"
                of[1] += 1
        if ran:
            cut = {"ran": ran}
            results.keep(LANE, SUITE_VERSION, release, f"{kind} cut", cut)
        if whole:
            old = results.read(LANE, release).get(kind, {})
            kept = old.get("clients", {}) if old.get("suite") == SUITE_VERSION else {}
            figures = {"k": runs[0]["k"], "clients": {**kept, **clients}}
            results.keep(LANE, SUITE_VERSION, release, kind, figures)


def table(found: Iterable[Release]) -> str:
    """Return one row a release: right runs, and the others by harm; then the default
    release by client, the APIs of a client with equal figures in one row, who runs a
    cut call of a tool that requires nothing, and what proxies change.
    """
    rows, more = list[list[str]](), dict[str, list[list[str]]]()
    for release, cells in results.asked(LANE, found):
        both = {kind: _sum(runs) for kind, runs in _in_both(cells).items()}
        counts = [
            results.change({kind: sums[harm] for kind, sums in both.items()}, str)
            for harm in TITLES
        ]
        right = results.change(both, _share)
        day = results.taken(cells.values(), SUITE_VERSION, release.name)
        rows.append([release.name, right, *counts, _worse(cells), day])
        if release.default:
            every = results.read(LANE, release.name)
            more = {
                "client, default release | API | asks for | right": _by_client(cells),
                "cut call of a tool that requires nothing | clients and APIs that run "
                f"it, stock → patched → `{DROP}=drop`": _optional(every),
                "proxy, patched | right | right only without it": [*_proxied(every)],
            }
    harms = " | ".join(TITLES.values())
    head = f"release | right | {harms} | right on stock only"
    tables = [results.dated(head, results.together(rows))]
    tables += [results.table(head, lines) for head, lines in more.items() if lines]
    return "\n".join(tables)


def _by_client(cells: dict[str, Any]) -> list[list[str]]:
    """Return client, APIs, what sets a grammar, and right runs, stock → patched."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for each in dict.fromkeys(n for cell in cells.values() for n in cell["clients"]):
        name, surface = each.split("/")
        of_both = {
            kind: cell["clients"][each]
            for kind, cell in cells.items()
            if each in cell["clients"]
        }
        sent = {word for runs in of_both.values() for word in runs.get("asks", ())}
        asks, share = ", ".join(sorted(sent)) or "–", results.change(of_both, _share)
        rows.setdefault((name.replace("_", " "), asks, share), []).append(surface)
    return [[row[0], ", ".join(apis), *row[1:]] for row, apis in rows.items()]


def _optional(rows: dict[str, Any]) -> list[list[str]]:
    """Return, by scenario, how many clients and APIs run a cut call of a tool that
    requires nothing: stock, patched, and without cut calls.
    """

    def share(kind: str, scenario: str) -> str:
        ran, runs = rows.get(f"{kind} cut", {}).get("ran", {}).get(scenario, (0, 0))
        return f"{ran}/{runs}" if runs else results.NOT_RUN

    kinds = (*results.KINDS, "patched drop")
    if not any(f"{kind} cut" in rows for kind in kinds):
        return []
    return [
        [scenarios.ALL[name].title, " → ".join(share(kind, name) for kind in kinds)]
        for name in scenarios.ALL
        if name in scenarios.OPTIONAL
    ]


def _proxied(cells: dict[str, Any]) -> Iterator[list[str]]:
    """Yield proxy, right runs, and by client, API and harm the scenarios that are right
    without the proxy.
    """
    direct = cells.get("patched", {}).get("clients", {})
    for proxy in sorted(PROXIES):
        clients = cells.get(f"patched {proxy}", {}).get("clients", {})
        changed = []
        for each, runs in clients.items():
            without = _wrong(direct.get(each, {}))
            for harm in TITLES:
                if mine := [name for name in runs.get(harm, []) if name not in without]:
                    words = each.replace("_", " ").replace("/", ", ")
                    changed.append(f"{words}: {TITLES[harm]} ({', '.join(mine)})")
        if clients:
            right = _share(_sum(list(clients.values())))
            yield [proxy.replace("_", " "), right, "; ".join(changed) or "–"]


def _sum(clients: list[dict[str, Any]]) -> Counter[str]:
    """Return how many runs there are, are right, and did each harm as their worst."""
    sums = Counter[str]()
    for runs in clients:
        sums.update(runs=runs["runs"], right=runs["right"])
        sums.update({harm: len(runs.get(harm, ())) for harm in TITLES})
    return sums


def _share(runs: dict[str, Any]) -> str:
    return f"{runs['right']}/{runs['runs']}"


def _in_both(cells: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    clients = {kind: cell["clients"] for kind, cell in cells.items()}
    names = set.intersection(*(set(mine) for mine in clients.values()))
    return {kind: [mine[name] for name in names] for kind, mine in clients.items()}


def _worse(cells: dict[str, Any]) -> str:
    """Return how many runs are wrong with the patches and right without."""
    if set(results.KINDS) - cells.keys():
        return results.NOT_RUN
    stock, patched = (cells[kind]["clients"] for kind in results.KINDS)
    both = stock.keys() & patched.keys()
    return str(sum(len(_wrong(patched[n]) - _wrong(stock[n])) for n in both))


def _wrong(runs: dict[str, Any]) -> set[str]:
    return {name for harm in TITLES for name in runs.get(harm, [])}
