# SPDX-License-Identifier: Apache-2.0
"""``python -m gpu``: the gpu lane on a host with a package index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from cpu import checkpoints, environment, table
from cpu.__main__ import mtp_range
from gpu import build_dir, cells, composite, device, lane, pace, real, tool_eval
from gpu.prepared import Prepared, Variant
from patchset import console, files, release, run_command
from patchset.errors import PatchsetError
from patchset.inputs import fetch
from patchset.options import from_dir_option
from patchset.release import Release
from patchset.series.patched_release import PatchedRelease
from patchset.wheel import overlay

#: The release whose CPU environment teaches the small model its transcripts.
TEACHER = "v0.32.0"
#: From here on a text-only Qwen3.5 is known; before, the model is served in its composite form.
_TEXT_ONLY = (0, 32)


def checkpoint() -> Path:
    """The cpu lane's checkpoint; trained (some minutes) when there is none yet."""
    from cpu import wheels

    teacher = release.load(TEACHER)
    return checkpoints.checkpoint(environment.base(teacher, wheels.stock(teacher)))


def served(pinned: Release, text: Path) -> Path:
    """The form of the checkpoint ``text`` that a release serves."""
    if tuple(int(part) for part in pinned.version.split(".")[:2]) >= _TEXT_ONLY:
        return text
    place = build_dir() / "checkpoints" / f"{text.name}-composite"
    with files.lock(place):
        if not place.is_dir():
            with files.atomic_folder(place) as folder:
                composite.write(text, folder)
    return place


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--release", "name", help="The release to test.  [default: the default release]"
)
@click.option(
    "--model",
    help="Real weights, a folder or a hub name; without, the cpu lane's small model.",
)
@click.option("--revision", help="Of a hub's model: branch, tag or commit.")
@click.option(
    "--mtp",
    default="0-5",
    show_default=True,
    help="Numbers of drafted tokens k, up to 15: 0-5, 3, or 0,7,15.",
)
@click.option(
    "--cells",
    "names",
    default=",".join(cells.CELLS),
    show_default=True,
    help="Ways to start it.",
)
@click.option(
    "--stock",
    is_flag=True,
    help="Test the official wheel as well, beside the patched one.",
)
@click.option(
    "--patched/--no-patched",
    default=True,
    show_default=True,
    help="Test the release's series.",
)
@click.option(
    "--tensor-parallel", default=1, show_default=True, help="GPUs of one server."
)
@click.option(
    "--servers",
    default=1,
    show_default=True,
    help="Servers at a time (small model only).",
)
@click.option("--seconds", type=float, help="Stop after so long; the next run goes on.")
@click.option(
    "--soak",
    default=0,
    show_default=True,
    help="Requests of a soak in each cell; 0: none.",
)
@click.option(
    "--max-model-len",
    type=int,
    default=32768,
    show_default=True,
    help="Of real weights.",
)
@click.option(
    "--vllm-arg",
    "extra",
    multiple=True,
    help="One more word for 'vllm serve'; may be repeated.",
)
@from_dir_option
@click.option(
    "--import",
    "imported",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run nothing: keep the results in the results.json of another machine.",
)
@click.option(
    "--results",
    is_flag=True,
    help="Keep the totals in results/gpu, for docs/results.md.",
)
def command(**given: Any) -> None:
    """Serve with MTP on the GPU, and judge every answer. Fails in one line where no GPU is visible.

    The small model's answers are known byte for byte. Real weights are held against themselves: streamed and not,
    with k drafted tokens and with none, and each call against its tool's schema.
    """
    if given["imported"]:
        keep(json.loads(given["imported"].read_text(encoding="utf-8")))
        return
    found = device.visible()
    if given["tensor_parallel"] > found:
        raise PatchsetError(f"{found} GPUs are visible, not {given['tensor_parallel']}")
    pinned = release.load(given["name"])
    jobs = cells.plan(
        cells.chosen(given["names"]),
        ["patched"] * given["patched"] + ["stock"] * given["stock"],
        mtp_range(given["mtp"]),
        control_first=given["model"] is not None,
    )
    prepared = _prepared(pinned, given)
    out = (
        build_dir()
        / "runs"
        / ("small" if prepared.checkpoint else _plain(given["model"]))
    )
    whole = out / f"prepared-{pinned.name}.json"
    prepared.save(whole)
    servers = (
        given["servers"] if prepared.checkpoint else 1
    )  # real weights want the GPU, and k = 0 first
    outcome = lane.run(
        prepared,
        jobs,
        out,
        lane.worker(whole, out),
        servers=servers,
        seconds=given["seconds"],
    )
    console.result(f"results in {out / 'cells'}")
    if given["results"]:
        keep(outcome.results)
    if outcome.left:
        raise PatchsetError(
            f"{len(outcome.left)} cells are left", "run it again to go on"
        )
    if bad := outcome.bad():
        raise PatchsetError(f"the lane failed: {', '.join(bad)}", f"read {out}")


