"""The OpenAI Agents SDK, streamed, over chat completions or responses."""

from __future__ import annotations

import asyncio
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Library, write_file


def ask(run: dict[str, Any]) -> str:
    """One run."""
    from agents import (
        Agent,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    async def go() -> str:
        async with AsyncOpenAI(base_url=run["url"] + "/v1", api_key=KEY) as client:
            kind = OpenAIChatCompletionsModel if run["surface"] == "chat" else OpenAIResponsesModel
            agent = Agent(name="writer", instructions="You write files.", tools=[function_tool(write_file)],
                          model=kind(model=MODEL, openai_client=client))  # fmt: skip
            result = Runner.run_streamed(agent, PROMPT, max_turns=40)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

    return asyncio.run(go())


class OpenAIAgents(Library):
    """It has no answer to a call of a tool that it does not know."""

    faults = {"undeclared": "it raises ModelBehaviorError for a call of an unknown tool"}  # noqa: RUF012


CLIENT = OpenAIAgents("openai_agents", ("chat", "responses"), ask)
