# SPDX-License-Identifier: Apache-2.0
"""``python -m server.tryout``: the same question to a stock and a patched server."""

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import httpx

from conformance import check
from conformance.surfaces import chat
from patchset import console, files, release, run_command
from patchset.errors import PatchsetError
from patchset.series.apply import PatchedRelease, patched_tree
from server import build, build_dir, environment, overlay, vllm_serve
from server import model as small
from server.questions import Question, taught, ways

#: A file that documents a tag of the format; in stock its content is cut there.
CASE = "examples/01-function-end-in-value/closed"


def question() -> Question:
    known = next(each for each in taught() if each[0] == CASE)
    return next(each for each in ways(*known, limit=200) if not each.streamed)


@contextlib.contextmanager
def served(python: Path, mtp: int, kind: str) -> Iterator[vllm_serve.Server]:
    """Serve the small model with ``mtp`` drafted tokens; ``kind``: stock or patched."""
    pinned = release.load(small.RELEASE)
    with files.scratch(build_dir()) as tree:
        (installed,) = python.parents[1].glob("lib/python*/site-packages/vllm")
        patched = patched_tree(pinned) if kind == "patched" else None
        overlay.make(tree, installed, build.sums(PatchedRelease(pinned)), patched)
        overlay.name_it_cpu(tree, pinned.version)
        serving = vllm_serve.on_cpu(str(python), "-m", vllm_serve.VLLM, path=str(tree))
        folder = build_dir() / "runs/try" / kind
        with (
            console.step(f"{kind} {pinned.name}, {mtp} drafted tokens"),
            vllm_serve.running(serving, small.checkpoint(), mtp, folder) as running,
        ):
            yield running


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--mtp",
    type=click.IntRange(0, 5),
    default=3,
    show_default=True,
    help="Drafted tokens k.",
)
@click.option("--serve", is_flag=True, help="Leave the patched server running.")
def command(mtp: int, serve: bool) -> None:
    """Ask a stock and a patched server on the CPU for the same tool call.

    The small Qwen3.5 model is taught about a hundred answers: it knows those, and
    nothing else.
    """
    python = environment.environment(release.load(small.RELEASE))
    asked = question()
    with served(python, mtp, "stock") as running:
        stock = ask(running, asked)
    with served(python, mtp, "patched") as running:
        patched = ask(running, asked)
        console.result("", "The model writes:", asked.run.output, "")
        lost, wrong = faults(stock), faults(patched)
        told = (("stock", stock, lost), ("patched", patched, wrong))
        for kind, answer, why in told:
            got = chat.read_full(answer)
            calls = [f"{call.name} {call.text}" for call in got.calls]
            verdict = f"WRONG: {why[0]}" if why else "right"
            console.result(f"An agent receives from {kind}:", *calls, f"  {verdict}")
        if wrong:
            raise PatchsetError(
                f"the patched server did not deliver the call: {wrong[0]}",
                f"its log is {running.log}",
            )
        verdict = "the patches deliver it whole"
        verdict = f"stock loses it, {verdict}" if lost else f"{verdict}; so does stock"
        console.result("", f"verdict: {verdict}")
        if serve:
            wait(running, asked)


def ask(running: vllm_serve.Server, asked: Question) -> bytes:
    url = running.url + chat.PATH
    return httpx.post(url, json=asked.body(), timeout=300).raise_for_status().content


def wait(running: vllm_serve.Server, asked: Question) -> None:
    command = [
        *("curl", running.url + chat.PATH),
        *("--header", "Content-Type: application/json"),
        *("--data", json.dumps(asked.body())),
    ]
    probe = f"python3 tests/lanes/server/probe.py {running.url}"
    console.result("", "It serves until Ctrl-C. Ask it:", shlex.join(command), probe)
    with contextlib.suppress(KeyboardInterrupt):
        running.process.wait()


def faults(answer: bytes) -> list[str]:
    """Return what is wrong with a chat completion that answers the question."""
    wanted = question().run.expected
    return [why for _, why in check.problems(chat.read_full(answer), wanted)]


if __name__ == "__main__":
    run_command.run(command)
