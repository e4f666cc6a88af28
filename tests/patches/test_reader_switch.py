# SPDX-License-Identifier: Apache-2.0
"""Which pairs of parsers the reader serves: by class, so that a plugin keeps its
own, and none when switched off; and a switch that leaves a cut call out.
"""

import os
import subprocess
import sys

import pytest
from vllm import envs

from harness import ask, call

#: Prints for each state whether the reader serves the pairs that the release knows.
REPORT = """
import os
from vllm.parser.parser_manager import ParserManager
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager

THINKS = (
    *(None, "qwen3", "nemotron_v3", "deepseek_r1", "step3p5", "step5"),
    *("deepseek_v3", "minicpmv"),
)
TOOLS = "qwen3_coder", "qwen3_xml", "step3p5", "step5"

def report(state, *tools):
    for tool in tools:
        for thinks in THINKS:
            try:
                parser = ParserManager.get_parser(tool, thinks, True)
            except (KeyError, TypeError):  # unknown to this release
                continue
            is_read = any("qwen_tool" in base.__module__ for base in parser.__mro__)
            print("pair", state, tool, thinks, is_read)

def register(manager, name, base):
    manager.register_module(name, True, type("Own", (base,), {}))

report("stock", *TOOLS, "mimo")
os.environ["VLLM_QWEN_TOOL_READER"] = "0"
report("off", *TOOLS)
del os.environ["VLLM_QWEN_TOOL_READER"]
base = ReasoningParserManager.get_reasoning_parser("qwen3")
register(ReasoningParserManager, "qwen3", base)
report("reasoning plugin", "qwen3_coder")
base = ToolParserManager.get_tool_parser("qwen3_coder")
register(ToolParserManager, "qwen3_coder", base)
register(ToolParserManager, "step5", base)
report("tool plugin", "qwen3_coder", "step5")
"""
READ = {"None", "qwen3", "nemotron_v3", "deepseek_r1", "step3p5", "step5"}


@pytest.fixture(scope="module")
def output() -> str:
    """What the report prints, vLLM's log included."""
    run = subprocess.run(
        [sys.executable, "-c", REPORT.replace(" plugin", "-plugin")],
        cwd=os.environ["VLLM_TREE"],
        env={**os.environ, "VLLM_LOGGING_LEVEL": "WARNING"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


@pytest.fixture(scope="module")
def served(output: str) -> dict[tuple[str, str, str], bool]:
    """Whether the reader serves a pair, by state, tool parser and reasoning parser."""
    lines = [line.split() for line in output.splitlines()]
    return {
        (line[1], line[2], line[3]): line[4] == "True"
        for line in lines
        if line[:1] == ["pair"]
    }


def test_the_pairs_that_the_reader_serves(
    served: dict[tuple[str, str, str], bool],
) -> None:
    for (state, tool, thinks), is_read in served.items():
        if state == "stock":
            assert is_read == (tool != "mimo" and thinks in READ), (tool, thinks)
    assert served["stock", "qwen3_coder", "qwen3"]


def test_off_switch_and_plugins(
    served: dict[tuple[str, str, str], bool],
) -> None:
    reads = {state for (state, *_), is_read in served.items() if is_read}
    assert reads == {"stock", "reasoning-plugin"}
    assert served["stock", "qwen3_coder", "None"]
    assert not served["reasoning-plugin", "qwen3_coder", "qwen3"]
    assert served["reasoning-plugin", "qwen3_coder", "None"]


def test_a_class_of_a_plugin_that_reads_the_calls_is_named_once(output: str) -> None:
    assert output.count("qwen3_coder is the class __main__.Own of a plugin") == 1


def test_the_variable_is_known_and_recompiles_nothing() -> None:
    for name in ("VLLM_QWEN_TOOL_READER", "VLLM_QWEN_CUT_CALLS"):
        assert name in envs.environment_variables
        assert name not in envs.compile_factors()


@pytest.mark.parametrize("surface", ["chat", "responses", "messages"])
@pytest.mark.parametrize("width", [None, 1, 4, 100_000])
def test_a_cut_call_is_left_out(
    monkeypatch: pytest.MonkeyPatch, surface: str, width: int | None
) -> None:
    monkeypatch.setenv("VLLM_QWEN_CUT_CALLS", "drop")
    first = call("read", ("path", "/a"))
    whole = call("write", ("path", "/b"), ("content", "rm -rf data/tmp"))
    cut = whole[: whole.index("/tmp")]
    for output, end, expected in (
        (f"I look.\n{cut}", "length", []),
        (f"{first}\n{cut}", "length", ["read"]),
        (f"{first}\n{whole}", "stop", ["read", "write"]),
        (f"{first}\nDone.", "stop", ["read"]),
    ):
        reading = ask(output, width, surface=surface, end=end)
        finish = "length" if end == "length" else "tool_calls"
        assert [one.name for one in reading.calls] == expected
        assert reading.finish == finish
        assert all(one.parsed is not None for one in reading.calls)
        assert reading.pieces == (0 if width is None else len(expected))
