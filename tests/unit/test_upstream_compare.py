# SPDX-License-Identifier: Apache-2.0
"""How the outcomes of two trees are compared."""

from upstream.__main__ import compare


def test_each_test_has_one_place() -> None:
    stock = {
        "a": "passed",
        "b": "passed",
        "c[1]": "passed",
        "c[2]": "passed",
        "d": "failed",
        "e": "failed",
        "s": "skipped",
    }
    patched = {
        "a": "passed",
        "c[1]": "failed",
        "c[2]": "passed",
        "d": "failed",
        "e": "passed",
        "s": "skipped",
    }
    found = compare(stock, patched, {"c", "z"})
    assert found == {
        "both": ["a", "c[2]"],
        "lost": ["b"],  # a test that is gone
        "excepted": ["c[1]"],
        "neither": ["d"],
        "gained": ["e"],
        "idle": ["z"],
    }
