# SPDX-License-Identifier: Apache-2.0
"""The rooms of scripts/patchset: imports go to the same room or to a lower floor, so that no circle can be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import patchset

#: The floors, lowest first. Rooms of one floor do not import each other.
FLOORS = (
    {"base"},
    {"downloads", "registry"},
    {"pins", "locks", "series"},
    {"proofs", "results", "wheel"},
    {"rebase", "source", "install", "attest"},
    {"image"},
    {"publish"},
    {"commands"},
)
ROOT = Path(patchset.__file__).parent


def imports(file: Path) -> Iterator[str]:
    """The modules of the tool that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_every_room_has_a_floor() -> None:
    rooms = {folder.parent.name for folder in ROOT.glob("*/__init__.py")}
    assert rooms == set().union(*FLOORS)
    assert {file.stem for file in ROOT.glob("*.py")} == {"__init__", "__main__"}


def test_imports_go_down() -> None:
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    upwards = []
    for file in sorted(ROOT.glob("*/*.py")):
        for name in imports(file):
            package, _, rest = name.partition(".")
            room = rest.partition(".")[0]
            if package == "patchset" and room != file.parent.name and floor[room] >= floor[file.parent.name]:
                upwards.append(f"{file.relative_to(ROOT)} imports {name}")
    assert not upwards, "\n".join(upwards)
