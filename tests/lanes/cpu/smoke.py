# SPDX-License-Identifier: Apache-2.0
"""``python -m cpu.smoke IMAGE``: whether an image does what it is for, seen from inside it."""

from __future__ import annotations

import asyncio
import json
import platform
from pathlib import Path

import click

from cpu import build_dir, checkpoints, checks, container, metrics, server, transcripts
from cpu.asking import Lane
from cpu.container import Container
from cpu.surfaces import common
from cpu.verdict import Answers
from patchset import console, run_command
from patchset.errors import PatchsetError
from patchset.image import engine
from patchset.image.context import DOCTOR
from patchset.image.engine import ENGINES
from patchset.release import EngineName

#: Imports modules by name, as a server does; that needs no GPU.
_IMPORTS = (
    "import importlib, sys, vllm\n"
    "for name in sys.argv[1:]: importlib.import_module(name)\n"
    "print(vllm.__version__)"
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("image")
@click.option(
    "--engine", "name", type=click.Choice(ENGINES), help="The engine; default: the first that is installed."
)
@click.option("--gpu", is_flag=True, help="Give the container the GPUs, and take none for a fault.")
@click.option("--mtp", default=3, show_default=True, help="Drafted tokens of the served model.")
@click.option("--doctor-only", is_flag=True, help="Serve nothing.")
def command(image: str, name: EngineName | None, gpu: bool, mtp: int, doctor_only: bool) -> None:
    """Look at IMAGE from inside: the doctor's findings, the patched modules, and what a server in it answers.

    A CPU image serves the cpu lane's model with MTP, and every transcript is asked on every surface. A CUDA image is
    looked at as far as that goes without its GPU.
    """
    which = engine.find(name, machine=platform.machine())
    with container.started(which, image) as found:
        target = _target(which, found.image)
        files = _doctor(found, gpu)
        _imports(found, files)
        if target == "cpu" and not doctor_only:
            _serve(found, mtp)
    console.result(f"{image}: well")


def _target(which: engine.Engine, image: str) -> str:
    labels = which.inspect(image).get("Labels") or {}
    target = labels.get("vllm-mtp-patches.target")
    if target not in ("cuda", "cpu"):
        raise PatchsetError(f"{image} does not say that it has these patches (its labels)")
    return str(target)


def _doctor(found: Container, gpu: bool) -> list[str]:
    """What the doctor says; the files that the series touches."""
    done = found.run(DOCTOR, "--json", *(["--gpu"] if gpu else []), gpu=gpu)
    try:
        said = json.loads(done.stdout)
    except ValueError as error:
        raise PatchsetError(
            f"the doctor ends with status {done.returncode}", done.stderr.strip()[-500:] or None
        ) from error
    for check in said["checks"]:
        status = check["status"].upper() if check["status"] == "wrong" else check["status"]
        console.result(f"  {status:5} {check['check']}: {check['text']}")
    if not said["healthy"]:
        raise PatchsetError("the doctor finds something wrong", "each is named above")
    return [path for path, kind in said["files"].items() if kind == "patched"]


def _imports(found: Container, files: list[str]) -> None:
    modules = [
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in files
        if path.endswith(".py")
    ]
    done = found.run("python3", "-c", _IMPORTS, *modules)
    if done.returncode:
        raise PatchsetError("the patched modules cannot be imported", done.stderr.strip()[-1500:])
    console.result(
        f"  ok    import: vLLM {done.stdout.split()[-1]} imports its {len(modules)} patched modules"
    )


def _serve(found: Container, mtp: int) -> None:
    folder = build_dir() / "runs" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # the server's user, who is not root, writes the tap there
    inside = container.environment(found, folder)
    model = checkpoints.checkpoint(inside)
    for place in (model, *model.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)
    with (
        console.step(f"serve with {mtp} drafted tokens"),
        server.running(inside, model, mtp, folder) as running,
    ):
        console.note(f"  healthy after {running.started_seconds:.0f} s")
        asyncio.run(_ask(running, model))


async def _ask(running: server.Server, model: Path) -> None:
    clients = common.clients(running.url, server.MODEL_NAME)
    lane = Lane(running, clients, transcripts.load(), Answers.load(model), None)
    async with clients.openai, clients.anthropic:
        verdicts = await checks.everywhere(lane)
    wrong = [verdict for verdict in verdicts if verdict.kind != "right"]
    drafts = metrics.drafts(running.metrics(), running.mtp)
    console.result(
        f"  {'WRONG' if wrong else 'ok   '} answers: {len(verdicts) - len(wrong)} of {len(verdicts)} right, "
        f"{drafts.acceptance:.0%} of the drafted tokens accepted"
    )
    if wrong:
        first = "; ".join(f"{verdict.kind}: {verdict.transcript}" for verdict in wrong[:5])
        raise PatchsetError(f"{len(wrong)} answers are wrong: {first}")


if __name__ == "__main__":
    run_command.run(command)
