# SPDX-License-Identifier: Apache-2.0
"""pytest plugin for a vLLM tree's own tests: no build, no GPU, no network; writes what
came out of each test.

A source tree has no platform; it gets the CPU's. Tokenizers are asked for by name of a
model hub; the suite's own one, made from Qwen's byte-pair ranks, is given instead.
Tests that start a server of their own are left out.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from conformance import tokens
from conformance.host.engine import use_cpu_platform

#: Fixtures that start a server or ask a model hub.
NEEDS_A_SERVER = frozenset({"server", "client", "default_server", "server_url"})

#: Tokenizers that the tests ask for by a hub's name; what they test does not depend on
#: whose vocabulary it is.
HUB_NAMES = ("Qwen/", "openai-community/gpt2", "gpt2")

_outcomes: dict[str, str] = {}


def _prepare() -> None:
    use_cpu_platform()
    import vllm.distributed

    # After each test it looks through all objects for memory of a device; there is
    # none, and it takes a second.
    vllm.distributed.cleanup_dist_env_and_memory = lambda *rest, **named: None
    import transformers

    folder = str(tokens.model_folder())
    by_name = transformers.AutoTokenizer.from_pretrained

    def from_pretrained(name: Any, *rest: Any, **named: Any) -> Any:
        if str(name).startswith(HUB_NAMES):
            named.pop("revision", None)
            name = folder
        return by_name(name, *rest, **named)

    transformers.AutoTokenizer.from_pretrained = from_pretrained


_prepare()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    left = [
        item
        for item in items
        if NEEDS_A_SERVER & set(getattr(item, "fixturenames", ()))
    ]
    items[:] = [item for item in items if item not in set(left)]
    config.hook.pytest_deselected(items=left)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test as passed when its call did and nothing failed around it."""
    if report.failed or (
        report.when == "call" and _outcomes.get(report.nodeid) != "failed"
    ):
        _outcomes[report.nodeid] = report.outcome


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Count a file that cannot be imported as a failed test of its own."""
    if report.failed:
        _outcomes[report.nodeid] = "failed"


def pytest_sessionfinish() -> None:
    Path(os.environ["UPSTREAM_OUTCOMES"]).write_text(
        json.dumps(_outcomes), encoding="utf-8"
    )
