# SPDX-License-Identifier: Apache-2.0
"""What vLLM's CMake files say without running CMake: third-party sources, and which module is made of which.

No CMake interpreter: commands and variables of the few forms that these files use, for a CUDA build.
Syntax: https://cmake.org/cmake/help/latest/manual/cmake-language.7.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchset.base.errors import PatchsetError

TOP = "CMakeLists.txt"
_EXTERNAL = "cmake/external_projects/"
#: Bound of one CMake file in bytes; v0.33.0's largest has 70 kB.
_MAX_FILE = 1 << 20

_TOKEN = re.compile(r'#\[(=*)\[.*?\]\1\]|#[^\n]*|"((?:\\.|[^"\\])*)"|([()])|([^\s()"#]+)', re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SRC_DIR = re.compile(r"ENV\{(\w+_SRC_DIR)\}")
_SETUP_MODULE = re.compile(r"CMakeExtension\(\s*name=\"([\w.]+)\"(, optional=True)?")
_OLDEST_GCC = re.compile(r"CMAKE_CXX_COMPILER_VERSION VERSION_LESS \"(\d+(?:\.\d+)*)\"")
#: Conditions that no CUDA build meets; all others are taken to hold on both sides.
_NEVER = re.compile(r"^(VLLM_TARGET_DEVICE STREQUAL rocm|VLLM_GPU_LANG STREQUAL HIP)$")


@dataclass(frozen=True)
class Source:
    """A third-party source that a CMake file fetches with git.

    ``revision`` is a commit or a tag, as the file has it; ``variable`` names the folder to build from instead, which is
    ``subfolder`` of a checkout; ``submodules`` None stands for all of them (FetchContent's default).
    """

    name: str
    file: str
    repository: str
    revision: str
    variable: str
    submodules: tuple[str, ...] | None = None
    subfolder: str = ""

    @property
    def commit(self) -> str | None:
        """The revision when it is a whole commit id."""
        return self.revision if re.fullmatch(r"[0-9a-f]{40}", self.revision) else None


@dataclass(frozen=True)
class Module:
    """One of ``setup.py``'s extensions: its CMake target, its dotted name, and the CMake file of the external project
    that it belongs to, "" for vLLM's own."""

    name: str
    dotted: str
    external: str


@dataclass(frozen=True)
class _Command:
    name: str
    words: tuple[str, ...]


def third_party(tree: Path) -> list[Source]:
    """The third-party sources of a tree's CUDA build, in the order of ``CMakeLists.txt``."""
    found: list[Source] = []
    for file in (TOP, *externals(tree)):
        found += _sources(file, _commands(_read(tree, file)))
    return found


def externals(tree: Path) -> list[str]:
    """The files of external projects that ``CMakeLists.txt`` includes in a CUDA build."""
    included = []
    for command in _active(_commands(_read(tree, TOP))):
        if command.name == "include" and command.words and command.words[0].startswith(_EXTERNAL):
            included.append(command.words[0])
    return list(dict.fromkeys(included))


def modules(tree: Path) -> list[Module]:
    """The extensions that both ``setup.py`` and the CMake files of a CUDA build know, vLLM's own first."""
    named = dict.fromkeys(match[1] for match in _SETUP_MODULE.finditer(_read(tree, "setup.py")))
    own = {
        command.words[0]
        for command in _active(_commands(_read(tree, TOP)))
        if command.name == "define_extension_target" and command.words
    }
    files = {
        file: {word for command in _commands(_read(tree, file)) for word in command.words}
        for file in externals(tree)
    }
    found = []
    for dotted in named:
        name = dotted.rpartition(".")[2]
        if name in own:
            found.append(Module(name, dotted, ""))
        elif owner := next((file for file, words in files.items() if name in words), None):
            found.append(Module(name, dotted, owner))
    return sorted(found, key=lambda module: bool(module.external))


def oldest_gcc(tree: Path) -> list[str]:
    """The versions of GCC that ``CMakeLists.txt`` compares with, in its order; the first holds for every module."""
    return _OLDEST_GCC.findall(_read(tree, TOP))


def _read(tree: Path, file: str) -> str:
    place = tree / file
    try:
        if place.stat().st_size > _MAX_FILE:
            raise PatchsetError(f"{place} is larger than {_MAX_FILE} bytes")
        return place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PatchsetError(f"{place} cannot be read: {error}") from error


def _commands(text: str) -> Iterator[_Command]:
    """The command invocations of a CMake file; quotes are taken off, inner parentheses stay as words."""
    name, depth, words = "", 0, []
    for match in _TOKEN.finditer(text):
        _, quoted, parenthesis, plain = match.groups()
        if parenthesis == "(":
            depth += 1
            if depth > 1:
                words.append("(")
        elif parenthesis == ")":
            depth -= 1
            if depth == 0:
                yield _Command(name.lower(), tuple(words))
                name, words = "", []
            else:
                words.append(")")
        elif depth and quoted is not None:
            words.append(quoted)
        elif plain is not None and depth:
            words.append(plain)
        elif plain is not None:
            name = plain


def _active(commands: Iterator[_Command]) -> Iterator[_Command]:
    """The commands that a CUDA build may come to."""
    branches: list[bool] = []
    for command in commands:
        if command.name == "if":
            branches.append(not _never(command.words))
        elif command.name in ("else", "elseif") and branches:
            branches[-1] = command.name == "else" or not _never(command.words)
        elif command.name == "endif" and branches:
            branches.pop()
        elif all(branches):
            yield command


def _never(words: tuple[str, ...]) -> bool:
    return _NEVER.match(" ".join(words)) is not None


def _sources(file: str, commands: Iterator[_Command]) -> Iterator[Source]:
    values: dict[str, str] = {}
    variable = ""
    seen: list[str] = []
    for command in _active(_noting(commands, seen)):
        variable = seen[-1] if seen else variable
        if command.name == "set" and len(command.words) > 1:
            values[command.words[0]] = _value(command.words[1], values)
        elif command.name in ("fetchcontent_declare", "fetchcontent_populate"):
            options = _options(command.words[1:], values)
            if "GIT_REPOSITORY" not in options:
                continue
            repository, revision = options["GIT_REPOSITORY"][0], options.get("GIT_TAG", [""])[0]
            if not variable or not revision or "$" in repository + revision:
                raise PatchsetError(
                    f"{file} fetches {command.words[0]} in an unsupported way: no literal GIT_REPOSITORY and GIT_TAG",
                    "extend scripts/patchset/pins/cmake.py",
                )
            submodules = options.get("GIT_SUBMODULES")
            yield Source(
                name=command.words[0],
                file=file,
                repository=repository,
                revision=revision,
                variable=variable,
                submodules=None if submodules is None else tuple(filter(None, submodules)),
                subfolder=options.get("SOURCE_SUBDIR", [""])[0],
            )


def _noting(commands: Iterator[_Command], seen: list[str]) -> Iterator[_Command]:
    """Pass commands on; ``seen`` gets the names of folder variables that conditions and values ask for."""
    for command in commands:
        seen += [match for word in command.words for match in _SRC_DIR.findall(word)]
        yield command


def _value(word: str, values: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), word)


def _options(words: tuple[str, ...], values: dict[str, str]) -> dict[str, list[str]]:
    """Words behind each word in capitals: GIT_TAG v1 gives {"GIT_TAG": ["v1"]}."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for word in words:
        if re.fullmatch(r"[A-Z_]+", word) and word not in ("TRUE", "FALSE", "ON", "OFF"):
            current = found.setdefault(word, [])
        else:
            current.append(_value(word, values))
    return found
