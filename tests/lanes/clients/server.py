"""``python -m clients.server``: a release's own serving code behind a socket, answering the scenarios' turns.

Runs in a process that has the release's sources on its path. Each run has a prefix of its own: ``POST /runs/NAME`` begins one,
the client then asks below ``/NAME/v1``, and ``GET /runs/NAME`` returns what was asked, said and sent.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import socket
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from clients import scenarios
from clients.agents import CLIENTS
from clients.reading import declared, history
from clients.scenarios import Call, Load, Loaded, Say, Scenario, Turn

MODELS = {"qwen3.5": "qwen3", "qwen3-coder": "none"}
"""Each model's reasoning parser."""

SURFACES = ("/v1/chat/completions", "/v1/responses", "/v1/messages")

SAME_TURN_LIMIT = 4
"""How often a turn is said, retries included, before the model gives up and says that it is done."""

KEEP_ALIVE_S = 3600

ASIDE = "A title"
"""The answer to a request without tools from a client that has some: it asks for a title or a summary."""


@dataclass
class Exchange:
    """One request of a client and what it got."""

    path: str
    request: dict[str, Any]
    turn: int | None = None
    """The scenario's turn that was said; None for a request beside it."""
    said: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0
    body: bytes = b""
    silence: int = 0
    """The most tokens that the engine said between two pieces of the response."""
    seconds: float = 0.0
    """Until the response's end, or until the client left."""


@dataclass
class Run:
    """One run of a client."""

    client: Any
    scenario: Scenario
    k: int
    model: str
    folder: Path
    rest: float
    """How long the engine rests where the scenario says so, in seconds."""
    exchanges: list[Exchange] = field(default_factory=list)
    first: int | None = None
    """Assistant turns in the history of the first request: a client may bring examples."""
    problem: str = ""

    def next_turn(self, before: int) -> int:
        """The turn for a request with so many assistant's turns in its history.

        If a turn is cut, some clients ask again and others go on: what counts then is
        how often they have asked.
        """
        if self.scenario.is_cut:
            at = sum(e.turn is not None for e in self.exchanges)
        else:
            self.first = before if self.first is None else self.first
            at = max(0, before - self.first)
        return min(at, len(self.scenario.turns) - 1)


