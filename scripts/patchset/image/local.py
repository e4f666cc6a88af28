# SPDX-License-Identifier: Apache-2.0
"""An image built for this machine, where an engine here can run it.

podman and buildah share a store, which gets the very manifest and layer that
``publish`` pushes. Docker takes no layer from outside: it builds what ``export`` wrote.
"""

import os
import shutil
from pathlib import Path

from patchset import console, files, paths, process
from patchset.errors import MissingToolError, UnavailableError, UsageError
from patchset.image import base as bases
from patchset.image import buildah, debian, labels, layout, skopeo, thin
from patchset.release import GOARCH, Target, this_machine
from patchset.series import export
from patchset.series.apply import PatchedRelease

#: What a base takes in a store, in bytes for each byte of its packed layers.
_UNPACKED = 2.5
_PLACE: dict[str, str] = {
    "podman": "podman run --rm --device nvidia.com/gpu=all",
    "docker": "docker run --rm --gpus all",
}
_SERVE: dict[Target, list[str]] = {
    "cuda": [
        "Qwen/Qwen3.5-9B --served-model-name qwen --language-model-only",
        "--max-model-len 65536 --max-num-seqs 4 --gpu-memory-utilization 0.93",
        '--speculative-config \'{"method":"mtp","num_speculative_tokens":3}\'',
        "--enable-auto-tool-choice --tool-call-parser qwen3_coder "
        "--reasoning-parser qwen3",
    ],
    "cpu": [
        "Qwen/Qwen3.5-0.8B --served-model-name qwen --max-model-len 16384",
        "--no-enable-prefix-caching --enforce-eager --dtype bfloat16",
        "--enable-auto-tool-choice --tool-call-parser qwen3_coder "
        "--reasoning-parser qwen3",
    ],
}


def engines() -> list[str]:
    """Return those of podman, docker and buildah that work here, the best to serve by
    first.
    """
    found = [name for name in ("podman", "buildah") if buildah.output(name, "info")]
    if buildah.output("docker", "info", "--format", "{{.ServerVersion}}"):
        found.insert(int("podman" in found), "docker")
    return found


def choose(patched: PatchedRelease, base: str | None) -> skopeo.Reference | None:
    """Return the base in a registry, or None: a whole image is built.

    Without a ``base`` the official image is taken, if its registry answers; what else
    is begun, and why, is said first. Programs that are missing are named here.
    """
    reference = None
    if base not in (None, "official", "debian"):
        reference = skopeo.parse(base)
    elif base != "debian":
        try:
            reference = bases.official(patched)
            if base is None:
                skopeo.raw(reference)
        except (UnavailableError, MissingToolError, UsageError) as error:
            if base is not None:
                raise
            reference = None
            console.note(f"no layer on the official image: {error.message}")
            console.note(debian.announcement(patched))
            console.note(f"  To have the layer instead: {error.hint}")
    if reference is None:
        patched.wheel(this_machine())  # an error, if it has none for this target
        debian.refuse_missing()
    else:
        skopeo.refuse_missing()
    return reference


def build(patched: PatchedRelease, reference: skopeo.Reference | None) -> Path:
    """Build an image for this machine's processor; its folder in ``build/images``."""
    if reference is None:
        return debian.build(patched)
    base, arch = bases.find(patched, reference), this_machine()
    found = [part for part in base.parts if part.arch == arch]
    if not found:
        has = ", ".join(GOARCH[part.arch] for part in base.parts)
        raise UsageError(
            f"{base.name} is for {has}, not for this machine's {GOARCH[arch]}",
            "choose another base, or build on such a machine",
        )
    part = found[0]
    here, images = engines(), paths.build_dir() / "images"
    out, name = layout.folder(patched), labels.local(patched)
    stored = {"podman", "buildah"} & {*here}
    if stored and not bases.known(patched, part):
        size = bases.size(part)
        files.need_space({buildah.storage(): size * _UNPACKED, images: size})
    with files.scratch(images) as scratch:
        blobs = None
        # Docker fetches the base itself; the exported program checks it.
        if here != ["docker"]:
            blobs = bases.check(base, part, patched, scratch)
        thin.build(patched, [part], str(base.name), out)
        if stored:
            try:
                _store(out, name, blobs)
            except UnavailableError:  # the store has not the base any more
                if blobs is not None:
                    raise
                _store(out, name, bases.fetch(base, part, scratch))
    return out


def _store(folder: Path, name: str, blobs: Path | None) -> None:
    image = layout.load(folder / "image")
    with console.step(f"store {name}"), files.scratch(folder) as temp:
        shutil.copytree(folder / "image", temp / "image", copy_function=os.link)
        for blob in blobs.glob("?" * 64) if blobs else ():
            place = temp / "image/blobs/sha256" / blob.name
            if not place.exists():
                os.link(blob, place)
        env = {**os.environ, "TMPDIR": str(temp)}
        skopeo.copy("oci:image", f"containers-storage:{name}", cwd=temp, env=env)
    stored = skopeo.stored(name)
    if stored != image.digest:
        raise process.ProgramError(f"{name} is {stored} in the store", "")


def how_to_serve(patched: PatchedRelease, folder: Path) -> list[str]:
    """Return the lines that say how to run an image that was built here; a command is
    last.
    """
    here, name = engines(), labels.local(patched)
    if "docker" in here and "podman" not in here:
        said = layout.load(folder / "image").parts[0].labels
        place = f"buildah push {name} docker-daemon:{name}"
        if base := said.get(labels.BASE_NAME):
            place = f"docker build --build-arg BASE={base} --tag {name} "
            place += str(export.export(patched.pin))
        lines = ["Docker has it after:", f"  {place}"]
    elif not here:
        return [
            "Neither podman nor Docker works here to run it. Publish it, or install "
            "one (sudo apt-get install podman) and run the same command again."
        ]
    else:
        lines = [f"podman and buildah have it as {name}."]
    if not {"podman", "docker"} & {*here}:
        lines.append("podman is not installed yet: sudo apt-get install podman")
    run = _PLACE["docker" if "docker" in here and "podman" not in here else "podman"]
    if patched.target == "cpu":
        run = f"{run.partition(' --rm')[0]} --rm --env VLLM_CPU_KVCACHE_SPACE=4"
    cache = "/home/vllm/.cache/huggingface"
    command = [
        f"{run} --ipc host --publish 127.0.0.1:8000:8000",
        f"--env HF_HOME={cache} --volume vllm-models:{cache}",
        name,
        *_SERVE[patched.target],
    ]
    return [*lines, "To serve:", "  " + " \\\n    ".join(command)]
