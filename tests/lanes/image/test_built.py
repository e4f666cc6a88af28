# SPDX-License-Identifier: Apache-2.0
"""What a built image is, looked at from inside it. Needs no GPU."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import pytest

from conftest import Inside  # type: ignore[attr-defined]  # the conftest beside this file
from patchset.downloads import fetch
from patchset.downloads.index import DEFAULT_INDEX, pip_settings
from patchset.release import Release, Target
from patchset.series import patched_files


@pytest.fixture(scope="module")
def facts(inside: Inside) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(inside.run("python", "/mnt/image/facts.py").splitlines()[-1])
    return found


def test_installed_distribution_is_the_patched_one(
    facts: dict[str, Any], release: Release, target: Target
) -> None:
    assert facts["version"] == release.built_version(target)


def test_compiled_extensions_are_the_official_wheels(
    facts: dict[str, Any], release: Release, target: Target
) -> None:
    import base64
    import csv

    with zipfile.ZipFile(fetch.artifact(release.wheel(target, facts["machine"]))) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
        rows = {row[0]: row[1] for row in csv.reader(wheel.read(record).decode().splitlines()) if row}
    official = {name: entry for name, entry in rows.items() if name.endswith(".so")}
    assert official
    for name, entry in official.items():
        digest = base64.urlsafe_b64decode(entry.removeprefix("sha256=") + "=").hex()
        assert facts["extensions"][name] == digest, name


def test_user_is_not_root_and_can_write_its_home(facts: dict[str, Any]) -> None:
    assert facts["uid"] == 2000
    assert facts["home"] == "/home/vllm"
    assert facts["home_writable"]
    assert not facts["venv_writable"]


def test_bytecode_is_checked_by_hash(facts: dict[str, Any]) -> None:
    """A replaced .py must never run as the old one, whatever its time says (PEP 552: flags 0b11)."""
    assert facts["bytecode_flags"] == [3]


def test_nothing_of_the_build_is_left(facts: dict[str, Any]) -> None:
    assert facts["left"] == []


def test_labels_say_what_is_inside(inside: Inside, release: Release, target: Target) -> None:
    labels = inside.engine.inspect(inside.image)["Labels"]
    assert labels["org.opencontainers.image.version"] == release.built_version(target)
    assert labels["vllm-mtp-patches.series-sha256"] == patched_files.sha256(release)
    assert len(labels["vllm-mtp-patches.wheel-sha256"]) == 64


def test_no_setting_of_the_host_is_in_the_image(inside: Inside) -> None:
    """Neither configuration nor history names where the host's pip and apt look."""
    text = inside.engine.describe(inside.image)
    settings = pip_settings()
    places = {*settings.index_urls, *settings.find_links, settings.cert, settings.proxy}
    for place in places - {None, DEFAULT_INDEX}:
        assert str(place) not in text
    assert "proxy" not in text.lower()


def test_installed_parser_reads_a_literal_tool_call_as_text(
    inside: Inside, release: Release, target: Target
) -> None:
    """D1, by the parser that is installed, not by one beside it."""
    said = inside.run("python", "/mnt/image/literal_tool_call.py").splitlines()[-1]
    assert said.startswith("right ") and "/opt/venv/" in said and said.endswith(release.built_version(target))


def test_the_doctor_finds_nothing_wrong(inside: Inside) -> None:
    assert inside.run("vllm-mtp-doctor", "--quiet") == ""


def test_programs_for_compiling_at_run_time(inside: Inside, target: Target) -> None:
    inside.run("sh", "/mnt/image/compile.sh", target)


def test_server_answers(inside: Inside, target: Target) -> None:
    """A model of random weights, made in the container, served and asked over HTTP."""
    if target != "cpu":
        pytest.skip("the server of a cuda image needs a GPU")
    assert "healthy" in inside.run("python", "/mnt/image/serve.py")
