# SPDX-License-Identifier: Apache-2.0
"""``python -m cpu.tryout``: serve the lane's small model and ask it for a tool call. No GPU, no model hub."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

import click
import httpx

from cpu import build_dir, checkpoints, environment, server, transcripts, wheels
from patchset import console, release, run_command
from patchset.errors import PatchsetError

#: A file that documents a tag of the format; in stock its content is cut there.
TRANSCRIPT = "value-function-end"


def request() -> dict[str, Any]:
    """The body of a request that the model knows the answer to."""
    transcript = transcripts.load()[TRANSCRIPT]
    schemas = transcripts.tool_schemas(transcript.tools)
    return {
        "model": server.MODEL_NAME,
        "messages": [{"role": "user", "content": transcript.user}],
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": transcript.thinking},
        "tools": [
            {
                "type": "function",
                "function": {"name": name, "parameters": schemas[name]},
            }
            for name in schemas
        ],
    }


def right(answer: dict[str, Any]) -> bool:
    """Whether an answer is the call that the model was taught."""
    choice = answer["choices"][0]
    calls = [
        transcripts.Call(
            call["function"]["name"], json.loads(call["function"]["arguments"])
        )
        for call in choice["message"].get("tool_calls") or ()
    ]
    expected = transcripts.load()[TRANSCRIPT].message
    return tuple(calls) == expected.calls and choice["finish_reason"] == expected.finish


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--mtp",
    type=click.IntRange(0, 5),
    default=3,
    show_default=True,
    help="Drafted tokens k.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Leave the server up until Ctrl-C, for requests of your own.",
)
def command(mtp: int, keep: bool) -> None:
    """Serve a small model of the Qwen3.5 architecture with MTP on the CPU, and ask it for a tool call.

    The model is taught its few dozen answers here: it knows those, and nothing else.
    """
    pinned = release.load("v0.32.0")
    wheel = wheels.patched(pinned)
    base = environment.base(pinned, wheel)
    model = checkpoints.checkpoint(base)
    installed = environment.with_wheel(base, wheel)
    with (
        console.step(f"serve it with {mtp} drafted tokens"),
        server.running(installed, model, mtp, build_dir() / "runs" / "try") as running,
    ):
        url = f"{running.url}/v1/chat/completions"
        body = request()
        header = "Content-Type: application/json"
        words = ["curl", url, "--header", header, "--data", json.dumps(body)]
        console.result(f"$ {shlex.join(words)}")
        answer = httpx.post(url, json=body, timeout=300).raise_for_status().json()
        console.result(json.dumps(answer["choices"][0], indent=1, ensure_ascii=False))
        if not right(answer):
            raise PatchsetError(
                "that is not the call that the model was taught",
                f"the server's log is {running.log}",
            )
        if keep:
            console.note(f"the server stays at {running.url}; Ctrl-C ends it")
            while running.healthy():
                time.sleep(5)
            raise PatchsetError("the server ended", f"its log is {running.log}")


if __name__ == "__main__":
    run_command.run(command)
