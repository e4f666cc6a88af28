"""smolagents' ToolCallingAgent over chat completions: tool calls are required, the answer is a call to ``final_answer``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Library, write_file
from clients.scenarios import Call, Say, Scenario, Turn, Write


class Smolagents(Library):
    """It requires a call in every turn, the answer included, and sends its history as text.

    A required call is made by a grammar that permits calls of declared tools and nothing else: a real model could not say
    an undeclared name here, or text beside a call.
    """

    echoes = False

    def plays(self, scenario: str) -> bool:
        """No undeclared name."""
        return scenario != "undeclared" and super().plays(scenario)

    def scenario(self, scenario: Scenario, folder: Path) -> Scenario:
        """A long file has only 100 lines: at each delta the client adds up all that it has got so far."""
        filled = super().scenario(scenario, folder)
        if filled.name != "long":
            return filled
        (name, content), *_ = filled.files.items()
        short = "".join(content.splitlines(keepends=True)[:100])
        return replace(filled, turns=(Turn((Write(name, short),)), *filled.turns[1:]), files={name: short})

    def turn(self, scenario: Scenario, number: int) -> Turn:
        """Calls without text; the last turn says its text as the argument of ``final_answer``."""
        turn = scenario.turns[number]
        if number < len(scenario.turns) - 1:
            return replace(turn, parts=tuple(part for part in turn.parts if not isinstance(part, Say)))
        text = "".join(part.text for part in turn.parts if isinstance(part, Say))
        return Turn((Call("final_answer", {"answer": text}),), turn.thought)


def ask(run: dict[str, Any]) -> str:
    """One run."""
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool
    from smolagents.monitoring import LogLevel

    model = OpenAIServerModel(
        MODEL, api_base=run["url"] + "/v1", api_key=KEY, client_kwargs={"max_retries": 0}
    )
    agent = ToolCallingAgent(
        [tool(write_file)], model, max_steps=40, stream_outputs=True, verbosity_level=LogLevel.OFF
    )
    return str(agent.run(PROMPT))


CLIENT = Smolagents("smolagents", ("chat",), ask)