def _prepared(pinned: Release, given: dict[str, Any]) -> Prepared:
    """Install the wheels, and make or find the model."""
    variants = {}
    installed = None
    text = None if given["model"] else served(pinned, checkpoint())
    for variant in ("patched", "stock"):
        if not given[variant]:
            continue
        wheel = _wheel(pinned, variant)
        installed = environment.cuda(pinned, wheel, variant)
        named = {"file": wheel.name, "sha256": files.sha256_file(wheel)}
        variants[variant] = Variant(str(installed.folder), named)
    if installed is None:
        raise PatchsetError("neither the patched nor the stock wheel is to be tested")
    arguments = [*given["extra"]]
    if given["tensor_parallel"] > 1:
        arguments += ["--tensor-parallel-size", str(given["tensor_parallel"])]
    if given["revision"]:
        arguments += ["--revision", given["revision"]]
    return Prepared(
        release=pinned.name,
        variants=variants,
        checkpoint=str(text) if text else None,
        model=given["model"],
        revision=_revision(given["model"], given["revision"]),
        arguments=arguments,
        variables={} if text else {"HF_HUB_OFFLINE": "0"},
        gpu=device.described(installed.python),
        soak=given["soak"],
        max_model_len=given["max_model_len"],
    )


def _wheel(pinned: Release, variant: str) -> Path:
    """The wheel of a variant."""
    if variant == "stock":
        return fetch.artifact(pinned.wheel("cuda", "x86_64"))
    return overlay.build(PatchedRelease(pinned), "cuda", "x86_64")


def _revision(model: str | None, asked: str | None) -> str | None:
    """What names the weights: of a folder a hash over its configuration, of a hub's model its commit."""
    if model is None:
        return None
    if Path(model).is_dir():
        return real.revision(Path(model))
    from huggingface_hub import HfApi

    found: str | None = HfApi().model_info(model, revision=asked).sha
    return found


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in text)[-60:].strip(
        "-."
    )


def keep(results: list[dict[str, Any]]) -> None:
    """Keep the totals of results.

    Raises:
        PatchsetError: one is no result of this lane.
    """
    for result in results:
        known = (
            result.get("lane") == "gpu"
            and result.get("release") in release.release_names()
        )
        if (
            not known
            or result.get("cell") not in cells.CELLS
            or result.get("variant") not in ("stock", "patched")
        ):
            raise PatchsetError(
                "the file holds something that is no result of the gpu lane"
            )
        weights = "" if result.get("checkpoint") else f"/{_plain(str(result['model']))}"
        table.keep(f"gpu{weights}", result)
    console.note(f"totals of {len(results)} results kept in results/gpu")
    for line in [*pace.compared(results), *tool_eval.compared(results)]:
        console.note(line)


if __name__ == "__main__":
    run_command.run(command)
