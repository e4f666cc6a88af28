# SPDX-License-Identifier: Apache-2.0
"""What documents, workflows and modules say of each other. No network."""

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from conftest import lay
from patchset import paths
from patchset.release import load

ROOT = paths.project_root()
LISTED = subprocess.check_output(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT,
    text=True,
)
DOCUMENTS = sorted(LISTED.splitlines())
WORKFLOWS = [path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def targets(document: str) -> Iterator[str]:
    """Where links and images of a document lead to."""
    for token in MarkdownIt("commonmark").enable("table").parse(read(document)):
        for one in (token, *(token.children or ())):
            yield str(one.attrGet("href") or one.attrGet("src") or "")


def anchors(text: str) -> set[str]:
    """What a link can point to in a document: its headings, named as GitHub names them, and ``<a id>``."""
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
    broken = []
    for target in targets(document):
        if not target or re.match(r"[a-z]+:", target):
            continue
        name, _, section = unquote(target).partition("#")
        place = (ROOT / document).parent / name if name else ROOT / document
        if not place.exists() or (
            section and section not in anchors(place.read_text())
        ):
            broken.append(target)
    assert not broken


def test_the_readme_has_the_three_commands_for_a_bare_machine() -> None:
    commands = re.findall(
        r"(?m)^apt-get update && .*\.venv/bin/nox(.*)$", read("README.md")
    )
    # The last one is what ci/fresh runs.
    assert commands == [" -s try", " -s build-image", ""]


@pytest.fixture(scope="module")
def sessions() -> set[str]:
    """The names of the noxfile's sessions."""
    functions = re.findall(
        r'@(?:nox\.)?session(?:\(name="([\w-]+)"\))?\ndef (\w+)', read("noxfile.py")
    )
    calls = re.findall(r'(?m)^(?:command|lane)\(\s*"([\w-]+)"', read("noxfile.py"))
    return {name or function for name, function in functions} | set(calls)


def test_sessions_that_documents_name_exist(sessions: set[str]) -> None:
    for document in set(DOCUMENTS) - {"CHANGELOG.md"}:  # it names what was
        named = set(re.findall(r"\bnox -s ([a-z][a-z0-9-]*)", read(document)))
        assert named <= sessions, f"{document} names {named - sessions}"


def test_codes_of_defects_are_defined() -> None:
    names = anchors(read("docs/troubleshooting.md"))
    places = [*ROOT.glob("patches/*/*.diff"), *ROOT.glob("tests/patches/*.py")]
    messages = [place.read_text("utf-8").partition("\n--- ")[0] for place in places]
    used = set(re.findall(r"\b[DE]\d{1,2}\b", "\n".join(messages)))
    assert used and used <= {name.upper() for name in names}


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


def test_jobs_run_sessions(sessions: set[str]) -> None:
    jobs = tomllib.loads(read("ci/jobs.toml"))
    commands = [command for job in jobs.values() for command in job["nox"]]
    assert {command.split()[0] for command in commands} <= sessions
    named = {
        job for file in WORKFLOWS for job in re.findall(r"ci/run ([a-z][a-z-]+)", file)
    }
    assert named and named <= set(jobs)


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


def test_the_lock_has_what_the_tool_needs() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    lock = read("requirements.txt")
    pinned = {
        canonicalize_name(name): Version(version)
        for name, version in re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", lock)
    }
    for needed in map(Requirement, project["dependencies"]):
        version = pinned[canonicalize_name(needed.name)]
        assert version in needed.specifier, f"{needed}: nox -s pin -- --lock tool"
    assert "--index-url" not in lock and "://" not in lock


#: Packages of the tool; each may import the earlier ones.
FLOORS = ("inputs", "series", "wheel", "image")


def imported(file: Path) -> set[str]:
    """The names of the modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = getattr(node, "names", ())
        if isinstance(node, ast.Import):
            found |= {name.name for name in names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in names)}
    return found


@pytest.mark.parametrize("package", FLOORS)
def test_packages_import_in_one_direction(package: str) -> None:
    later = FLOORS[FLOORS.index(package) + 1 :]
    above = {f"patchset.{name}" for name in (*later, "cli", "drift", "proofs")}
    for file in (ROOT / "scripts/patchset" / package).glob("*.py"):
        found = above & imported(file)
        assert not found, f"{file.name} imports {found}"


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
