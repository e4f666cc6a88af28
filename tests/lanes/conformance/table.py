# SPDX-License-Identifier: Apache-2.0
"""Totals of the suite for each release, and the tables made of them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import results
from conformance import SUITE_VERSION
from conformance.check import HARMS
from conformance.corpora import CORPORA
from conformance.corpora import SUITE_VERSION as CORPORA_VERSION
from conformance.report import TRAFFIC, Report
from patchset.release import Release, load

LANE = "conformance"
Tally = dict[str, int]
#: The row of what is worse than stock.
GUARD = "patched guard"


def keep(target: dict[str, Any], pair: str | None = None) -> None:
    """Keep the totals of one tree, as ``report.document`` describes it.

    Args:
        pair: The reasoning and the tool parser, if they are not Qwen's.
    """
    kind = f"{target['kind']} {pair}" if pair else target["kind"]
    release = load(target["release"]).name
    figures = {"sdk": target["sdk"], **target["traffic"]}
    results.keep(LANE, SUITE_VERSION, release, kind, figures)


def keep_guard(release: str, counts: dict[str, Counter[str]]) -> None:
    results.keep(LANE, SUITE_VERSION, release, GUARD, {"guard": counts})


def keep_corpora(report: Report, sample: int) -> None:
    """Keep the figures of each corpus.

    Args:
        sample: The most cases of a corpus that were asked; 0: all.

    """
    figures = {"sample": sample, "corpora": report.by_corpus()}
    release = load(report.release).name
    results.keep("corpora", CORPORA_VERSION, release, report.kind, figures)


def _worse(release: Release, group: str) -> str:
    """Return cases that are worse than stock, of all; *exempt*: the format has the
    reason, for all of them if no number is said.
    """
    kept = results.read(LANE, release.name).get(GUARD, {}).get("guard", {})
    if group not in kept:
        return "–"
    count = Counter(kept[group])
    if count["reasoned"] == count["worse"] > 0:
        return f"{count['worse']}/{count['cases']} exempt"
    reasoned = f", {count['reasoned']} exempt" if count["reasoned"] else ""
    return f"{count['worse']}/{count['cases']}{reasoned}"


#: The drafts that the suite is asked with, and the releases that show each.
DRAFTS = tuple(f"k={k}" for k in range(6))
K_BY_K = ("v0.33.0", "v0.16.0")
HEAD = f"release | {' | '.join(TRAFFIC)} | {' | '.join(HARMS)}"


def table(releases: Iterable[Release]) -> str:
    """Return right responses, and the others by harm, at the worst k of 0 to 5.

    Below, some releases k by k.
    """
    rows, alone, by_k = [], [], []
    for release, runs in results.asked(LANE, releases):
        day = results.taken(runs.values(), SUITE_VERSION, release.name)
        *answers, form = _figures(runs)
        if "stock" in runs or set(answers[len(TRAFFIC) :]) != {"0"}:
            worse = _worse(release, "suite")
            rows.append([release.name, *answers, form, worse, day])
        else:
            alone.append([release.name, *answers[: len(TRAFFIC)], form, day])
        if release.name in K_BY_K:
            asked = [run["adversarial"] for run in runs.values()]
            drafts = [
                " → ".join(_right(run.get(k, {})) for run in asked)
                if any(run.get(k) for run in asked)
                else "–"
                for k in DRAFTS
            ]
            by_k.append([release.name, *drafts])
    made = []
    if rows or not alone:
        head = f"{HEAD} | worse than stock"
        made.append(results.dated(head, results.together(rows)))
    if alone:
        head = f"patched alone, no harm | {' | '.join(TRAFFIC)} | form"
        made.append(results.dated(head, results.together(alone)))
    if by_k:
        head = f"release, adversarial | {' | '.join(DRAFTS)}"
        made.append(results.table(head, by_k))
    return "\n".join(made)


def pairs_table(releases: Iterable[Release]) -> str:
    """Return the same of other reasoning parsers, a table for each release; pairs of
    parsers with equal figures share a row.
    """
    made = []
    for release in releases:
        runs = results.read(LANE, release.name)
        pairs = dict.fromkeys(kind.split()[1] for kind in runs if "/" in kind)
        rows = []
        for pair in pairs:
            of_pair = {
                kind: runs[name]
                for kind in ("stock", "patched")
                if (name := f"{kind} {pair}") in runs
            }
            cells = [_change(of_pair, traffic, _worst_right) for traffic in TRAFFIC]
            day = results.taken(of_pair.values(), SUITE_VERSION, release.name)
            rows.append([pair, *cells, day])
        if rows:
            head = f"{release.name}: pair | {' | '.join(TRAFFIC)}"
            made.append(results.dated(head, results.together(rows)))
    return "\n".join(made) or f"{results.NOT_RUN}\n"


def plugin_table(releases: Iterable[Release]) -> str:
    """Return the same of the plugin on the stock tree, at k = 0 and 5."""
    rows = []
    for release, cells in results.asked(LANE, releases, ["plugin"]):
        day = results.taken(cells.values(), SUITE_VERSION, release.name)
        rows.append([release.name, *_figures({"patched": cells["plugin"]}), day])
    return results.dated(HEAD, results.together(rows))


def _figures(runs: Mapping[str, results.Cell]) -> list[str]:
    """Return the cells below ``HEAD``, but for the release."""
    harms = (
        _change(runs, "adversarial", partial(_worst_harm, harm=harm)) for harm in HARMS
    )
    return [*(_change(runs, each, _worst_right) for each in TRAFFIC), *harms]


def _change(
    runs: Mapping[str, results.Cell], traffic: str, words: Callable[[list[Tally]], str]
) -> str:
    """Return stock → patched, or patched alone, in ``words`` of each k's tallies."""
    return " → ".join(
        words([columns[k] for k in DRAFTS if (columns := runs[kind][traffic]).get(k)])
        for kind in ("stock", "patched")
        if kind in runs
    )


