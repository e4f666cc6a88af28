# SPDX-License-Identifier: Apache-2.0
"""Proof of rust-frontend: the launcher's choice between the two frontends."""

from typing import Any

import pytest
from vllm.tool_parsers import _TOOL_PARSERS_TO_REGISTER as PARSERS

from conformance.host.engine import use_cpu_platform

RUST, PYTHON = "rust", "python"
NAMES = sorted({"qwen3_coder", "qwen3_xml", "step3p5", "step5"} & {*PARSERS})


def launcher() -> Any:
    """The module of ``vllm serve``."""
    use_cpu_platform()
    from vllm.entrypoints.cli import serve

    return serve


def parser_of(command: Any) -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    command.subparser_init(parser.add_subparsers(dest="subparser"))
    return parser


def started(
    monkeypatch: pytest.MonkeyPatch, options: list[str], environment: dict[str, str]
) -> tuple[str, list[str]]:
    """Which frontend ``vllm serve`` starts, and its warnings; what it would start is
    not.
    """
    for name in ("VLLM_USE_RUST_FRONTEND", "VLLM_RUST_FRONTEND_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    serve = launcher()
    begun: list[str] = []
    said: list[str] = []
    monkeypatch.setattr(serve, "run_server", lambda args: PYTHON)
    monkeypatch.setattr(serve.uvloop, "run", begun.append)
    monkeypatch.setattr(serve, "run_multi_api_server", lambda args: begun.append(RUST))
    monkeypatch.setattr(
        serve.logger, "warning", lambda text, *words: said.append(text % words)
    )
    command = serve.ServeSubcommand()
    args = parser_of(command).parse_args(["serve", "model", *options])
    command.validate(args)
    command.cmd(args)
    (one,) = begun
    return one, said


ON = {"VLLM_USE_RUST_FRONTEND": "1", "VLLM_RUST_FRONTEND_PATH": "/bin/true"}


def tools(name: str) -> list[str]:
    return ["--enable-auto-tool-choice", "--tool-call-parser", name]


@pytest.mark.parametrize("name", NAMES)
def test_a_qwen_tool_parser_has_the_python_frontend(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    frontend, said = started(monkeypatch, tools(name), ON)
    assert frontend == PYTHON
    (line,) = said
    assert name in line
    assert "VLLM_QWEN_TOOL_READER=0" in line


OFF = {**ON, "VLLM_QWEN_TOOL_READER": "0"}


@pytest.mark.parametrize(
    ("options", "variables", "frontend"),
    [
        (tools("qwen3_coder"), OFF, RUST),
        (tools("qwen3_xml"), OFF, RUST),
        (tools("step3p5"), OFF, RUST),
        (tools("hermes"), ON, RUST),
        ([*tools("qwen3_coder"), "--reasoning-parser", "glm45"], ON, RUST),
        ([*tools("qwen3_coder"), "--reasoning-parser", "qwen3"], ON, PYTHON),
        ([], ON, RUST),
        (tools("qwen3_coder"), {}, PYTHON),
    ],
)
def test_other_servers_are_as_before(
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    variables: dict[str, str],
    frontend: str,
) -> None:
    assert started(monkeypatch, options, variables)[0] == frontend


def test_grpc_keeps_the_rust_frontend(monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone serves it; the server starts, and says what reads the calls."""
    port = ["--grpc-port", "50051"]
    known = parser_of(launcher().ServeSubcommand())
    if known.parse_known_args(["serve", "model", *port])[1]:
        pytest.skip("this release has no --grpc-port")
    frontend, said = started(monkeypatch, [*tools("qwen3_coder"), *port], ON)
    assert frontend == RUST
    (line,) = said
    assert "--grpc-port" in line
