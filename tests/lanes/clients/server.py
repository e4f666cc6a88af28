# SPDX-License-Identifier: Apache-2.0
"""``python -m clients.server TEMPLATE [proxied]``: a release's own serving code on a
socket.

It answers with the scenarios' turns. Each run has a prefix of its own: ``POST
/runs/NAME`` begins one, the client then asks below ``/NAME/v1``, and ``DELETE
/runs/NAME`` ends it and returns what was asked, said and sent.
"""

import asyncio
import gc
import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse

from clients import scenarios
from clients.agents import CLIENTS
from clients.reading import declared, history
from clients.scenarios import Call, Load, Loaded, Say, Scenario, Turn
from conformance import schedule, tokens
from conformance.host.engine import SCRIPT, Script, build, constrains_to_json
from conformance.host.judge import script
from conformance.surfaces import surfaces
from grammars.manager import Manager, Recorder

SURFACES = {surface.PATH for surface in surfaces().values()}
#: How often a turn is said, retries included, before the model says that it is done.
SAME_TURN_LIMIT = 4
#: A busy client may pause between two requests for longer than uvicorn's 5 s.
KEEP_ALIVE_S = 3600
#: The answer to a request without tools from a client that has some: it asks for a
#: title.
ASIDE = Turn((Say("A title"),))


@dataclass
class Exchange:
    path: str
    request: dict[str, Any]
    #: The scenario's turn that was said; None for a request beside it.
    turn: int | None = None
    said: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    status: int = 0
    body: bytes = b""
    #: What the model was shown.
    prompt: str = ""
    #: What the request's grammar let it say, where it admits not all.
    admitted: str | None = None

    def document(self) -> dict[str, Any]:
        return {**vars(self), "body": self.body.decode("utf-8", "replace")}


@dataclass
class Run:
    client: Any
    scenario: Scenario
    k: int
    folder: Path
    exchanges: list[Exchange] = field(default_factory=list)
    #: Assistant's turns in the history of the first request: a client may bring
    #: examples.
    first: int | None = None
    problem: str = ""

    def next_turn(self, before: int) -> int:
        """Return the turn for a request with so many assistant's turns in its history.

        If a turn is cut, some clients ask again and others go on: what counts then is
        how often they have asked.
        """
        if self.scenario.is_cut:
            at = sum(e.turn is not None for e in self.exchanges)
        else:
            self.first = before if self.first is None else self.first
            at = max(0, before - self.first)
        return min(at, len(self.scenario.turns) - 1)

    def say(self, exchange: Exchange, json_calls: bool) -> Turn:
        """Choose the turn for a request; put what it says into the exchange.

        Raises:
            ScenarioError: the client declares no tool for it.
        """
        tools = declared(exchange.path, exchange.request)
        turn, calls = ASIDE, list[Call]()
        if tools:
            before = len(history(exchange.path, exchange.request))
            exchange.turn = at = self.next_turn(before)
            scenario = self.client.scenario(self.scenario, self.folder)
            if sum(e.turn == at for e in self.exchanges) > SAME_TURN_LIMIT:
                # A client that takes an answer for a call asks for ever.
                exchange.turn, at = None, 0
                scenario = replace(scenario, turns=(scenarios.DONE,))
            turn = scenario.turns[at]
            calls = self.calls(turn, tools)
            exchange.calls = [vars(call) for call in calls]
        text = scenarios.render(turn, calls)
        if exchange.request.get("tool_choice") == "required" and json_calls and calls:
            # The grammar holds from the end of the reasoning on.
            text = scenarios.render(replace(turn, parts=()), [])
            text += json.dumps(
                [{"name": c.name, "parameters": c.arguments} for c in calls]
            )
        said, cut, _ = text.partition(turn.cut) if turn.cut else (text, "", "")
        if cut != turn.cut:
            raise ScenarioError(f"{turn.cut!r} is not in what it says: {text[-200:]}")
        exchange.said = said + cut
        return turn

    def calls(self, turn: Turn, tools: dict[str, Any]) -> list[Call]:
        """Return the calls of a turn; a client's own tools must be declared."""
        parts = [p for p in turn.parts if not isinstance(p, (Say, Load, Loaded))]
        calls = [self.client.call(part, self.folder) for part in parts]
        for part, call in zip(parts, calls, strict=True):
            if call.name not in tools and not isinstance(part, Call):
                raise ScenarioError(
                    f"the request declares no tool {call.name!r}; it declares "
                    f"{', '.join(sorted(tools))}: see the client in clients/agents/"
                )
        return calls


class ScenarioError(Exception):
    """A turn that cannot be said to this client."""