def _worst_right(tallies: list[Tally]) -> str:
    return _right(min(tallies, key=lambda tally: tally["right"], default={}))


def _worst_harm(tallies: list[Tally], harm: str) -> str:
    return str(max((tally.get(harm, 0) for tally in tallies), default=0))


def _right(tally: dict[str, int]) -> str:
    return f"{tally['right']}/{tally['all']}" if tally else "–"


def share(release: Release, kind: str, harms: tuple[str, ...]) -> str:
    """Return the share of adversarial responses at k = 5 with these harms, in per cent.

    0 % means none.
    """
    run = results.read(LANE, release.name).get(kind)
    if run is None:
        return results.NOT_RUN
    tally = run["adversarial"]["k=5"]
    wrong = sum(tally.get(harm, 0) for harm in harms)
    percent = max(1, round(100 * wrong / tally["all"])) if wrong else 0
    return f"{percent} %"


def corpora_table(releases: Iterable[Release]) -> str:
    """Return right cases of all corpora together, and the others by harm; then the
    default release by corpus, with the cases that are worse than stock.

    Behind a semicolon the further cases that can be read in several ways, as meant.
    """
    rows, by_corpus, worse = [], [], []
    for release, run in results.asked("corpora", releases, READERS):
        by_reader = {name: _corpora(row) for name, row in run.items()}
        names = [
            name for name in NAMES if any(name in row for row in by_reader.values())
        ]
        for corpus in names if release.default else ():
            stock, *ours = (by_reader.get(each, {}).get(corpus) for each in READERS)
            cells = [_cell(stock, ("ran",)), *map(_cell, ours)]
            by_corpus.append([corpus, *cells])
            if not (said := _worse(release, corpus)).startswith("0/"):
                worse.append(f"{corpus} {said}")
        sums = [sum(by_reader.get(each, {}).values(), Counter()) for each in READERS]
        day = results.taken(run.values(), CORPORA_VERSION, release.name)
        rows.append([release.name, *(_cell(count or None) for count in sums), day])
    readers = "stock server | patched server | patched reader alone"
    whole = results.dated(f"release | {readers}", results.together(rows))
    listed = results.table(f"corpus, default release | {readers}", by_corpus)
    than_stock = f"\nWorse than stock: {'; '.join(worse) or 'none'}.\n"
    return f"{whole}\n{listed}{than_stock}" if rows else whole


#: Rows of results/corpora: a server asked a sample, and the reader asked all.
READERS = ("stock", "patched", "reader")
#: The corpora in their order, spellings taken together.
NAMES = list(dict.fromkeys(name.partition(":")[0] for name in CORPORA))


def _corpora(row: results.Cell) -> dict[str, Counter[str]]:
    out = defaultdict[str, Counter[str]](Counter)
    for name, figures in row["corpora"].items():
        out[name.partition(":")[0]].update(figures)
    return out


def _cell(count: Counter[str] | None, harms: tuple[str, ...] = HARMS) -> str:
    if count is None:
        return "–"
    counts = [f"{count['right']}/{count['all'] or count['cases']}"]
    counts += [f"{harm} {count[harm]}" for harm in harms if count[harm]]
    apart = f"; {count['as_meant']}/{count['ambiguous']}" if count["ambiguous"] else ""
    return ", ".join(counts) + apart
