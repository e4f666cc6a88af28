# SPDX-License-Identifier: Apache-2.0
"""Totals of the suite for each release, and the tables made of them."""

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from conformance import SUITE_VERSION
from conformance.check import HARMS
from conformance.corpora import SUITE_VERSION as CORPORA_VERSION
from conformance.report import TRAFFIC, Report
from conformance.schedule import COLUMNS
from patchset import results
from patchset.release import Release, load

LANE = "conformance"
GUARD = "patched guard"
"""The row of what is worse than stock."""


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
    """Keep what is worse than stock, of the suite and of each corpus."""
    results.keep(LANE, SUITE_VERSION, release, GUARD, {"guard": counts})


def keep_corpora(report: Report, release: str, sample: int) -> None:
    """Keep the figures of each corpus.

    Args:
        sample: The most cases of a corpus that were asked; 0: all.

    """
    figures = {"sample": sample, "corpora": report.by_corpus()}
    results.keep("corpora", CORPORA_VERSION, release, report.kind, figures)


def _worse(release: Release, group: str) -> str:
    """Cases that are worse than stock, of all."""
    kept = results.read(LANE, release.name).get(GUARD, {}).get("guard", {})
    if group not in kept:
        return "–"
    count = Counter(kept[group])
    reasoned = f" ({count['reasoned']} for a reason)" if count["reasoned"] else ""
    return f"{count['worse']}/{count['cases']}{reasoned}"


def table(found: Iterable[Release], pairs: bool = False) -> str:
    """Right responses of all by column; the harms of k = 0 and k = 5.

    Of Qwen's own parsers, or of all other ``pairs``.
    """
    rows = []
    for release in found:
        for kind, run in results.read(LANE, release.name).items():
            if ("/" in kind) != pairs or kind == GUARD:
                continue
            worse = _worse(release, "suite") if kind == "patched" else "–"
            for traffic in TRAFFIC:
                columns = run[traffic]
                shown = [_right(columns.get(name, {})) for name in COLUMNS]
                harms = Counter[str]()
                for name in ("k=0", "k=5"):
                    harms.update(columns.get(name, {}))
                day = results.taken([run], SUITE_VERSION, release.name)
                counts = [str(harms[harm]) for harm in HARMS]
                rows.append([release.name, kind, traffic, *shown, *counts, worse, day])
    if not rows:
        return f"{results.NOT_RUN}\n"
    head = f"release | | | {' | '.join(COLUMNS)} | {' | '.join(HARMS)} | worse than stock | taken"
    return results.table(head, rows)


def _right(tally: dict[str, int]) -> str:
    return f"{tally['right']}/{tally['all']}" if tally else "–"


def share(release: Release, kind: str, harms: tuple[str, ...]) -> str:
    """The share of adversarial responses at k = 5 with these harms, in per cent.

    0 % means none.
    """
    run = results.read(LANE, release.name).get(kind)
    if run is None or run["suite"] != SUITE_VERSION:
        return results.NOT_RUN
    tally = run["adversarial"]["k=5"]
    wrong = sum(tally.get(harm, 0) for harm in harms)
    percent = max(1, round(100 * wrong / tally["all"])) if wrong else 0
    return f"{percent} %"


def corpora_table(found: Iterable[Release]) -> str:
    """Right cases of each corpus, and the others by harm; cases that are worse than
    stock.

    Behind a semicolon the further cases that can be read in several ways, as meant.
    """
    rows = []
    for release in found:
        run = results.read("corpora", release.name)
        if run:
            by_reader = {name: _corpora(row) for name, row in run.items()}
            for corpus in dict.fromkeys(itertools.chain(*by_reader.values())):
                cells = (by_reader.get(each, {}).get(corpus) for each in READERS)
                worse = _worse(release, corpus)
                rows.append([release.name, corpus, *map(_cell, cells), worse])
            days = (
                results.taken([run[each]], CORPORA_VERSION, release.name)
                if each in run
                else "–"
                for each in READERS
            )
            rows.append([release.name, "taken", *days, ""])
    if not rows:
        return f"{results.NOT_RUN}\n"
    head = "stock server | patched server | patched reader alone | worse than stock"
    return results.table(f"release | corpus | {head}", rows)


#: Rows of results/corpora: a server asked a sample, and the reader asked all.
READERS = ("stock", "patched", "reader")


def _corpora(row: results.Cell) -> dict[str, Counter[str]]:
    """The numbers of each corpus, spellings taken together."""
    out: dict[str, Counter[str]] = {}
    for name, figures in row["corpora"].items():
        out.setdefault(name.partition(":")[0], Counter()).update(figures)
    return out


def _cell(count: Counter[str] | None) -> str:
    if count is None:
        return "–"
    # Rows of suite 1 have other words.
    words = [f"{count['right']}/{count['all'] or count['cases']}"]
    words += [f"{h} {count[h]}" for h in (*HARMS, "wrong", "quoted") if count[h]]
    apart = f"; {count['as_meant']}/{count['ambiguous']}" if count["ambiguous"] else ""
    return ", ".join(words) + apart
