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

from patchset.errors import PatchsetError

TOP = "CMakeLists.txt"
#: Bound of one CMake file in bytes; v0.33.0's largest has 70 kB.
_MAX_FILE = 1 << 20

_TOKEN = re.compile(
    r"""#\[(=*)\[.*?\]\1\]|#[^\n]*|"(?P<quoted>(?:\\.|[^"\\])*)"|(?P<open>\()|(?P<close>\))|(?P<plain>[^\s()"#]+)""",
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_SRC_DIR = re.compile(r"ENV\{(\w+_SRC_DIR)\}")
_KEYWORD = re.compile(r"(?!(?:TRUE|FALSE|ON|OFF)$)[A-Z_]+")
_SETUP_MODULE = re.compile(r"CMakeExtension\(\s*name=\"([\w.]+)\"")
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


def third_party(tree: Path) -> list[Source]:
    """The third-party sources of a tree's CUDA build, in the order of ``CMakeLists.txt``."""
    found = []
    for file in (TOP, *externals(tree)):
        values: dict[str, str] = {}
        variable = ""
        for name, words in _commands(tree, file):
            # The folder to take instead is asked for before the source is fetched.
            variable = [variable, *_SRC_DIR.findall(" ".join(words))][-1]
            if name == "set" and len(words) > 1:
                values[words[0]] = _filled(words[1], values)
            elif name in ("fetchcontent_declare", "fetchcontent_populate") and "GIT_REPOSITORY" in words:
                found.append(_source(file, words, values, variable))
    return found


def externals(tree: Path) -> list[str]:
    """The files of external projects that ``CMakeLists.txt`` includes in a CUDA build."""
    included = [words[0] for name, words in _commands(tree, TOP) if name == "include" and words]
    return list(dict.fromkeys(file for file in included if file.startswith("cmake/external_projects/")))


def modules(tree: Path) -> list[Module]:
    """The extensions that both ``setup.py`` and the CMake files of a CUDA build know, vLLM's own first."""
    commands = _commands(tree, TOP)
    owner = {words[0]: "" for name, words in commands if name == "define_extension_target" and words}
    for file in externals(tree):
        for _, words in _commands(tree, file):
            owner = dict.fromkeys(words, file) | owner
    named = dict.fromkeys(_SETUP_MODULE.findall(_read(tree, "setup.py")))
    known = [(dotted.rpartition(".")[2], dotted) for dotted in named]
    found = [Module(name, dotted, owner[name]) for name, dotted in known if name in owner]
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


def _commands(tree: Path, file: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a CMake file that a CUDA build may come to, with its conditions: name and words."""
    branches: list[bool] = []
    for name, words in _invocations(_read(tree, file)):
        if name in ("else", "elseif", "endif") and branches:
            branches.pop()
        if all(branches):
            yield name, words
        if name in ("if", "else", "elseif"):
            branches.append(name == "else" or not _NEVER.match(" ".join(words)))


def _invocations(text: str) -> Iterator[tuple[str, list[str]]]:
    """All commands of a CMake file; quotes are taken off, inner parentheses stay as words."""
    name, depth = "", 0
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        if (kind := match.lastgroup) is None:
            continue
        depth -= kind == "close"
        if depth:
            words.append(match[kind])
        elif kind == "plain":
            name, words = match[kind].lower(), []
        elif kind == "close":
            yield name, words
        depth += kind == "open"


def _source(file: str, words: list[str], values: dict[str, str], variable: str) -> Source:
    """What a command fetches; its options are the words behind each word in capitals."""
    options: dict[str, list[str]] = {}
    option: list[str] = []
    for word in words[1:]:
        if _KEYWORD.fullmatch(word):
            option = options.setdefault(word, [])
        else:
            option.append(_filled(word, values))
    repository, revision = options["GIT_REPOSITORY"][0], options.get("GIT_TAG", [""])[0]
    if not variable or not revision or "$" in repository + revision:
        raise PatchsetError(
            f"{file} fetches {words[0]} in an unsupported way: no literal GIT_REPOSITORY and GIT_TAG",
            "extend scripts/patchset/pins/cmake.py",
        )
    submodules = tuple(filter(None, options["GIT_SUBMODULES"])) if "GIT_SUBMODULES" in options else None
    folder = options.get("SOURCE_SUBDIR", [""])[0]
    return Source(words[0], file, repository, revision, variable, submodules, folder)


def _filled(word: str, values: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), word)
