# SPDX-License-Identifier: Apache-2.0
"""The tree that is compiled: a clone of the patched tree, without the external projects that no chosen module needs.

It is kept between runs, and only files whose content changes are written, so that Ninja goes on where it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from patchset import git
from patchset.pins import cmake
from patchset.pins.cmake import Module, Source

#: The first line of a CMake file of an external project that is left out.
LEFT_OUT = "# left out: no module that is compiled here needs it\n"

#: The compiler that DeepGEMM and DeepSelect ask for, asked of every build; without them the older one will do.
_GCC_FOR_EXTERNALS = re.compile(
    r'\nif ?\([^()]*CMAKE_CXX_COMPILER_VERSION VERSION_LESS "\d+"\)\s*message\(FATAL_ERROR\s*'
    r'"[^"]*"\s*"The DeepGEMM and DeepSelect dependencies(?:[^()]|\([^()]*\))*\)\s*endif\(\)',
)


@dataclass(frozen=True)
class Plan:
    """What is compiled, and what that takes from elsewhere."""

    modules: list[Module]
    sources: list[Source]
    left_out: list[str]

    @property
    def asks_newer_gcc(self) -> bool:
        """Whether the compiler must be as new as the external projects ask for."""
        return any(
            "deepgemm" in module.external or "deepselect" in module.external for module in self.modules
        )


def plan(tree: Path, modules: list[Module]) -> Plan:
    """What compiling these modules of a tree takes."""
    needed = {module.external for module in modules} - {""}
    if any("qutlass" in file for file in needed):
        # It asks whether CUTLASS' folder is known, which the top file says.
        needed.add(cmake.TOP)
    sources = [source for source in cmake.third_party(tree) if source.file in needed | {cmake.TOP}]
    return Plan(modules, sources, [file for file in cmake.externals(tree) if file not in needed])


def prepare(patched: Path, folder: Path, chosen: Plan) -> None:
    """Bring the clone in ``folder`` to the patched tree's commit and take out what the plan leaves out."""
    if not (folder / ".git").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        git.run(folder, "init", "--quiet")
    # Of a run that was killed; whoever calls this holds the folder.
    (folder / ".git" / "index.lock").unlink(missing_ok=True)
    git.run(folder, "fetch", "--quiet", "--no-tags", str(patched), "HEAD")
    edited = dict.fromkeys(chosen.left_out, LEFT_OUT)
    if not chosen.asks_newer_gcc:
        text = git.run(folder, "cat-file", "blob", f"FETCH_HEAD:{cmake.TOP}").decode()
        edited[cmake.TOP] = _GCC_FOR_EXTERNALS.sub("\n", text)
    if git.attempt(folder, "diff", "--quiet", "--cached", "FETCH_HEAD", "--")[0]:
        git.run(folder, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    changed = git.text(folder, "diff", "--name-only", "-z", "HEAD", "--").split("\0")
    if stale := [path for path in changed if path and path not in edited]:
        git.run(folder, "checkout", "--quiet", "--force", "HEAD", "--", *stale)
    for file, text in edited.items():
        # A file that is as it is to be keeps its time: what was compiled from it stays.
        if (folder / file).read_text(encoding="utf-8") != text:
            (folder / file).write_text(text, encoding="utf-8")
