# SPDX-License-Identifier: Apache-2.0
"""What the documents say is there: links, sections, sessions, codes, tags. No network."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from patchset import paths
from patchset.release import load

ROOT = paths.project_root()
DOCUMENTS = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
)
README = (ROOT / "README.md").read_text(encoding="utf-8")


def tokens(document: Path) -> Iterator[Token]:
    """All tokens of a document, those within a line included."""
    for token in (
        MarkdownIt("commonmark")
        .enable("table")
        .parse(document.read_text(encoding="utf-8"))
    ):
        yield token
        yield from token.children or ()


def anchors(document: Path) -> set[str]:
    """What a link can point to in a document: its headings, named as GitHub names them, and ``<a id>``."""
    text = document.read_text(encoding="utf-8")
    found = set(re.findall(r'<a id="([^"]+)">', text))
    heading = False
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "inline" and heading:
            words = "".join(child.content for child in token.children or ())
            found.add(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
        heading = token.type == "heading_open"
    return found


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_somewhere(document: Path) -> None:
    broken = []
    for token in tokens(document):
        target = str(token.attrGet("href") or token.attrGet("src") or "")
        if not target or re.match(r"[a-z]+:", target):
            continue
        name, _, section = unquote(target).partition("#")
        place = document.parent / name if name else document
        if not place.exists() or (section and section not in anchors(place)):
            broken.append(target)
    assert not broken


def test_the_readme_is_short_and_has_the_three_commands() -> None:
    assert len(README.splitlines()) <= 130
    commands = re.findall(
        r"^apt-get update && .*\.venv/bin/nox(.*)$", README, re.MULTILINE
    )
    assert commands == [" -s try", " -s build-image", ""], (
        "the last one is what .ci/run runs"
    )


def test_sessions_that_documents_name_exist(sessions: set[str]) -> None:
    for document in DOCUMENTS:
        if document.name == "CHANGELOG.md":  # it names what was
            continue
        named = set(
            re.findall(
                r"\bnox -s ([a-z][a-z0-9-]*)", document.read_text(encoding="utf-8")
            )
        )
        assert named <= sessions, (
            f"{document.relative_to(ROOT)} names {named - sessions}"
        )


def test_codes_of_defects_are_defined() -> None:
    defined = {
        name.upper()
        for name in anchors(ROOT / "docs/defects.md")
        if re.fullmatch(r"[de]\d+", name)
    }
    used = {
        code
        for place in (*ROOT.glob("patches/*/*.diff"), *ROOT.glob("tests/patches/*.py"))
        for code in re.findall(
            r"\b[DE]\d{1,2}\b", place.read_text(encoding="utf-8").partition("\n--- ")[0]
        )
    }
    assert used and used <= defined


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/deploying.md",
        "docker/compose.yaml",
        "docker/kubernetes/vllm.yaml",
    ],
)
def test_tags_are_those_of_the_default_release(name: str) -> None:
    release = load()
    tags = re.findall(r"\bv[\d.]+-mtp\.\d+", (ROOT / name).read_text(encoding="utf-8"))
    assert set(tags) == {f"{release.name}-mtp.{release.revision}"}
