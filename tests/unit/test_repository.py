# SPDX-License-Identifier: Apache-2.0
"""What documents, workflows and modules say of each other. No network."""

import ast
import graphlib
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from conformance import case as cases
from conformance import guard
from conftest import lay
from patchset import paths
from patchset.release import load

ROOT = paths.project_root()
LISTED = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
DOCUMENTS = sorted(subprocess.check_output(LISTED, cwd=ROOT, text=True).splitlines())


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def targets(document: str) -> Iterator[str]:
    """Yield where links and images of a document lead to."""
    for token in MarkdownIt("commonmark").enable("table").parse(read(document)):
        for one in (token, *(token.children or ())):
            yield str(one.attrGet("href") or one.attrGet("src") or "")


def anchors(text: str) -> set[str]:
    """Return what a link can point to in a document: its headings, named as GitHub
    names them, and ``<a id>``.
    """
    found = set(re.findall(r'<a id="([^"]+)">', text))
    heading = False
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "inline" and heading:
            words = "".join(child.content for child in token.children or ())
            found.add(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
        heading = token.type == "heading_open"
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in targets(document):
        if target and not re.match(r"[a-z]+:", target):
            name, _, section = unquote(target).partition("#")
            place = (ROOT / document).parent / name if name else ROOT / document
            assert place.exists(), target
            assert not section or section in anchors(place.read_text()), target


def test_sessions_that_documents_name_exist() -> None:
    noxfile = read("noxfile.py")
    found = re.findall(r'(?m)^(?:command|lane)\(\s*"([\w-]+)"', noxfile)
    sessions = {*found, *re.findall(r"@nox\.session\ndef (\w+)", noxfile)}
    for document in set(DOCUMENTS) - {"CHANGELOG.md"}:  # it names what was
        named = set(re.findall(r"\bnox -s ([a-z][a-z0-9-]*)", read(document)))
        assert named <= sessions, f"{document} names {named - sessions}"


def test_pages_name_and_count_the_patches_of_the_series() -> None:
    lines = (paths.patches_dir() / "series").read_text().splitlines()
    names = {line.split()[0] for line in lines if not line.startswith("modules/")}
    page = (paths.project_root() / "docs/developing.md").read_text()
    shared = page.partition("## Patches that touch every model")[2]
    named = re.findall(r"`([a-z0-9-]+)`", shared)
    assert named and {*named} <= names
    reasons = [(paths.patches_dir() / name / "reason.md").read_text() for name in names]
    merged = sum("\nUpstream-Status: merged" in reason for reason in reasons)
    readme = (paths.project_root() / "README.md").read_text()
    assert f"{merged} of the {len(names)} patches backport" in readme


def test_each_package_of_an_image_has_a_reason() -> None:
    packages = paths.project_root() / "docker/packages.toml"
    for group in tomllib.loads(packages.read_text()).values():
        assert all(group.values())


def test_what_cases_and_exceptions_cite_is_a_heading_of_the_format() -> None:
    sources = " ".join(case.source for case in cases.load())
    cited = set(re.findall(r"format\.md#([\w-]+)", sources))
    assert len(cited) > 15
    cited |= set(json.loads(guard.REASONS.read_text()).values())
    assert cited <= anchors(read("docs/format.md"))


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/install.md",
        "docker/compose.yaml",
        "docker/kubernetes/vllm.yaml",
    ],
)
def test_tags_are_those_of_the_default_release(name: str) -> None:
    release = load()
    tags = re.findall(r"\bv[\d.]+-mtp\.\d+", read(name))
    assert set(tags) <= {f"{release.name}-mtp.{release.revision}"}


