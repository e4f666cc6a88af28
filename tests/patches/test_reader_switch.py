# SPDX-License-Identifier: Apache-2.0
"""The two registered names have one reader, an off switch brings the stock parsers back, no other parser changes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from vllm import envs

NAMES = ("qwen3_coder", "qwen3_xml")

REPORT = """
from vllm.parser.parser_manager import ParserManager
from vllm.tool_parsers import ToolParserManager

def module(name, reasoning="qwen3"):
    tool = ToolParserManager.get_tool_parser(name)
    parser = ParserManager.get_parser(name, reasoning, True)
    print(name, reasoning, tool.__module__, *(base.__module__ for base in parser.__mro__[1:2]), sep=",")

for name in {names!r}:
    module(name)
"""


def parsers(*names: str, **environment: str) -> dict[str, list[str]]:
    """For each tool parser: the modules of its class and of the parser that serves it beside qwen3."""
    report = REPORT.format(names=names)
    run = subprocess.run(
        [sys.executable, "-c", report],
        cwd=os.environ["VLLM_TREE"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [
        line.split(",") for line in run.stdout.splitlines() if line.startswith(names)
    ]
    return {line[0]: line[2:] for line in lines}


@pytest.mark.parametrize("name", NAMES)
def test_registered_names_have_the_reader(name: str) -> None:
    assert all("qwen_" in module for module in parsers(name)[name])


def test_stock_parsers_keep_names_of_their_own() -> None:
    stock = parsers(*(f"{name}_stock" for name in NAMES))
    assert set(stock) == {f"{name}_stock" for name in NAMES}
    assert not any(
        "qwen_" in module for modules in stock.values() for module in modules
    )


def test_off_switch() -> None:
    off = parsers(*NAMES, VLLM_QWEN_TOOL_READER="0")
    stock = parsers(*(f"{name}_stock" for name in NAMES))
    assert [off[name] for name in NAMES] == [
        stock.get(f"{name}_stock") for name in NAMES
    ]


def test_the_variable_is_known_and_recompiles_nothing() -> None:
    assert "VLLM_QWEN_TOOL_READER" in envs.environment_variables
    assert "VLLM_QWEN_TOOL_READER" not in envs.compile_factors()
