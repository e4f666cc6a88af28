# SPDX-License-Identifier: Apache-2.0
"""``python -m gpu.bundle``: the lane, its wheels and its model as parts, for a host without a network."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click

from gpu import __main__ as connected
from gpu import build_dir
from gpu.bundle import content, parts, resolve, slim
from kernels import pack
from patchset import console, files, release, run_command
from patchset.commands.options import from_dir_option
from patchset.downloads import fetch
from patchset.errors import UsageError
from patchset.release import Release
from patchset.results.key import key
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import overlay

#: Releases whose torch the default host has.
RELEASES = ("v0.26.0", "v0.23.0")
#: NVIDIA H100 and H200: sm_90.
ARCH = 90


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--release",
    "names",
    multiple=True,
    default=RELEASES,
    show_default=True,
    help="A release; may be repeated.",
)
@click.option(
    "--host",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What the host has, one NAME or NAME==VERSION a line.  [default: tests/lanes/gpu/bundle/host.txt]",
)
@click.option(
    "--checkpoint",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The cpu lane's model, if it is somewhere already; it is trained otherwise (some minutes).",
)
@click.option(
    "--part-mib",
    type=click.IntRange(1, 60),
    default=60,
    show_default=True,
    help="The most that a part may have, in MiB.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="[default: build/gpu/bundle]")
@from_dir_option
def command(
    names: tuple[str, ...],
    host: Path | None,
    checkpoint: Path | None,
    part_mib: int,
    out: Path | None,
) -> None:
    """Write parts of at most 60 MiB, and the script which joins, installs and runs them (tests/lanes/gpu/README.md)."""
    has = resolve.host(host)
    left_out = resolve.LeftOut.load()
    pinned = [release.load(name) for name in names]
    _fit(pinned, has)
    text = checkpoint or connected.checkpoint()
    if not (text / "answers.json").is_file():
        raise UsageError(f"{text} is no checkpoint of the cpu lane")
    items: dict[str, Path] = {}
    releases = {}
    for one in pinned:
        releases[one.name] = _release(one, has, left_out, text, items)
    items |= {f"lane/{path}": file for path, file in content.lane().items()}
    cache = build_dir() / "packed"
    entries = parts.listed(sorted(items.items()), cache)
    place = (out or build_dir() / "bundle").resolve()
    with files.lock(place), files.atomic_folder(place) as folder:
        manifest: dict[str, Any] = {
            "host": {"python": resolve.PYTHON, **{r.name: _version(str(r.specifier)) for r in has}},
            "releases": releases,
            "files": entries,
            "parts": parts.split(entries, cache, folder, part_mib << 20),
        }
        parts.script(manifest, folder)
        pack.pack(folder / pack.SCRIPT)
        (folder / "README.md").write_text(content.readme(manifest), encoding="utf-8")
    size = sum(part["size"] for part in manifest["parts"])
    console.result(f"bundle  {place}")
    console.result(f"parts   {len(manifest['parts'])}, {size / 1e6:.1f} MB in all")


def _fit(pinned: list[Release], has: list[Any]) -> None:
    torch = next((_version(str(r.specifier)) for r in has if r.name == "torch"), "")
    for one in pinned:
        if one.torch != torch:
            raise UsageError(
                f"{one.name} wants torch {one.torch}, and the host has {torch or 'none'}",
                "choose releases for that torch with --release; the first table of docs/results.md lists them",
            )


def _version(specifier: str) -> str:
    return specifier.removeprefix("==")


def _release(
    one: Release,
    has: list[Any],
    left_out: resolve.LeftOut,
    text: Path,
    items: dict[str, Path],
) -> dict[str, Any]:
    """Add the files of a release to ``items``, and return what the script is to know of it."""
    chosen = resolve.packages(one, has, left_out)
    wheels = resolve.download(chosen, build_dir() / "wheels")
    official = fetch.artifact(one.wheel("cuda", "x86_64"))
    patched = overlay.build(PatchedRelease(one), "cuda", "x86_64")
    folder = build_dir() / "slim" / one.name
    slimmed: dict[str, Any] = {}
    names = []
    with console.step(f"leave out what sm_{ARCH} and the lane do not need"):
        for wheel in [*wheels, official]:
            place = folder / wheel.name
            place.parent.mkdir(parents=True, exist_ok=True)
            patterns = list(left_out.files) if wheel == official else []
            said = slim.wheel(wheel, place, patterns, ARCH)
            if wheel == official:
                slimmed = {"left_out": content.folded(said.left_out), "thinned_bytes": said.thinned}
            items[f"wheels/{wheel.name}"] = place
            names.append(wheel.name)
    changes = folder / "overlay.tar"
    removed = content.overlay(official, patched, changes)
    items[f"overlay/{one.name}.tar"] = changes
    model = connected.served(one, text)
    for file in sorted(model.iterdir()):
        items[f"checkpoint/{model.name}/{file.name}"] = file
    said_release: dict[str, Any] = {
        "wheels": names,
        "overlay": f"overlay/{one.name}.tar",
        "removed": removed,
        "checkpoint": f"checkpoint/{model.name}",
        "variants": {
            "stock": {"wheel": _named(official), "key": key(one, "stock", "gpu")},
            "patched": {"wheel": _named(patched), "key": key(one, "patched", "gpu")},
        },
        "bundle": {
            **slimmed,
            "packages_left_out": sorted(left_out.packages),
            "host": [str(requirement) for requirement in has],
        },
    }
    sums = [files.sha256_file(items[f"wheels/{name}"]) for name in names] + [files.sha256_file(changes)]
    said_release["key"] = hashlib.sha256(json.dumps([said_release, sums]).encode()).hexdigest()
    return said_release


def _named(wheel: Path) -> dict[str, str]:
    return {"file": wheel.name, "sha256": files.sha256_file(wheel)}


if __name__ == "__main__":
    run_command.run(command)
