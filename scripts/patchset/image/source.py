# SPDX-License-Identifier: Apache-2.0
"""Mode source: everything compiled from the patched tree, by vLLM's own Dockerfile, with buildx."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from patchset import console, files, git, paths, process
from patchset.errors import MissingToolError, PatchsetError
from patchset.image import build, dockerfile
from patchset.image.engine import output
from patchset.release import Target
from patchset.series.apply import patched_tree
from patchset.series.patched_release import PatchedRelease

#: vLLM's Dockerfile of a target, the stage that makes the wheel, and the stage that is the image.
_FILES: dict[Target, tuple[str, str, str]] = {
    "cuda": ("Dockerfile", "build", "vllm-openai"),
    "cpu": ("Dockerfile.cpu", "vllm-build", "vllm-openai"),
}
#: Ours, written beside it: the same, with our version.
DOCKERFILE = "docker/Dockerfile.mtp"


@dataclass(frozen=True)
class Context:
    """A folder to build from, and the variables of the bake file."""

    folder: Path
    variables: dict[str, str]


def prepare(patched: PatchedRelease, target: Target, tag: str | None) -> Context:
    """Make the context, ``build/images/source/<release>-<target>``, and see that it is whole."""
    name, wheel_stage, image_stage = _FILES[target]
    release = patched.pin
    tree = patched_tree(release)
    folder = paths.images_dir() / "source" / f"{release.name}-{target}"
    version = release.built_version(target)
    with console.step(f"make the context of {release.name}"), files.lock(folder):
        files.remove_temp(folder.parent, folder.name)
        with files.atomic_folder(folder) as temp:
            git.run(temp, "clone", "--quiet", "--local", "--no-hardlinks", str(tree), ".")
            git.run(temp, "remote", "remove", "origin")
            # setuptools-scm and the Rust build ask git for a version.
            git.run(temp, "tag", release.name)
            text = (temp / "docker" / name).read_text(encoding="utf-8")
            changed = dockerfile.with_version(text, wheel_stage, version)
            (temp / DOCKERFILE).write_text(changed, encoding="utf-8")
            stages = dockerfile.needed(dockerfile.read(text), image_stage)
            if lacking := dockerfile.missing(stages, temp):
                raise PatchsetError(
                    f"docker/{name} of {release.name} copies files that its source archive lacks: {', '.join(lacking)}",
                    "pin the release by git commit: a source archive may leave files out",
                )
    variables = {
        "CONTEXT": str(folder),
        "TAG": tag or build.default_tag(release, target) + "-source",
        "VERSION": version,
        "RELEASE": release.name,
        "COMMIT": release.commit,
        "SERIES_SHA256": patched.digest,
        "SOURCE_DATE_EPOCH": str(release.source_date_epoch),
    }
    return Context(folder, variables)


def bake(made: Context, target: Target, *, print_only: bool = False) -> str:
    """Run buildx; with ``print_only`` it says what it would build, and builds nothing."""
    place = paths.project_root() / "docker" / "source" / "docker-bake.hcl"
    argv = ["docker", "buildx", "bake", "--file", str(place)]
    env = {**os.environ, **made.variables}
    if output("docker", "buildx", "version", timeout=20) is None:
        said = " ".join(f"{name}={shlex.quote(value)}" for name, value in made.variables.items())
        raise MissingToolError(
            f"docker has no buildx; the context {made.folder} is whole",
            f"install it (docker-buildx-plugin), or build there: {said} {shlex.join(argv)} {target}",
        )
    if not print_only:
        process.run([*argv, target], prefix="buildx", env=env)
        return ""
    done = subprocess.run([*argv, "--print", target], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PatchsetError(f"buildx does not take the bake file: {done.stderr.strip()[-1000:]}")
    return done.stdout
