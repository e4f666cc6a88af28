"""What a client is to the lane, and the two kinds there are: programs and libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from clients.scenarios import Call, Scenario, Turn, fill

PROMPT = "Do the work that you know of, step by step, with your tools, then say that it is done."
"""What every client is asked. The scripted model needs no more."""

KEY = "dummy-key"
MODEL = "scripted"


@dataclass(frozen=True)
class Run:
    """One run, as a client needs to know it."""

    url: str
    """The run's own address; the API is below ``/v1``."""
    surface: str
    folder: Path
    """Where it works."""
    home: Path
    """Its scratch home."""
    installed: Path
    """Where ``clients.install`` put the clients."""


class Client:
    """A client of one kind or the other. ``surfaces`` are those of chat, responses, messages that it can speak."""

    name: str
    surfaces: tuple[str, ...]
    uses_tools: ClassVar[bool] = True
    echoes: ClassVar[bool] = True
    """Whether its next request repeats the calls as calls."""
    answers: ClassVar[bool] = True
    """Whether it ends with an answer of the model."""
    environments: ClassVar[tuple[str, ...]] = ()
    """What must be installed: ``npm``, ``python``, ``aider``."""
    deferred: ClassVar[tuple[Call, Call] | None] = None
    """The call that loads a tool, and the call of that tool, where the client keeps tools back."""
    scenarios: ClassVar[tuple[str, ...]] = ()
    """The scenarios that make sense for it; none: all."""
    faults: ClassVar[dict[str, str]] = {}
    """By scenario, what this client does wrong with a right stream."""

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """The call that writes a file with this client's own tools, as its request declares them."""
        raise NotImplementedError

    def plays(self, scenario: str) -> bool:
        """Whether a scenario makes sense for it."""
        return (not self.scenarios or scenario in self.scenarios) and (
            scenario != "deferred" or self.deferred is not None
        )

    def scenario(self, scenario: Scenario, folder: Path) -> Scenario:
        """The scenario with this client's own call where a file quotes one."""
        return fill(scenario, self.write(folder / "quoted.txt", "quoted\n", {}), self.deferred)

    def turn(self, scenario: Scenario, number: int) -> Turn:
        """What the model says as the scenario's turn ``number``."""
        return scenario.turns[number]


class Program(Client):
    """A client that is a program: one process a run."""

    environments = ("npm",)

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """Write its configuration into the run's home; returns the command and the variables of its environment."""
        raise NotImplementedError

    def answer(self, output: str, run: Run) -> str:
        """The final answer out of what it printed."""
        raise NotImplementedError


class Library(Client):
    """A client that is a Python library, or a script: one process for all of its runs.

    The process reads a run a line, as JSON, and writes ``{"name", "answer"}`` or ``{"name", "error"}`` for each. All libraries
    are given the one tool ``write_file``.
    """

    environments: ClassVar[tuple[str, ...]] = ("python",)

    def __init__(self, name: str, surfaces: tuple[str, ...], ask: Callable[[dict[str, Any]], str]) -> None:
        self.name, self.surfaces, self.ask = name, surfaces, ask

    def write(self, path: Path, content: str, tools: dict[str, Any]) -> Call:
        """The libraries' one tool."""
        return Call("write_file", {"path": str(path), "content": content})

    def command(self, installed: Path) -> list[str]:
        """The process that takes all runs."""
        return [str(installed / self.environments[-1] / "bin/python"), "-m", "clients.library", self.name]


def write_file(path: str, content: str) -> str:
    """Write a file. An error is told to the model in words, as every agent does.

    Args:
        path: where to write it
        content: all of its text
    """
    try:
        Path(path).write_text(content, encoding="utf-8", newline="")
    except OSError as error:
        return f"error: {error}"
    return f"wrote {Path(path).name}"
