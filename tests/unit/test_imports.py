# SPDX-License-Identifier: Apache-2.0
"""Who may import whom: packages of the tool in one direction, tests no other tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchset import paths

ROOT = paths.project_root()
#: Packages of the tool; each may import the earlier ones.
FLOORS = ("inputs", "series", "wheel", "image")
TESTS = sorted(ROOT.glob("tests/**/test_*.py"))


def imported(file: Path) -> Iterator[str]:
    """The names of the modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("package", FLOORS)
def test_packages_import_in_one_direction(package: str) -> None:
    later = FLOORS[FLOORS.index(package) + 1 :]
    above = {f"patchset.{name}" for name in (*later, "cli", "drift", "proofs")}
    for file in (ROOT / "scripts/patchset" / package).glob("*.py"):
        found = above.intersection(imported(file))
        assert not found, f"{file.name} imports {found}"


def test_no_test_imports_another() -> None:
    names = {file.stem for file in TESTS}
    for file in TESTS:
        modules = {part for name in imported(file) for part in name.split(".")}
        assert not names & modules, f"{file.relative_to(ROOT)}: {names & modules}"


def test_the_tool_knows_no_lane() -> None:
    lanes = {place.name for place in (ROOT / "tests/lanes").iterdir()}
    for file in (ROOT / "scripts").glob("**/*.py"):
        tops = {name.partition(".")[0] for name in imported(file)}
        assert not lanes & tops, f"{file.name}: {lanes & tops}"
