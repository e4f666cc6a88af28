# SPDX-License-Identifier: Apache-2.0
"""``python -m history.worker JOBS``: replies through a tree's serving code, into the
next prompt. Prints what the model was shown of them.
"""

import asyncio
import functools
import json
import logging
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from conformance import case as cases
from conformance import tokens
from conformance.case import STARTS, Case, Run
from conformance.host import engine
from conformance.surfaces import surfaces
from history import BLOCKS, SURFACES, TURNS
from history.clients import CLIENTS, QUESTION, RESULT, again

Body = dict[str, Any]
#: Names that are kept of each cause.
EXAMPLES = 4
ANSWER = "That part is done: a thought ends with `</think>`."


class Refused(Exception):
    """A request was not answered, or its reply is none."""


class Server(engine.Server):
    """A tree's application with one chat template."""

    def __init__(self, runner: asyncio.Runner, template: Path, thinks: bool) -> None:
        self.template, self.thinks = template.read_text(encoding="utf-8"), thinks
        options = ["--chat-template", str(template)]
        super().__init__(runner, "qwen3" if thinks else "none", options)

    def ask(self, surface: str, body: Body, output: str) -> tuple[Body, list[int]]:
        """Return a reply that is not streamed, and its prompt's token ids.

        Raises:
            Refused: there is no such reply.
        """
        answer, said = self.said(surfaces()[surface].PATH, body, output)
        if answer.status_code != 200 or said.prompt is None:
            raise Refused(answer.text[:200])
        reply: Body = answer.json()
        return reply, said.prompt

    def body(self, surface: str, case: Case, start: str) -> Body:
        state = STARTS[start]
        way = surfaces()[surface]
        body: Body = way.request(case, state, stream=False, model=engine.MODEL)
        thinking = {"enable_thinking": state.prompt == "open"}
        return {**body, "chat_template_kwargs": thinking} if self.thinks else body

    def starts(self, case: Case) -> list[str]:
        """Return the starts of a case that the template has, each kind once."""
        kinds = (("thought", "open"), ("closed",)) if self.thinks else (("plain",),)
        of_kinds = ([s for s in kind if s in case.starts] for kind in kinds)
        return [names[0] for names in of_kinds if names]

    def reach(self, case: Case, run: Run) -> int:
        """Return how much of an output, in characters, the template itself writes
        again, given the message that was meant and what follows it.
        """
        body = self.body("chat", case, run.start.name)
        want = run.expected
        calls = [
            {
                "id": str(n),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for n, call in enumerate(want.calls)
        ]
        said: dict[str, Any] = {
            "role": "assistant",
            "content": want.content or "",
            "tool_calls": calls,
        }
        if want.reasoning:
            said |= dict.fromkeys(("reasoning", "reasoning_content"), want.reasoning)
        results: list[Any] = [
            {"role": "tool", "tool_call_id": call["id"], "content": RESULT}
            for call in calls
        ]
        prompt, shown = (
            _wrapped().apply_chat_template(
                [*body["messages"], *behind],
                tools=body.get("tools"),
                chat_template=self.template,
                tokenize=False,
                add_generation_prompt=True,
                **body.get("chat_template_kwargs", {}),
            )
            for behind in ([], [said, *(results or [QUESTION])])
        )
        return _common(prompt + run.output + tokens.EOS, shown) - len(prompt)


@functools.cache
def _wrapped() -> Any:
    """Return the tokenizer as a release holds it, which renders templates."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(tokens.model_folder()))


def _text(ids: list[int]) -> str:
    return str(tokens.load().decode(ids, skip_special_tokens=False))


def _common(first: Any, second: Any) -> int:
    same = (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(same, min(len(first), len(second)))


def what(prompt: str, written: str, shown: str) -> str:
    """Return what the model is shown otherwise, by where it begins.

    Args:
        prompt: What the model saw before it wrote.
        written: That, and what it wrote.
        shown: The next prompt.
    """
    at = _common(written, shown)
    if at < len(prompt):
        return "an earlier thought is left out"
    mine, other = written[at:].split(), shown[at:].split()
    if mine[:2] == other[:2]:
        return "white space"
    said = written[len(prompt) : at]
    if prompt.endswith("<think>\n") and "</think>" not in said:
        return "a thought"
    if said.rfind("<parameter=") > said.rfind("</parameter>"):
        return "a value"
    if said.rfind("<tool_call>") > said.rfind("</tool_call>") or mine[0].startswith(
        ("<tool_call>", "<function=")
    ):
        return "a call's tags or order"
    return "text"


def causes(server: Server, surface: str, case: Case, start: str) -> dict[str, str]:
    """Return, by client, whose doing it is that a reply is shown otherwise, and what
    is; empty if it is shown as it was written.
    """
    run, body = case.run(start), server.body(surface, case, start)
    try:
        reply, ids = server.ask(surface, body, run.output)
    except Refused:
        return dict.fromkeys(CLIENTS, "server: the reply is refused")
    prompt = _text(ids)
    written = prompt + run.output + tokens.EOS
    found: dict[str, str] = {}
    asked, reached = dict[str, Body](), dict[str, int]()
    for client in CLIENTS:
        follows = again(surface, body, reply, client)
        if same := [one for one, other in asked.items() if other == follows]:
            found[client] = found[same[0]]
            continue
        asked[client] = follows
        try:
            _, after = server.ask(surface, follows, "yes")
        except Refused:
            found[client] = "server: the history is refused"
            continue
        shown = _text(after)
        reached[client] = at = _common(written, shown)
        if at == len(written):
            found[client] = ""
            continue
        who = "client" if reached.get(CLIENTS[0], at) > at else "server"
        if server.reach(case, run) <= at - len(prompt):
            who = "template"
        found[client] = f"{who}: {what(prompt, written, shown)}"
    return found


def replies(server: Server, every: list[Case], surface: str) -> dict[str, Body]:
    """Return, by client, how many replies are shown otherwise, by cause."""
    names = {client: defaultdict[str, list[str]](list) for client in CLIENTS}
    asked = [(case, start) for case in every for start in server.starts(case)]
    for case, start in asked:
        for client, cause in causes(server, surface, case, start).items():
            names[client][cause].append(f"{case.name}/{start}")
    return {
        client: {
            "replies": len(asked),
            "causes": {cause: len(each) for cause, each in mine.items() if cause},
            "examples": {cause: each[:EXAMPLES] for cause, each in mine.items()},
        }
        for client, mine in names.items()
    }


def session(server: Server, every: list[Case], surface: str, client: str) -> Body:
    """Return the tokens of a session's prompts, and those that a prefix cache loses:
    by blocks, where what the model wrote is shown otherwise, and what blocks cost.

    A prompt may find all that was computed before, up to its last token, in whole
    blocks.
    """
    start = "thought" if server.thinks else "plain"
    tools = tuple(each for case in every for each in case.tools)
    first = every[0].model_copy(update={"name": "session", "tools": tools})
    body = server.body(surface, first, start)
    computed: list[list[int]] = []
    prompts, lost, rounding = 0, Counter[int](), Counter[int]()
    for turn, case in enumerate(every, 1):
        output = case.output if turn % 10 else ANSWER
        if start == "thought":
            output = f"{cases.THOUGHT}</think>{cases.THOUGHT_GAP}{output}"
        reply, ids = server.ask(surface, body, output)
        if computed:
            before = computed[-1]
            best = max(_common(one, ids) for one in computed)
            for block in BLOCKS:
                hit = min(best, len(ids) - 1) // block * block
                whole = min(len(before), len(ids) - 1) // block * block
                lost[block] += max(0, whole - hit)
                rounding[block] += len(before) - whole
            prompts += len(ids)
        computed.append([*ids, *tokens.ended(output)])
        body = again(surface, body, reply, client)
    by_block = {str(block): [lost[block], rounding[block]] for block in BLOCKS}
    return {"prompts": prompts, "lost": by_block}


def main(path: str) -> None:
    jobs = json.loads(Path(path).read_text(encoding="utf-8"))
    every = [cases.parse(document, name) for name, document in jobs["cases"]]
    turns = [cases.parse(document, name) for name, document in jobs["session"]]
    assert len(turns) == TURNS
    runner = asyncio.Runner()
    found: dict[str, Body] = {}
    for name, (template, thinks) in jobs["templates"].items():
        server = Server(runner, Path(template), thinks)
        for surface in SURFACES:
            mine = [c for c in every if surface in c.request or not c.request]
            by_client = replies(server, mine, surface)
            for client in CLIENTS:
                try:
                    said = session(server, turns, surface, client)
                except (Refused, KeyError) as error:
                    said = {"refused": str(error)[:200]}
                by_client[client]["session"] = said
            found[f"{name}/{surface}"] = by_client
            print(name, surface, file=sys.stderr, flush=True)
    print(json.dumps(found, ensure_ascii=False))
    sys.stdout.flush()
    os._exit(0)  # a release leaves threads that would keep the process


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main(*sys.argv[1:])
