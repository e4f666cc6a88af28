# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: what each test of a proof showed, told apart by why it failed.

A proof is *red* by its own assertion: an ``assert`` in a file of the project's tests,
or ``pytest.fail`` and ``pytest.raises``. Whatever else ends a test is an *error*: an
import that fails, a fixture, a crash, a time limit, an assertion of vLLM's own. Loaded
as ``-p patchset.outcomes``; writes JSON to the file that ``VARIABLE`` names.
"""

import json
import os
import traceback
from collections.abc import Generator
from pathlib import Path

import pytest

from patchset import paths

VARIABLE = "PATCHSET_PROOF_OUTCOMES"

#: Where assertions count as a proof's own: this project's tests, helpers included.
_TESTS = paths.project_root() / "tests"

#: From good to bad; "skipped" is a file that pytest skips as a whole.
_OUTCOMES = ("skipped", "green", "red", "error")
#: The worst outcome of each file so far; a process is one session.
_found: dict[str, str] = {}


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note a file that is skipped as a whole."""
    report = yield
    if report.skipped:
        _found[str(collector.path)] = "skipped"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what a phase of a test showed."""
    report = yield
    in_test = report.when == "call"
    if report.failed or (in_test and report.passed):
        red = in_test and call.excinfo is not None and _is_own(call.excinfo.value)
        outcome = "green" if report.passed else "red" if red else "error"
        path = str(item.path)
        _found[path] = max(_found.get(path, "green"), outcome, key=_OUTCOMES.index)
    return report


def pytest_sessionfinish() -> None:
    """Write the outcomes, the worst of each file."""
    Path(os.environ[VARIABLE]).write_text(json.dumps(_found), encoding="utf-8")


def _is_own(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_own(one) for one in error.exceptions)
    if isinstance(error, pytest.fail.Exception):
        return not str(error).startswith("Timeout ")
    if not isinstance(error, AssertionError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(_TESTS)
