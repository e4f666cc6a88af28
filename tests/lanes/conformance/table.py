# SPDX-License-Identifier: Apache-2.0
"""Totals of the suite for each release, and the tables made of them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from conformance import SUITE_VERSION
from conformance.check import HARMS
from conformance.corpora import SUITE_VERSION as CORPORA_VERSION
from conformance.report import TRAFFIC
from conformance.schedule import COLUMNS
from patchset import results
from patchset.release import Release, load

LANE = "conformance"


def keep(target: dict[str, Any], pair: str | None = None) -> None:
    """Keep the totals of one tree, as ``report.document`` describes it.

    Args:
        pair: The reasoning and the tool parser, if they are not Qwen's.
    """
    kind = f"{target['kind']} {pair}" if pair else target["kind"]
    release = load(target["release"]).name
    figures = {"sdk": target["sdk"], **target["traffic"]}
    results.keep(LANE, SUITE_VERSION, release, kind, figures)


def table(found: Iterable[Release], pairs: bool = False) -> str:
    """Right responses of all by column; the harms of k = 0 and k = 5.

    Of Qwen's own parsers, or of all other ``pairs``.
    """
    rows = []
    for release in found:
        for kind, run in results.read(LANE, release.name).items():
            if ("/" in kind) != pairs:
                continue
            for traffic in TRAFFIC:
                columns = run[traffic]
                shown = [_right(columns.get(name, {})) for name in COLUMNS]
                harms = Counter[str]()
                for name in ("k=0", "k=5"):
                    harms.update(columns.get(name, {}))
                day = results.taken([run], SUITE_VERSION, release.name)
                counts = [str(harms[harm]) for harm in HARMS]
                rows.append([release.name, kind, traffic, *shown, *counts, day])
    if not rows:
        return f"{results.NOT_RUN}\n"
    head = f"release | | | {' | '.join(COLUMNS)} | {' | '.join(HARMS)} | taken"
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
    """Cases of each corpus: right / text / wrong / in which something quoted ran.

    In brackets the further cases that can be read in several ways.
    """
    rows = []
    for release in found:
        run = results.read("corpora", release.name)
        if run:
            by_reader = {name: _corpora(cell) for name, cell in run.items()}
            for corpus in next(iter(by_reader.values())):
                cells = (by_reader.get(each, {}).get(corpus) for each in READERS)
                rows.append([release.name, corpus, *map(_cell, cells)])
            days = (
                results.taken([run[each]], CORPORA_VERSION, release.name)
                if each in run
                else "–"
                for each in READERS
            )
            rows.append([release.name, "taken", *days])
    if not rows:
        return f"{results.NOT_RUN}\n"
    head = "release | corpus | stock server | patched server | patched reader alone"
    return results.table(head, rows)


#: Rows of results/corpora: a server asked a sample, and the reader asked all.
READERS = ("stock", "patched", "reader")


FIELDS = ("right", "text", "wrong", "quoted", "as_meant", "ambiguous")


def _corpora(row: results.Cell) -> dict[str, list[int]]:
    """The numbers of each corpus, spellings taken together."""
    out: dict[str, list[int]] = {}
    for name, figures in row["corpora"].items():
        sums = out.setdefault(name.partition(":")[0], [0] * len(FIELDS))
        for i, field in enumerate(FIELDS):
            sums[i] += figures[field]
    return out


def _cell(sums: list[int] | None) -> str:
    if sums is None:
        return "–"
    *plain, meant, ambiguous = sums
    words = " / ".join(map(str, plain))
    return f"{words} ({meant} of {ambiguous})" if ambiguous else words
