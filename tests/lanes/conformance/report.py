# SPDX-License-Identifier: Apache-2.0
"""What a run found: counted by harm, and printed."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import results
from conformance.check import FATAL_FORM, HARMS
from conformance.schedule import COLUMNS, column

#: Cases as every day brings them, and those that look for faults.
TRAFFIC = ("ordinary", "adversarial")

#: Responses: ``all``, those ``right``, and by harm; one that is wrong in form alone is
#: right as well.
Tally = Counter[str]


@dataclass
class Report:
    label: str
    kind: str
    #: The command that asks again.
    repeat: str
    release: str = ""
    seconds: float = 0.0
    streams: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)

    def add(self, document: dict[str, Any]) -> None:
        self.results += document["results"]
        self.streams += sum(result["streams"] for result in document["results"])

    def tally(self, **chosen: Any) -> dict[str, Tally]:
        """Return responses by column, of the results whose fields have these values."""
        out: dict[str, Tally] = {}
        for result in self.results:
            if all(result[name] == value for name, value in chosen.items()):
                for name, harm in harms_of(result):
                    add(out.setdefault(column(name), Tally()), harm)
        return out

    def total(self) -> Tally:
        return sum(self.tally().values(), Tally())

    def failures(self) -> list[dict[str, Any]]:
        """Return one entry a case, start and surface: how often, and the worst
        response.
        """
        out = []
        for result in self.results:
            if wrong := result["wrong"]:
                name = min(wrong, key=lambda each: HARMS.index(wrong[each][0]))
                where = {each: result[each] for each in ("case", "surface", "start")}
                chosen = {"case": result["case"]}
                if self.kind != "reader":
                    chosen = {**where, "schedule": name}
                arguments = " ".join(
                    f"--{key} '{value}'" for key, value in chosen.items()
                )
                harm, *problems = wrong[name]
                out.append(
                    {
                        **where,
                        "harm": harm,
                        "wrong": len(wrong),
                        "all": len(wrong) + len(result["right"]),
                        "schedule": name,
                        "problems": problems,
                        "repeat": f"{self.repeat} {arguments}",
                    }
                )
        return sorted(out, key=lambda each: (HARMS.index(each["harm"]), each["case"]))

    def differing(self) -> list[str]:
        """Return implementation-defined cases of the suite that are read otherwise than
        by us.
        """
        differ = {r["case"] for r in self.results if r["differs"]}
        return sorted(name for name in differ if group(name) == "suite")

    def by_sdk(self) -> dict[str, str]:
        """Return streams that an SDK read as well, each with what it read otherwise."""
        return {
            f"{r['case']} {r['surface']} {r['start']} {name}": difference
            for r in self.results
            for name, difference in r["sdk"].items()
        }

    def is_right(self) -> bool:
        """Return whether each response is right, if not in form, and the SDKs agree,
        and no client dies of the form.
        """
        total = self.total()
        wrong = [each for result in self.results for each in result["wrong"].values()]
        is_whole = not any(w.startswith(FATAL_FORM) for _, *why in wrong for w in why)
        all_right = total["right"] == total["all"] and is_whole
        return all_right and not any(self.by_sdk().values())

    def by_corpus(self) -> dict[str, Tally]:
        """Return cases of each corpus by the worst harm of all their responses.

        Those that can be read in several ways are counted apart: ``ambiguous``, and
        ``as_meant``.
        """
        worst: dict[str, tuple[str, str]] = {}
        ambiguous: dict[str, bool] = {}
        for result in self.results:
            name = result["case"]
            if name.startswith("corpora/"):
                harms = [harm for _, harm in harms_of(result)]
                harms += [worst[name][1]] if name in worst else []
                harm = min(filter(None, harms), key=HARMS.index, default="")
                worst[name] = (result["class"], harm)
                as_meant = not result["differs"] and harm in ("", "form")
                ambiguous[name] = ambiguous.get(name, True) and as_meant
        out: dict[str, Tally] = {}
        for name, (class_, harm) in worst.items():
            counts = out.setdefault(group(name), Tally())
            if class_ == "implementation-defined":
                counts["ambiguous"] += 1
                counts["as_meant"] += ambiguous[name]
            else:
                add(counts, harm)
        return out

    def document(self) -> dict[str, Any]:
        suite = [result for result in self.results if group(result["case"]) == "suite"]
        ours = replace(self, results=suite)
        return {
            "kind": self.kind,
            "release": self.release,
            "sdk": len(ours.by_sdk()),
            "traffic": {
                name: ours.tally(ordinary=name == "ordinary") for name in TRAFFIC
            },
        }


def add(tally: Tally, harm: str) -> None:
    tally["all"] += 1
    tally["right"] += harm in ("", "form")
    tally[harm] += bool(harm)


def group(case: str) -> str:
    """Return a case's corpus, spellings taken together; ``suite`` for any other."""
    if not case.startswith("corpora/"):
        return "suite"
    return case.split("/")[1].partition(":")[0]


def harms_of(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield schedules with the harm of their response."""
    yield from ((name, "") for name in result["right"])
    yield from ((name, wrong[0]) for name, wrong in result["wrong"].items())


def words(tally: Tally) -> str:
    harms = ", ".join(f"{harm} {tally[harm]}" for harm in HARMS)
    return f"{tally['right']} of {tally['all']} right; {harms}"


def show(report: Report, *, limit: int) -> None:
    """Print the matrix and the first failures, the worst first."""
    print(f"{report.label} ({report.kind}): {words(report.total())}\n")
    rows = []
    for of in sorted({(r["surface"], r["reasoning"]) for r in report.results}):
        tallies = report.tally(surface=of[0], reasoning=of[1])
        rows.append([*of, *(_cell(tallies.get(name)) for name in COLUMNS)])
    print(results.table(f"surface | reasoning | {' | '.join(COLUMNS)}", rows))
    for name in TRAFFIC:
        counts = report.tally(ordinary=name == "ordinary").values()
        print(f"{name}: {words(sum(counts, Tally()))}")
    for name, tally in report.by_corpus().items():
        apart = f"; as meant {tally['as_meant']} of {tally['ambiguous']} ambiguous"
        print(f"{name:20} {words(tally)}{apart if tally['ambiguous'] else ''}")
    by_sdk = report.by_sdk()
    print(
        f"{report.streams} responses in {report.seconds:.0f} s; {len(by_sdk)} streams "
        f"read by the SDKs as well, {sum(map(bool, by_sdk.values()))} otherwise"
    )
    for name, difference in by_sdk.items():
        if difference:
            print(f"  {name}: {difference}")
    if differing := report.differing():
        print(f"implementation-defined, read otherwise: {', '.join(differing)}")
    failures = report.failures()
    for failure in failures[:limit]:
        print(
            f"\n{failure['harm']} {failure['case']} {failure['surface']} "
            f"start={failure['start']} ({failure['wrong']} of {failure['all']} "
            f"schedules; the worst: {failure['schedule']})"
        )
        print(*(f"  {line}" for line in failure["problems"]), sep="\n")
        print(f"  {failure['repeat']}")
    if 0 < limit < len(failures):
        print(f"\n… and {len(failures) - limit} more (--failures N)")


def _cell(tally: Tally | None) -> str:
    return f"{tally['right']}/{tally['all']}" if tally else "-"