class Masks:
    """Ends what the engine says where the grammar of a request does not admit it."""

    def __init__(self, app: Any) -> None:
        recorder = Recorder(app)
        manager = Manager(recorder.config, 0)
        engine = app.state.engine_client
        generate = engine.generate
        #: By script, the token ids that were admitted.
        self.admitted: dict[int, list[int]] = {}

        def masked(*args: Any, **more: Any) -> Any:
            steps, script = generate(*args, **more), SCRIPT.get()
            request = manager.open(recorder.request)
            ids = [token for _, each in script.bursts for token in each]
            stop = manager.walk(request, ids) if request else None
            if stop:
                self.admitted[id(script)] = ids = ids[: stop.at]
                text = tokens.load().decode(ids, skip_special_tokens=False)
                script.bursts = ((text, (*ids, manager.end)),)
                script.end, script.stop = "stop", None
            return steps

        engine.generate = masked


class Scripted:
    """ASGI application: finds a request's run, and sets the engine's script."""

    def __init__(self, app: Any, proxied: bool) -> None:
        self.masks = Masks(app)
        #: A proxy asks, at the server's own address: for one run at a time.
        self.proxied = proxied
        self.app, self.json_calls = app, constrains_to_json()
        self.runs: dict[str, Run] = {}
        self.tokenizer = tokens.load()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        _, name, *rest = scope["path"].split("/")
        if name == "runs":
            told = self._control(scope["method"], rest[0], await request.body())
            return await JSONResponse(told)(scope, receive, send)
        run = self.runs.get(name)
        if self.proxied:
            if scope["method"] == "GET":
                return await self.app(scope, receive, send)
            run, rest = next(iter(self.runs.values()), None), [name, *rest]
        if run is None:
            told = {"error": f"no run {name!r}: the client asks beside its own address"}
            return await JSONResponse(told, 404)(scope, receive, send)
        path = "/" + "/".join(rest)
        scope = {**scope, "path": path, "raw_path": path.encode()}
        if scope["method"] != "POST" or path not in SURFACES:
            return await self.app(scope, receive, send)
        body = await request.body()
        exchange = Exchange(path, json.loads(body))
        run.exchanges.append(exchange)
        try:
            script = self._script(run, exchange, run.say(exchange, self.json_calls))
        except ScenarioError as error:
            run.problem = str(error)
            told = {"error": {"message": run.problem}}
            return await JSONResponse(told, 500)(scope, receive, send)
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(given, None) or await receive()

        async def noted(message: Any) -> None:
            exchange.status = message.get("status", exchange.status)
            if message.get("body"):
                exchange.body += message["body"]
            await send(message)

        SCRIPT.set(script)
        await self.app(scope, again, noted)
        exchange.prompt = self._text(script.prompt or [])
        if (admitted := self.masks.admitted.pop(id(script), None)) is not None:
            exchange.admitted = self._text(admitted)

    def _text(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    def _control(self, method: str, name: str, body: bytes) -> dict[str, Any]:
        if method == "POST":
            told = json.loads(body)
            client, scenario = CLIENTS[told["client"]], scenarios.ALL[told["scenario"]]
            self.runs[name] = Run(client, scenario, told["k"], Path(told["folder"]))
            return {}
        run = self.runs.pop(name)
        exchanges = [exchange.document() for exchange in run.exchanges]
        return {"problem": run.problem, "exchanges": exchanges}

    def _script(self, run: Run, exchange: Exchange, turn: Turn) -> Script:
        text = exchange.said
        ids = tokens.encode(self.tokenizer, text)
        texts = tokens.deltas(self.tokenizer, ids)
        stop = turn.cut if turn.end == "stop" else None
        if stop:
            # Its tokens are part of the output, its text is not.
            left = len(text) - len(stop)
            for at, piece in enumerate(texts):
                texts[at] = piece[: max(0, left)]
                left -= len(piece)
        elif turn.end == "eos":
            end = self.tokenizer.token_to_id(tokens.EOS)
            ids, texts = [*ids, end], [*texts, ""]
        name = f"mtp{run.k}#{run.scenario.name}/{exchange.turn}" if run.k else "w1"
        end = "length" if turn.end == "length" else "stop"
        return script(ids, texts, schedule.named(name, len(ids)), end, stop or "")


async def serve(template: str, *proxied: str) -> None:
    """Serve until killed; says where on standard output."""
    options = ["--chat-template", template]
    app = await build(str(tokens.model_folder()), "qwen3", options)
    scripted = Scripted(app, bool(proxied))
    gc.collect()
    gc.freeze()
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        scripted, log_level="warning", lifespan="off", timeout_keep_alive=KEEP_ALIVE_S
    )
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
