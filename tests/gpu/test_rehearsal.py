# SPDX-License-Identifier: Apache-2.0
"""Delivery and slices as on a rented host, with its limits and its losses; only the cells themselves are small programs."""

import functools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from gpu import cells, lane
from gpu.bundle import parts
from gpu.host import results, store
from gpu.rehearsal import Host, LimitError, deliveries
from gpu.test_lane import begun, prepared, program

MOST = 20_000
JOBS = cells.plan(cells.chosen("graphs"), ["patched"], range(6))


@pytest.fixture
def bundle(tmp_path: Path) -> tuple[dict[str, Any], list[Path]]:
    source = tmp_path / "source.bin"
    source.write_bytes(random.Random(1).randbytes(7 * MOST))
    cache, folder = tmp_path / "cache", tmp_path / "bundle"
    folder.mkdir()
    entries = parts.listed([("source.bin", source)], cache)
    manifest = {"files": entries, "parts": parts.split(entries, cache, folder, MOST)}
    return manifest, [folder / part["name"] for part in manifest["parts"]]


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def slice_of(out: Path, disk: Path, folder: Path, count: int) -> int:
    """What the bundle's script does in one call, with time for ``count`` cells; returns how many are left."""
    kept = disk / "store" / "results"
    results.carry([folder], kept)
    todo = [job for job in JOBS if lane.result(prepared(), job, kept) is None]
    outcome = lane.run(prepared(), todo[:count], kept, program(kept), servers=2, seconds=None)
    assert not outcome.bad()
    results.write(kept, out)
    return len(todo) - len(outcome.results)


def test_a_host_that_loses_everything_costs_one_slice(
    bundle: tuple[dict[str, Any], list[Path]], tmp_path: Path
) -> None:
    manifest, files = bundle
    out = tmp_path / "out"
    out.mkdir()
    ran: list[str] = []
    clock = Clock()
    # The first host is lost with its parts half delivered, the second in its second slice, the third ends it.
    for number, until in enumerate(("delivery", "slice", "end")):
        host = Host(tmp_path / f"host{number}", most_bytes=3 * MOST, clock=clock)
        calls = deliveries(files, host.most_bytes)
        assert len(calls) == 3
        for delivered in calls[: 2 if until == "delivery" else None]:
            clock.now += 5
            missing = host.call(
                "parts", delivered, lambda disk, folder: store.accept(manifest, [folder], disk / "store")
            )
        assert bool(missing) == (until == "delivery")
        if until != "delivery":
            host.call("unpack", [], lambda disk, folder: store.unpack(manifest, disk / "store"))
            known = [out / results.FILE] if (out / results.FILE).is_file() else []
            left = host.call("slice", known, lambda disk, folder: slice_of(out, disk, folder, 2))
            if until == "slice":
                assert left == 4
                lost = tmp_path / "lost"  # what this slice would have handed back
                lost.mkdir()
                host.call("slice", [], functools.partial(slice_of, lost, count=2))
            while until == "end" and left:
                left = host.call("slice", [], lambda disk, folder: slice_of(out, disk, folder, 2))
            ran += begun(host.disk / "store" / "results")
        host.lose()
    found = json.loads((out / results.FILE).read_text())
    assert sorted(result["mtp"] for result in found) == [0, 1, 2, 3, 4, 5]
    assert set(ran[:2]) == {job.name("v0.26.0") for job in JOBS[:2]}
    assert len(ran) == 6 + 2  # the lost slice's two cells ran again, and nothing else


def test_the_limits_are_kept(bundle: tuple[dict[str, Any], list[Path]], tmp_path: Path) -> None:
    _, files = bundle
    clock = Clock()
    host = Host(tmp_path / "host", most_bytes=3 * MOST, clock=clock)
    with pytest.raises(LimitError, match="bytes in one call"):
        host.call("all at once", files, lambda disk, folder: None)
    host.call("one", files[:1], lambda disk, folder: None)
    clock.now += 31
    with pytest.raises(LimitError, match="idle"):
        host.call("late", files[:1], lambda disk, folder: None)
    with pytest.raises(LimitError, match="more than 600"):
        Host(tmp_path / "slow", clock=clock).call(
            "slow", [], lambda disk, folder: setattr(clock, "now", clock.now + 601)
        )
    with pytest.raises(LimitError, match="held"):
        Host(tmp_path / "held", starts=1750, clock=clock).call(
            "long", [], lambda disk, folder: setattr(clock, "now", clock.now + 60)
        )


def test_results_of_another_host_are_taken_once_and_checked(tmp_path: Path) -> None:
    place, kept = tmp_path / "call", tmp_path / "kept"
    place.mkdir()
    result = {"release": "v0.26.0", "variant": "patched", "cell": "graphs", "mtp": 3}
    bad = [{**result, "cell": "../../x"}, {**result, "mtp": "3"}, "no result", {}]
    (place / results.FILE).write_text(json.dumps([result, *bad]))
    assert results.carry([place], kept) == 1
    assert results.carry([place], kept) == 0
    assert [file.name for file in kept.rglob("*.json")] == ["v0.26.0-patched-graphs-k3.json"]
    (place / results.FILE).write_text("{")
    assert results.carry([place], tmp_path / "other") == 0
