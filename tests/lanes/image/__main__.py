# SPDX-License-Identifier: Apache-2.0
"""``python -m image IMAGE``: whether an image does what it is for, seen from inside."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from image import container
from patchset import console, run_command
from patchset.errors import PatchsetError
from patchset.image import labels
from patchset.image.thin import DOCTOR
from server import asking, build_dir, vllm_serve
from server import model as small
from server.questions import questions

_HERE = Path(__file__).parent
#: Drafted tokens.
_MTP = 3
#: Imports the patched modules, as a server does; that needs no GPU.
_IMPORTS = """
import importlib.metadata, json, re, vllm
notes = importlib.metadata.distribution("vllm").read_text("patchset.json")
files = json.loads(notes)["files"].items()
paths = [path for path, sums in files if sums["patched"] and path.endswith(".py")]
for path in paths:
    importlib.import_module(re.sub(r"(/__init__)?\\.py$", "", path).replace("/", "."))
print(len(paths), vllm.__version__)
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("image")
def command(image: str) -> None:
    """Look at IMAGE from inside: its files, the doctor's findings, a server's answers.

    A CPU image serves the small model with MTP, and every question is asked on
    every surface. A CUDA image is looked at as far as that goes without a GPU.
    """
    with container.started(image) as name:
        said = container.labels(name)
        target = said.get(labels.TARGET)
        if target not in ("cuda", "cpu"):
            raise PatchsetError(f"{image} has no patches, by its labels")
        build_dir().mkdir(parents=True, exist_ok=True)
        _doctor(name)
        _imports(name)
        if labels.ROOTFS_SHA256 in said:  # built here, not on an official image
            _facts(name, said)
            _compilers(name, target)
        if target == "cpu":
            _serve(name)
    console.result(f"{image}: all checks passed")


def _doctor(name: str) -> None:
    said = container.run(name, "the doctor finds something wrong", DOCTOR)
    console.result(*(f"  {line}" for line in said.splitlines()))


def _imports(name: str) -> None:
    wrong = "the patched modules cannot be imported"
    count, version = container.run(name, wrong, "python3", "-c", _IMPORTS).split()[-2:]
    console.result(f"  ok    import: vLLM {version}, {count} patched modules")


def _facts(name: str, said: dict[str, str]) -> None:
    script = container.inside(_HERE / "facts.py")
    output = container.run(name, "facts.py does not run", "python3", script)
    facts: dict[str, Any] = json.loads(output.splitlines()[-1])
    wanted = {
        "version": said[labels.VERSION],
        "uid": 2000,
        "home": "/home/vllm",
        "home_writable": True,
        "venv_writable": False,
        # A replaced .py never runs as the old one, whatever its time (PEP 552).
        "bytecode_flags": [3],
        "left": [],
        "privileged": [],
    }
    wrong = [fact for fact, value in wanted.items() if facts[fact] != value]
    console.result(*(f"  WRONG {f}: {facts[f]}, not {wanted[f]}" for f in wrong))
    if wrong:
        raise PatchsetError(f"{len(wrong)} things in the image are wrong")
    console.result(f"  ok    facts: {', '.join(wanted)}")


def _compilers(name: str, target: str) -> None:
    wrong = "the image cannot compile at run time"
    container.run(name, wrong, "sh", container.inside(_HERE / "compile.sh"), target)
    console.result("  ok    compilers: C, C++" + (", CUDA" if target == "cuda" else ""))


def _serve(name: str) -> None:
    folder = build_dir() / "runs" / "image"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # the server's user, who is not root, writes the tap there
    serving = vllm_serve.on_cpu(str(container.vllm(name, folder)))
    serving.variables["PYTHONPATH"] = container.inside(vllm_serve.SITE)
    tap = container.inside(vllm_serve.tap(folder, _MTP))
    serving.variables["SERVER_LANE_TAP"] = tap
    model = small.checkpoint()
    for path in (model, *model.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    there = container.inside(model)
    with (
        console.step(f"serve with {_MTP} drafted tokens"),
        vllm_serve.running(serving, there, _MTP, folder) as running,
    ):
        asyncio.run(_ask(running, model))


async def _ask(running: vllm_serve.Server, model: Path) -> None:
    async with asking.client(running.url) as client:
        answers = await asking.ask(running, client, questions(model))
    verdicts = asking.verdicts(answers)
    wrong = [verdict for verdict in verdicts if verdict["kind"] != "right"]
    accepted = " ".join(f"{share:.0%}" for share in running.accepted())
    console.result(
        f"  {'WRONG' if wrong else 'ok   '} answers: {len(verdicts) - len(wrong)} of "
        f"{len(verdicts)} right, accepted by position: {accepted}"
    )
    if wrong:
        first = "; ".join(f"{fault['kind']}: {fault['what']}" for fault in wrong[:5])
        raise PatchsetError(f"{len(wrong)} answers are wrong: {first}")


run_command.run(command)