def test_continuous_integration_runs_the_readme_line_in_a_clean_environment(
    tmp_path: Path,
) -> None:
    files = {
        "README.md": "```\ntrue && .venv/bin/nox\n```\n",
        ".venv/bin/nox": "#!/bin/sh\nenv\n",
        ".ci/run": read(".ci/run"),
        "ci/fresh": read("ci/fresh"),
    }
    lay(tmp_path, files)
    for name in set(files) - {"README.md"}:
        (tmp_path / name).chmod(0o755)
    given = {"PIP_INDEX_URL": "https://index.invalid", "PYTHONUNBUFFERED": "1"}
    seen = subprocess.check_output(
        [".ci/run"], cwd=tmp_path, env={"PATH": os.defpath, **given}, text=True
    )
    assert "PIP_INDEX_URL=https://index.invalid\n" in seen
    assert "PYTHONUNBUFFERED" not in seen


def test_the_tool_says_its_version() -> None:
    command = [sys.executable, "-m", "patchset", "--version"]
    said = subprocess.check_output(command, cwd=ROOT, text=True)
    assert re.fullmatch(r"vllm-mtp-patches \S*[0-9a-f]{7,}\S*\n", said)


TESTS_LOCK = "tests/requirements.txt"


def pins(lock: str) -> dict[str, Version]:
    found = re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", read(lock))
    return {canonicalize_name(name): Version(version) for name, version in found}


PROJECT = tomllib.loads(read("pyproject.toml"))


@pytest.mark.parametrize(
    ("lock", "needs"),
    [
        ("requirements.txt", PROJECT["project"]["dependencies"]),
        (TESTS_LOCK, [*itertools.chain(*PROJECT["dependency-groups"].values())]),
    ],
)
def test_a_lock_has_what_it_is_for(lock: str, needs: list[str]) -> None:
    pinned = pins(lock)
    for needed in map(Requirement, needs):
        version = pinned[canonicalize_name(needed.name)]
        assert version in needed.specifier, f"{needed}: nox -s pin -- --lock"
    assert "--index-url" not in read(lock) and "://" not in read(lock)


def test_what_tests_run_with_depends_on_no_earlier_session() -> None:
    """Whichever lock is installed first, the other changes nothing."""
    of_tests, of_tool = pins(TESTS_LOCK), pins("requirements.txt")
    assert {name: of_tests.get(name, pin) for name, pin in of_tool.items()} == of_tool


#: Packages of the tool; each may import the earlier ones.
FLOORS, TOP = ("inputs", "series", "wheel", "image"), ("cli", "drift", "proofs")


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = getattr(node, "names", ())
        if isinstance(node, ast.Import):
            found |= {name.name for name in names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in names)}
    return found


def test_packages_import_in_one_direction() -> None:
    for number, package in enumerate(FLOORS, 1):
        later = {f"patchset.{name}" for name in (*FLOORS[number:], *TOP)}
        for file in (ROOT / "scripts/patchset" / package).glob("*.py"):
            assert not later & imported(file), f"{file.name} imports a later one"


def test_lanes_import_each_other_in_one_direction() -> None:
    lanes = {place.parent.name for place in ROOT.glob("tests/lanes/*/__init__.py")}
    needs = {lane: set[str]() for lane in lanes}
    for file in ROOT.glob("tests/lanes/*/**/*.py"):
        lane = file.relative_to(ROOT / "tests/lanes").parts[0]
        names = {name.partition(".")[0] for name in imported(file)}
        needs[lane] |= (names & lanes) - {lane}
    assert "conformance" in needs["server"], "what they import is seen"
    tuple(graphlib.TopologicalSorter(needs).static_order())  # CycleError names them


@pytest.mark.parametrize(
    ("importers", "hidden"),
    [
        ("scripts/**/*.py", "tests/lanes/*"),  # the tool knows no lane
        ("tests/**/test_*.py", "tests/**/test_*.py"),  # no test imports another
    ],
)
def test_what_is_imported_by_nobody(importers: str, hidden: str) -> None:
    names = {place.stem for place in ROOT.glob(hidden)}
    for file in ROOT.glob(importers):
        tops = {name.partition(".")[0] for name in imported(file)}
        assert not names & tops, f"{file.relative_to(ROOT)}: {names & tops}"