class Scripted:
    """ASGI application: finds the run of a request, sets the engine's script, and writes down what passes."""

    def __init__(self, app: Any, json_calls: bool) -> None:
        from conformance import tokens

        self.app, self.json_calls = app, json_calls
        self.runs: dict[str, Run] = {}
        self.tokenizer = tokens.load()
        self.eos = self.tokenizer.token_to_id(tokens.EOS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        _, first, *rest = scope["path"].split("/")
        if first == "runs" and rest:
            await self._control(scope["method"], rest[0], await _body(receive), send)
            return
        run = self.runs.get(first)
        if run is None:
            await _answer(
                send,
                404,
                {"error": f"no run {first!r}: the client asks beside its own address"},
            )
            return
        path = "/" + "/".join(rest)
        scope = {**scope, "path": path, "raw_path": path.encode()}
        app = self.app
        if scope["method"] != "POST" or path not in SURFACES:
            await app(scope, receive, send)
            return
        from conformance.host.engine import SCRIPT

        body = await _body(receive)
        exchange = Exchange(path, json.loads(body))
        run.exchanges.append(exchange)
        try:
            self._script(run, exchange)
        except ScenarioError as error:
            run.problem = str(error)
            exchange.status, exchange.body = 500, run.problem.encode()
            await _answer(send, 500, {"error": {"message": run.problem}})
            return
        given = [False]

        async def again() -> Any:
            if given[0]:
                return await receive()
            given[0] = True
            return {"type": "http.request", "body": body, "more_body": False}

        script, heard = SCRIPT.get(), 0

        async def noted(message: Any) -> None:
            nonlocal heard
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
            elif message["type"] == "http.response.body" and message.get("body"):
                exchange.body += message["body"]
                exchange.silence = max(exchange.silence, script.said - heard)
                heard = script.said
            await send(message)

        began = time.monotonic()
        await app(scope, again, noted)
        exchange.seconds = round(time.monotonic() - began, 1)

    async def _control(self, method: str, name: str, body: bytes, send: Any) -> None:
        """Begin, look at, or end a run."""
        if method == "POST":
            told = json.loads(body)
            scenario = {**scenarios.ALL, **scenarios.SILENCE}[told["scenario"]]
            self.runs[name] = Run(
                CLIENTS[told["client"]],
                scenario,
                told["k"],
                told["model"],
                Path(told["folder"]),
                told["rest"],
            )
            await _answer(send, 200, {})
        elif method == "GET":
            run = self.runs[name]
            await _answer(
                send,
                200,
                {
                    "problem": run.problem,
                    "exchanges": [
                        {**vars(e), "body": e.body.decode("utf-8", "replace")}
                        for e in run.exchanges
                    ],
                },
            )
        else:
            self.runs.pop(name, None)
            await _answer(send, 200, {})

    def _script(self, run: Run, exchange: Exchange) -> None:
        """What the model says to a request."""
        from conformance import schedule, tokens
        from conformance.host.engine import SCRIPT
        from conformance.host.judge import Judge

        tools = declared(exchange.path, exchange.request)
        thinks = MODELS[run.model] != "none"
        turn, calls = Turn((Say(ASIDE),)), list[Call]()
        if tools or not run.client.uses_tools:
            before = len(history(exchange.path, exchange.request))
            exchange.turn = run.next_turn(before)
            scenario = run.client.scenario(run.scenario, run.folder)
            if sum(e.turn == exchange.turn for e in run.exchanges) > SAME_TURN_LIMIT:
                # A client that takes an answer for a call asks for ever.
                exchange.turn = None
                turn = run.client.turn(replace(scenario, turns=(scenarios.DONE,)), 0)
            else:
                turn = run.client.turn(scenario, exchange.turn)
            calls = _calls(run, turn, tools)
            exchange.calls = [{"name": c.name, "arguments": c.arguments} for c in calls]
        text = scenarios.render(turn, calls, thinks=thinks)
        if (
            exchange.request.get("tool_choice") == "required"
            and self.json_calls
            and calls
        ):
            # The grammar holds from the end of the reasoning on.
            text = scenarios.render(replace(turn, parts=()), [], thinks=thinks)
            required = [{"name": c.name, "parameters": c.arguments} for c in calls]
            text += json.dumps(required)
        if turn.cut:
            if turn.cut not in text:
                raise ScenarioError(
                    f"{turn.cut!r} is not in what it says: {text[-200:]}"
                )
            text = text[: text.index(turn.cut) + len(turn.cut)]
        exchange.said = text
        ids = tokens.encode(self.tokenizer, text)
        texts = tokens.deltas(self.tokenizer, ids)
        stop = turn.cut if turn.end == "stop" else None
        if stop:
            # Its tokens are part of the output, its text is not.
            shown = len(text) - len(stop)
            texts = [_upto(texts, i, shown) for i in range(len(texts))]
        elif turn.end == "eos":
            ids, texts = [*ids, self.eos], [*texts, ""]
        name = f"mtp{run.k}#{run.scenario.name}/{exchange.turn}" if run.k else "w1"
        widths = schedule.named(name, len(ids)).widths
        end = "length" if turn.end == "length" else "stop"
        script = Judge.script(ids, texts, widths, end)
        script.stop = stop
        if turn.rest_at and exchange.turn is not None:
            bursts = [burst for burst, _ in script.bursts]
            told = itertools.accumulate(bursts)
            behind = next(i for i, said in enumerate(told) if turn.rest_at in said)
            script.rest = behind + 1, run.rest
        SCRIPT.set(script)


class ScenarioError(Exception):
    """A turn that cannot be said to this client."""


def _upto(texts: list[str], at: int, limit: int) -> str:
    """What of a token's text stands before a place in the whole text."""
    return texts[at][: max(0, limit - sum(map(len, texts[:at])))]


def _calls(run: Run, turn: Turn, tools: dict[str, Any]) -> list[Call]:
    """The calls of a turn. A client's own tools must be those that its request declares."""
    calls = []
    for part in turn.parts:
        if isinstance(part, (Say, Load, Loaded)):
            continue
        call = run.client.call(part, run.folder)
        if call.name not in tools and not isinstance(part, Call):
            raise ScenarioError(
                f"the request declares no tool {call.name!r}; it declares "
                f"{', '.join(sorted(tools))}: see the client in tests/lanes/clients/agents/"
            )
        calls.append(call)
    return calls


async def _body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    return body


async def _answer(send: Any, status: int, document: Any) -> None:
    body = json.dumps(document).encode()
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def serve(template: Path) -> None:
    """Serve until killed; says where on standard output."""
    import uvicorn
    import vllm

    from conformance import tokens
    from conformance.host.engine import build, constrains_to_json

    folder = str(tokens.model_folder())
    app = await build(folder, MODELS[template.stem], ["--chat-template", str(template)])
    scripted = Scripted(app, constrains_to_json())
    gc.collect()
    gc.freeze()
    listening = socket.create_server(("127.0.0.1", 0))
    # A busy client may wait longer between two requests than uvicorn's 5 s, and then meet a closed connection.
    config = uvicorn.Config(
        scripted, log_level="warning", lifespan="off", timeout_keep_alive=KEEP_ALIVE_S
    )
    server = uvicorn.Server(config)
    print(
        json.dumps(
            {
                "url": f"http://127.0.0.1:{listening.getsockname()[1]}",
                "vllm": vllm.__version__,
            }
        ),
        flush=True,
    )
    await server.serve(sockets=[listening])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="clients.server")
    parser.add_argument(
        "--template",
        type=Path,
        required=True,
        help="MODEL.jinja, the chat template of a model",
    )
    asyncio.run(serve(parser.parse_args().template))


if __name__ == "__main__":
    main()
