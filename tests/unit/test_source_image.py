# SPDX-License-Identifier: Apache-2.0
"""Mode source: what a Dockerfile needs of its context, and the bake file against vLLM's own Dockerfiles."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import hcl2
import pytest

from conftest import Project, make_sdist, release_toml
from patchset import paths
from patchset.errors import PatchsetError
from patchset.image import dockerfile, source
from patchset.release import Target, load
from patchset.series.patched_release import PatchedRelease

DOCKER = paths.project_root() / "docker"

TEXT = """\
ARG OUTER=1
FROM python:${OUTER} AS base
ARG INNER=2
COPY requirements/common.txt tools/one.py ./
RUN --mount=type=cache,target=/cache \\
    --mount=type=bind,source=requirements,target=/mnt,ro \\
    # a remark in between
    --mount=type=bind,from=tools,source=x,target=/y true
FROM scratch AS tools
ADD https://example.org/file /
COPY --chmod=755 csrc /csrc
FROM base AS build
COPY --from=tools /csrc /
COPY . .
FROM base AS vllm-openai
COPY --from=build /dist /
FROM base-${TARGETARCH} AS unused
COPY lost.txt /
FROM base AS base-amd64
"""


def test_what_a_target_takes_from_its_context(tmp_path: Path) -> None:
    stages = dockerfile.read(TEXT)
    needed = dockerfile.needed(stages, "vllm-openai")
    assert {stage.name for stage in needed} == {"", "base", "tools", "build", "vllm-openai"}
    assert {path for stage in needed for path in stage.sources} == {
        "requirements/common.txt", "tools/one.py", "requirements", "csrc", ".",
    }  # fmt: skip
    assert {"base-amd64", "unused"} <= {stage.name for stage in dockerfile.needed(stages, "unused")}
    (tmp_path / "requirements").mkdir()
    (tmp_path / "csrc").mkdir()
    assert dockerfile.missing(needed, tmp_path) == ["requirements/common.txt", "tools/one.py"]
    with pytest.raises(PatchsetError, match="no stage lost"):
        dockerfile.needed(stages, "lost")


def test_the_version_is_set_where_the_wheel_is_built() -> None:
    changed = dockerfile.with_version(TEXT, "build", "1.2.0+mtp.1")
    assert "FROM base AS build\nENV VLLM_VERSION_OVERRIDE=1.2.0+mtp.1\nCOPY --from=tools" in changed
    assert changed.replace("ENV VLLM_VERSION_OVERRIDE=1.2.0+mtp.1\n", "") == TEXT
    with pytest.raises(PatchsetError, match="no stage lost"):
        dockerfile.with_version(TEXT, "lost", "1")


@pytest.fixture
def sources(project: Project) -> Project:
    contents = {
        "docker/Dockerfile": TEXT, "requirements/common.txt": "", "tools/one.py": "", "csrc/kernel.cu": "",
    }  # fmt: skip
    sdist = make_sdist(project.downloads, contents)
    (project.folder / "release.toml").write_text(release_toml(sdist))
    (project.root / "docker").symlink_to(DOCKER)
    return project


def test_the_context_is_the_patched_tree_with_our_version(
    sources: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = source.prepare(PatchedRelease(load("v1.2.0")), "cuda", None)
    assert "VLLM_VERSION_OVERRIDE=1.2.0+mtp.1" in (made.folder / source.DOCKERFILE).read_text()
    describe = ["git", "-C", str(made.folder), "describe", "--tags"]
    assert subprocess.run(describe, capture_output=True, text=True).stdout == "v1.2.0\n"
    assert str(sources.root) not in (made.folder / ".git/config").read_text()
    monkeypatch.setenv("PATH", str(Path(shutil.which("git") or "").parent))
    if shutil.which("docker") is None:
        message = sources.run("build-image", "--mode", "source", status=5).stderr
        assert "the context" in message and "is whole" in message and "buildx bake" in message


def test_a_context_that_lacks_something_is_refused(sources: Project) -> None:
    sdist = make_sdist(sources.downloads, {"docker/Dockerfile": TEXT, "csrc/kernel.cu": ""})
    (sources.folder / "release.toml").write_text(release_toml(sdist))
    message = sources.run("build-image", "--mode", "source", status=1).stderr
    assert (
        "copies files that its source archive lacks: requirements, requirements/common.txt, tools/one.py"
        in message
    )


def bake_file() -> dict[str, Any]:
    with (DOCKER / "source/docker-bake.hcl").open(encoding="utf-8") as file:
        found: dict[str, Any] = hcl2.load(file)
    return {
        name.strip('"'): body for entry in found["target"] for name, body in entry.items() if name.strip('"_')
    } | {"variables": {name.strip('"') for entry in found["variable"] for name in entry}}


def test_the_session_fills_in_variables_that_the_bake_file_has(sources: Project) -> None:
    made = source.prepare(PatchedRelease(load("v1.2.0")), "cuda", "some:tag")
    assert set(made.variables) <= bake_file()["variables"]


@pytest.fixture(scope="module")
def dockerfiles() -> dict[str, str]:
    """vLLM's Dockerfiles of the default release, when its source archive is downloaded already."""
    sdist = load().sdist
    if sdist is None or not (place := paths.downloads_dir() / sdist.file).is_file():
        pytest.skip("the default release's source archive is not downloaded (nox -s fetch)")
    wanted = {f"/docker/{name}": name for name, *_ in source._FILES.values()}
    found: dict[str, str] = {}
    with tarfile.open(place, "r|gz") as tar:
        for member in tar:
            name = wanted.get(f"/{member.name.partition('/')[2]}")
            if name and (file := tar.extractfile(member)):
                found[name] = file.read().decode()
            if len(found) == len(wanted):
                break
    return found


@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_arguments_of_the_bake_file_are_arguments_of_vllms_dockerfile(
    target: Target, dockerfiles: dict[str, str]
) -> None:
    name, wheel_stage, image_stage = source._FILES[target]
    stages = dockerfile.read(dockerfiles[name])
    declared = {argument for stage in dockerfile.needed(stages, image_stage) for argument in stage.arguments}
    arguments = {key.strip('"') for key in bake_file()[target]["args"] if not key.startswith("__")}
    assert arguments <= declared
    dockerfile.with_version(dockerfiles[name], wheel_stage, "1")


def test_the_dockerfile_of_some_modules_gets_what_it_asks_for() -> None:
    target = bake_file()["modules"]
    stages = dockerfile.read((DOCKER.parent / target["dockerfile"].strip('"')).read_text())
    needed = dockerfile.needed(stages, target["target"].strip('"'))
    declared = {argument for stage in needed for argument in stage.arguments}
    assert {key.strip('"') for key in target["args"] if not key.startswith("__")} == declared
    assert not dockerfile.missing(needed, DOCKER.parent)
