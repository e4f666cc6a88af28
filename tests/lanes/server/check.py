# SPDX-License-Identifier: Apache-2.0
"""Whether a receipt is whole and of the series, and tables of those that are kept."""

import itertools
import json
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path

from pydantic import ValidationError

import results
from patchset import files
from patchset.errors import PatchsetError
from patchset.release import Release, load
from patchset.series import patched_files
from patchset.wheel.overlay import inside_wheel
from server import form, report

#: A receipt of all cells has some hundred kilobytes.
_MOST_BYTES = 4 << 20


def check(place: Path) -> report.Receipt:
    """Read a receipt.

    Raises:
        PatchsetError: it is none, was edited, or is of other files than the series'.
    """
    try:
        content = files.read_regular(place, _MOST_BYTES)
        receipt: report.Receipt = json.loads(content, parse_constant=_no_number)
        if receipt["format"] != report.FORMAT:
            raise PatchsetError(f"{place.name} has format {receipt['format']}")
        if receipt["sha256"] != report.sum_of(receipt):
            raise PatchsetError(
                f"{place.name} was edited: its sum is not its content's",
                "ask for the file as it was written",
            )
        form.Receipt.model_validate(receipt)
        sums = patched_files.read(load(receipt["release"])) or {}
        wanted = {path: sums[path] for path in sums if inside_wheel(path)}
        if receipt["files"] != wanted or not is_current(receipt):
            raise PatchsetError(
                f"{place.name}: it served another series of {receipt['release']}",
                f"was it written by a file of another commit, {receipt['commit']}?",
            )
        report.table(receipt)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:100]
        why = f"{place.name} is no receipt: {where}: {first['msg']}"
        raise PatchsetError(why) from error
    except RecursionError as error:
        raise PatchsetError(f"{place.name} is no receipt: it nests too deep") from error
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise PatchsetError(f"{place.name} is no receipt: {error!r}"[:300]) from error
    return receipt


def _no_number(name: str) -> float:
    """Refuse what Python takes for a number, and JSON does not."""
    raise ValueError(f"{name} is no number")


def is_current(receipt: report.Receipt) -> bool:
    now = files.sha256_file(patched_files.file(load(receipt["release"])))
    return bool(receipt["series"] == now)


def keep(receipt: report.Receipt) -> Path:
    """Keep a checked receipt, in place of one of the same GPU and release."""
    where = (receipt["machine"]["gpus"] or ["CPU"])[0].partition(",")[0]
    name = "".join(c if c.isalnum() else "-" for c in where.lower()).strip("-")
    path = results.file("receipts", f"{receipt['release']}-{name}")
    files.write_text(path, json.dumps(receipt, indent=1) + "\n")
    return path


def kept(release: Release) -> Iterator[report.Receipt]:
    every = results.file("receipts", f"{release.name}-*")
    for path in sorted(every.parent.glob(every.name)):
        yield json.loads(path.read_text(encoding="utf-8"))


def table(releases: Iterable[Release], target: str) -> str:
    """Return receipts of CPUs or GPUs, stock → patched, the newest release first."""
    rows = []
    for release in releases:
        for receipt in kept(release):
            if receipt["target"] == target:
                where = [*receipt["machine"]["gpus"][:1], release.name]
                day = receipt["taken"] + " (earlier series)" * (not is_current(receipt))
                shown = _in_both(report.rows(receipt))
                rows += [[*where, *row, day] for row in shown]
    server, _, *figures = report.columns(target)
    head = (*["GPU"] * (target == "cuda"), "release", server, *figures)
    return results.dated(" | ".join(head), rows)


def _in_both(rows: list[list[str]]) -> Iterator[list[str]]:
    """Yield a row for each server: what its variants have, or once what both have."""
    for server, group in itertools.groupby(rows, key=itemgetter(0)):
        by_variant = {variant: figures for _, variant, *figures in group}
        width = len(next(iter(by_variant.values())))
        cells = (results.change(by_variant, itemgetter(n)) for n in range(width))
        yield [server, *(" → ".join(dict.fromkeys(c.split(" → "))) for c in cells)]
