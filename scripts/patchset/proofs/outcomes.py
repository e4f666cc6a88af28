# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: what each test of a proof showed, told apart by why it failed.

A proof is *red* by its own assertion: an ``assert`` in a file of the project's tests, or ``pytest.fail`` and
``pytest.raises``. Whatever else ends a test is an *error*: an import that fails, a fixture, a crash, a time limit, an
assertion of vLLM's own. Loaded as ``-p patchset.proofs.outcomes``; writes JSON to the file that ``VARIABLE`` names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

VARIABLE = "PATCHSET_PROOF_OUTCOMES"

#: Where assertions count as a proof's own: this project's tests, helpers included.
TESTS = "PATCHSET_PROOF_TESTS"

_RANK = {"green": 0, "red": 1, "error": 2}
_OUTCOMES = pytest.StashKey[dict[str, str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin with no outcome."""
    config.stash[_OUTCOMES] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what a phase of a test showed."""
    report = yield
    if report.failed and call.excinfo is not None:
        own = report.when == "call" and _is_own(call.excinfo.value)
        _note(item.config, item.path, "red" if own else "error")
    elif report.failed or (report.when == "call" and report.passed):
        _note(item.config, item.path, "error" if report.failed else "green")
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes, the worst of each file."""
    Path(os.environ[VARIABLE]).write_text(json.dumps(session.config.stash[_OUTCOMES]), encoding="utf-8")


def _note(config: pytest.Config, path: Path, outcome: str) -> None:
    found = config.stash[_OUTCOMES]
    found[str(path)] = max(found.get(str(path), "green"), outcome, key=_RANK.__getitem__)


def _is_own(error: BaseException) -> bool:
    """Whether a test ended by an assertion of the project's tests."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_own(one) for one in error.exceptions)
    if isinstance(error, pytest.fail.Exception):
        return not str(error).startswith("Timeout ")
    if not isinstance(error, AssertionError):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and Path(last.tb_frame.f_code.co_filename).is_relative_to(os.environ[TESTS])
