# SPDX-License-Identifier: Apache-2.0
"""What a client is to the lane, and the tools that libraries are given."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clients.scenarios import (
    AGAIN,
    ALL,
    CUT,
    OPTIONAL,
    Call,
    Clear,
    Edit,
    Part,
    Scenario,
    Shell,
    Write,
    fill,
)

#: What every client is asked. The scripted model needs no more.
PROMPT = (
    "Do the work that you know of, step by step, with your tools, "
    "then say that it is done."
)

INSTRUCTIONS = "You write files."
KEY = "dummy-key"
MODEL = "scripted"
#: What a client may take before it has to end, where it asks for a number.
STEPS = 40
#: What a client does wrong with cut calls, if it does.
CLOSES = dict.fromkeys(CUT, "it closes the open JSON of a cut call and runs it")
DROPS = dict.fromkeys(OPTIONAL, "it runs a cut call without its open arguments")


@dataclass(frozen=True)
class Run:
    #: The run's own address; the API is below ``/v1``.
    url: str
    surface: str
    #: Where it works; the process is there already.
    folder: str
    #: Its scratch home.
    home: str
    #: Where ``clients.install`` put the clients.
    installed: str
    #: Whether it asks for streams.
    stream: bool = True
    #: How often ``PROMPT`` is asked in the session.
    questions: int = 1


@dataclass(frozen=True)
class Tools:
    """How a client's own tools are called: each a name and its parameters in order."""

    write: tuple[str, str, str] = ("write_file", "path", "content")
    edit: tuple[str, str, str, str] = ("edit_file", "path", "old_string", "new_string")
    shell: tuple[str, str] = ("run_shell", "command")
    #: None: it has no tool whose parameters are all optional.
    clear: tuple[str, str] | None = None
    #: What the client adds to a call of an edit when it repeats it.
    edit_also: dict[str, Any] = field(default_factory=dict)
    #: What else the shell's tool requires.
    shell_also: dict[str, Any] = field(default_factory=dict)

    def call(self, part: Part, folder: Path) -> Call:
        if isinstance(part, Write):
            name, path, text = self.write
            return Call(name, {path: str(folder / part.path), text: part.content})
        if isinstance(part, Edit):
            name, path, old, new = self.edit
            given = {path: str(folder / part.path), old: part.old, new: part.new}
            return Call(name, given | self.edit_also)
        if isinstance(part, Clear) and self.clear:
            name, path = self.clear
            return Call(name, {path: part.path})
        if isinstance(part, Shell):
            name, command = self.shell
            return Call(name, {command: part.command} | self.shell_also)
        assert isinstance(part, Call)
        return part


@dataclass(frozen=True)
class Client:
    """A client: a program, or a library, which is given the tools at the end of this
    file.

    All of its runs are made in one process of ``clients.library``.
    """

    name: str
    #: Those of chat, responses and messages that it can speak.
    surfaces: tuple[str, ...]
    #: Makes one run; returns the final answer.
    ask: Callable[[Run], str | Coroutine[Any, Any, str]]
    #: What must be installed: ``npm``, and Python's environments.
    environments: tuple[str, ...] = ("python",)
    tools: Tools = Tools(clear=("clear_folder", "path"))
    #: The call that loads a tool, and that tool's, where the client keeps tools back.
    deferred: tuple[Call, Call] | None = None
    #: By scenario, what this client does wrong with a right stream.
    faults: Mapping[str, str] = field(default_factory=dict)
    #: Whether it can ask for an answer that is not streamed.
    full: bool = False
    #: Whether a session of it can be asked a second question here.
    resumes: bool = False

    def call(self, part: Part, folder: Path) -> Call:
        return self.tools.call(part, folder)

    def plays(self, scenario: str) -> bool:
        if scenario in OPTIONAL:
            return bool(self.tools.clear) and (self.full or ALL[scenario].stream)
        if scenario in AGAIN:
            return self.resumes
        return scenario != "deferred" or self.deferred is not None

    def scenario(self, scenario: Scenario, folder: Path) -> Scenario:
        """Return the scenario with this client's own calls where they are quoted."""
        return fill(scenario, lambda part: self.call(part, folder), self.deferred)

    def command(self, installed: Path) -> list[str]:
        """Return the process that makes all of its runs: a run a line, as JSON, and an
        answer.
        """
        own = [name for name in self.environments if name != "npm"]
        mine = str(installed / own[0] / "bin/python") if own else sys.executable
        return [mine, "-m", "clients.library", self.name]


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
    done = subprocess.run(
        [shutil.which("bash") or "/bin/sh", "-c", command],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


def clear_folder(path: str | None = None) -> str:
    """Remove a folder of the working folder, with all that is in it.

    Args:
        path: which; all of them, if none is given
    """
    here = Path.cwd()
    folders = [here / path] if path else [p for p in here.iterdir() if p.is_dir()]
    for folder in folders:
        if not folder.is_dir() or here not in folder.resolve().parents:
            return f"error: there is no folder {path} here"
        shutil.rmtree(folder)
    return f"removed {len(folders)}"


#: What every library is given.
TOOLS = (write_file, edit_file, run_shell, clear_folder)
