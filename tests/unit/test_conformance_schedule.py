"""Schedules cut everything, once, and the same way each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import schedule


@given(st.integers(1, 200), st.integers(1, 15), st.integers())
def test_irregular_widths_add_up_and_stay_within_k_plus_one(
    count: int, k: int, seed: int
) -> None:
    widths = schedule.irregular(count, k, seed)
    assert sum(widths) == count
    assert all(1 <= w <= k + 1 for w in widths)
    assert widths == schedule.irregular(count, k, seed)


def test_a_default_run_has_every_kind_and_full_has_all_splits() -> None:
    texts = ["a", "<", "/", "x", ">\n", "b", "", "c", "d", "e"] * 5
    names = [s.name for s in schedule.schedules(texts, "key")]
    assert {"w1", "whole", "mtp1#0", "mtp5#0", "mtp7#0", "mtp15#0"} <= set(names)
    assert sum(n.startswith("split@") for n in names) == schedule.NEAR_LIMIT
    full = {s.name for s in schedule.schedules(texts, "key", full=True)}
    assert {f"split@{i}" for i in range(1, len(texts))} <= full


@pytest.mark.parametrize(
    "name", ["w1", "w7", "whole", "split@3", "mtp2#0", "cuts:3,4,3"]
)
def test_a_name_means_the_same_widths_again(name: str) -> None:
    one = schedule.named(name, 10)
    assert sum(one.widths) == 10
    assert schedule.named(name, 10) == one
    assert one.column in (*schedule.COLUMNS, "whole")


@pytest.mark.parametrize(
    "name", ["split@0", "split@10", "cuts:3,3", "nonsense", "w", "cuts:10,0"]
)
def test_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError):  # every impossible name is a plain ValueError
        schedule.named(name, 10)
