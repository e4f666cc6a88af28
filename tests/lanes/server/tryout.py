# SPDX-License-Identifier: Apache-2.0
"""``python -m server.tryout``: serve the small model and ask it for a tool call."""

import json
import shlex

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
    """Return a request that the model knows the answer to."""
    known = next(each for each in taught() if each[0] == CASE)
    return next(each for each in ways(*known, limit=200) if not each.streamed)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--mtp",
    type=click.IntRange(0, 5),
    default=3,
    show_default=True,
    help="Drafted tokens k.",
)
def command(mtp: int) -> None:
    """Serve a small Qwen3.5 model with MTP on the CPU, and ask it for a tool call.

    The model is taught about a hundred answers: it knows those, and nothing else.
    """
    pinned = release.load(small.RELEASE)
    python = environment.environment(pinned)
    model = small.checkpoint()
    asked = question()
    with files.scratch(build_dir()) as tree:
        sums = build.sums(PatchedRelease(pinned))
        (installed,) = python.parents[1].glob("lib/python*/site-packages/vllm")
        overlay.make(tree, installed, sums, patched_tree(pinned))
        overlay.name_it_cpu(tree, pinned.version)
        serving = vllm_serve.on_cpu(str(python), "-m", vllm_serve.VLLM, path=str(tree))
        logs = build_dir() / "runs" / "try"
        with (
            console.step(f"serve it with {mtp} drafted tokens"),
            vllm_serve.running(serving, model, mtp, logs) as running,
        ):
            url = running.url + chat.PATH
            body = asked.body()
            header = "Content-Type: application/json"
            words = ["curl", url, "--header", header, "--data", json.dumps(body)]
            console.result(f"$ {shlex.join(words)}")
            answer = httpx.post(url, json=body, timeout=300).raise_for_status()
            said = answer.json()["choices"][0]
            console.result(json.dumps(said, indent=1, ensure_ascii=False))
            if wrong := faults(answer.content):
                raise PatchsetError(
                    f"that is not the call that the model was taught: {wrong[0]}",
                    f"the server's log is {running.log}",
                )


def faults(answer: bytes) -> list[str]:
    """Return what is wrong with a chat completion that answers the question."""
    wanted = question().run.expected
    return [why for _, why in check.problems(chat.read_full(answer), wanted)]


if __name__ == "__main__":
    run_command.run(command)
