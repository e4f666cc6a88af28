# SPDX-License-Identifier: Apache-2.0
"""The workflow files: every step that does something is a session of the noxfile."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from patchset import paths

WORKFLOWS = sorted((paths.project_root() / ".github/workflows").glob("*.yml"))
#: What brings nox and the programs that sessions use onto a fresh runner.
PREPARING = re.compile(
    r"pipx install nox|python3 -m pip install --user nox|\.ci/run|"
    r"(?:sudo )?apt-get update && (?:sudo )?apt-get install -y [a-z -]+"
)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_steps_are_sessions(workflow: Path, sessions: set[str]) -> None:
    steps = re.findall(r"(?m)^\s*(?:- )?run: (.*)$", workflow.read_text())
    named = [step.split()[2] for step in steps if step.startswith("nox -s ")]
    assert (named or workflow.name == "scan.yml") and set(named) <= sessions
    for step in steps:
        assert step.startswith("nox -s ") or PREPARING.fullmatch(step), step
    assert "run: |" not in workflow.read_text()
    assert not re.search(r"(?i)password: (?!\$\{\{ secrets\.)", workflow.read_text())


def test_inputs_of_people_never_become_shell_text() -> None:
    """A workflow's inputs reach a command as variables of the environment, quoted."""
    for workflow in WORKFLOWS:
        for step in re.findall(r"(?m)^\s*(?:- )?run: (.*)$", workflow.read_text()):
            assert not re.search(r"\$\{\{ *inputs\.\w+ *\}\}", step), step


def test_continuous_integration_runs_the_readme_line_in_a_clean_environment(
    tmp_path: Path,
) -> None:
    for folder in (".ci", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(paths.project_root() / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "README.md").write_text("```\ntrue && .venv/bin/nox\n```\n")
    program = tmp_path / ".venv/bin/nox"
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o755)
    given = {
        "PATH": os.defpath,
        "PIP_INDEX_URL": "https://index.invalid",
        "PYTHONUNBUFFERED": "1",
    }
    done = subprocess.run(
        [".ci/run"], cwd=tmp_path, env=given, capture_output=True, text=True, check=True
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert (
        seen["PIP_INDEX_URL"] == "https://index.invalid"
        and "PYTHONUNBUFFERED" not in seen
    )


def test_the_lock_has_what_the_tool_needs() -> None:
    root = paths.project_root()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lock = (root / "requirements.txt").read_text()
    pinned = {
        canonicalize_name(name): Version(version)
        for name, version in re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", lock)
    }
    for needed in map(Requirement, project["dependencies"]):
        version = pinned[canonicalize_name(needed.name)]
        assert version in needed.specifier, f"{needed}: nox -s lock -- tool"
    assert "--index-url" not in lock and "://" not in lock
