"""What a client is to the lane, and the two kinds there are: programs and libraries."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from clients.scenarios import Call, Edit, Part, Scenario, Shell, Turn, Write, fill

PROMPT = (
    "Do the work that you know of, step by step, with your tools, "
    "then say that it is done."
)
"""What every client is asked. The scripted model needs no more."""

INSTRUCTIONS = "You write files."
KEY = "dummy-key"
MODEL = "scripted"
STEPS = 40
"""What a client may take before it has to end, where it asks for a number."""


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


@dataclass(frozen=True)
class Tools:
    """How a client's own tools are called: each a name and its parameters in order."""

    write: tuple[str, str, str] = ("write_file", "path", "content")
    edit: tuple[str, str, str, str] = ("edit_file", "path", "old_string", "new_string")
    shell: tuple[str, str] = ("run_shell", "command")
    shell_also: tuple[tuple[str, Any], ...] = ()
    """What else the shell's tool requires."""

    def call(self, part: Part, folder: Path) -> Call:
        """The call for a part of a turn."""
        if isinstance(part, Write):
            name, path, text = self.write
            return Call(name, {path: str(folder / part.path), text: part.content})
        if isinstance(part, Edit):
            name, path, old, new = self.edit
            return Call(
                name, {path: str(folder / part.path), old: part.old, new: part.new}
            )
        if isinstance(part, Shell):
            name, command = self.shell
            return Call(name, {command: part.command, **dict(self.shell_also)})
        assert isinstance(part, Call)
        return part


@dataclass
class Client:
    """A client of one kind or the other."""

    name: str
    surfaces: tuple[str, ...]
    """Those of chat, responses and messages that it can speak."""
    uses_tools: ClassVar[bool] = True
    echoes: ClassVar[bool] = True
    """Whether its next request repeats the calls as calls."""
    answers: ClassVar[bool] = True
    """Whether it ends with an answer of the model."""
    tools: ClassVar[Tools] = Tools()
    environments: ClassVar[tuple[str, ...]] = ("python",)
    """What must be installed: ``npm``, ``python``, ``more``, ``aider``."""
    deferred: ClassVar[tuple[Call, Call] | None] = None
    """The call that loads a tool, and that tool's, where the client keeps tools back."""
    scenarios: ClassVar[tuple[str, ...]] = ()
    """The scenarios that make sense for it; none: all."""
    faults: ClassVar[dict[str, str]] = {}
    """By scenario, what this client does wrong with a right stream."""

    def call(self, part: Part, folder: Path) -> Call:
        """The call for a part of a turn, with this client's own tools."""
        return self.tools.call(part, folder)

    def plays(self, scenario: str) -> bool:
        """Whether a scenario makes sense for it."""
        return (not self.scenarios or scenario in self.scenarios) and (
            scenario != "deferred" or self.deferred is not None
        )

    def scenario(self, scenario: Scenario, folder: Path) -> Scenario:
        """The scenario with this client's own calls where something quotes them."""
        return fill(scenario, lambda part: self.call(part, folder), self.deferred)

    def turn(self, scenario: Scenario, number: int) -> Turn:
        """What the model says as the scenario's turn ``number``."""
        return scenario.turns[number]


class Program(Client):
    """A client that is a program: one process a run."""

    environments = ("npm",)

    def start(self, run: Run) -> tuple[list[str], dict[str, str]]:
        """Configure it in the run's home; returns the command and its variables."""
        raise NotImplementedError

    def answer(self, output: str) -> str:
        """The final answer out of what it printed."""
        raise NotImplementedError


@dataclass
class Library(Client):
    """A client that is a library: one process for all of its runs.

    The process reads a run a line, as JSON, and writes ``{"name", "answer"}`` or
    ``{"name", "error"}`` for each. All libraries are given the same three tools.
    """

    ask: Callable[[dict[str, Any]], str]

    def command(self, installed: Path) -> list[str]:
        """The process that takes all runs."""
        python = installed / self.environments[-1] / "bin/python"
        return [str(python), "-m", "clients.library", self.name]


class More(Library):
    """A library whose requirements contradict those of the others."""

    environments = ("more",)


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


def edit_file(path: str, old_string: str, new_string: str) -> str:
    """Replace a text that stands once in a file.

    Args:
        path: the file
        old_string: the text
        new_string: what comes in its place
    """
    text = Path(path).read_bytes().decode()
    if text.count(old_string) != 1:
        return f"error: the text stands {text.count(old_string)} times in the file"
    return write_file(path, text.replace(old_string, new_string))


def run_shell(command: str) -> str:
    """Run a command in a shell.

    Args:
        command: what to run
    """
    shell = shutil.which("bash") or "/bin/sh"
    done = subprocess.run(
        [shell, "-c", command], check=False, capture_output=True, text=True, timeout=60
    )
    return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


TOOLS = (write_file, edit_file, run_shell)
"""What every library is given."""
