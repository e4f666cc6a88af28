"""Pydantic AI, streamed, over chat completions, responses or messages."""

from __future__ import annotations

import asyncio
from typing import Any

from clients.client import KEY, MODEL, PROMPT, Library, write_file


def ask(run: dict[str, Any]) -> str:
    """One run."""
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    if run["surface"] == "messages":
        model: Any = AnthropicModel(MODEL, provider=AnthropicProvider(api_key=KEY, base_url=run["url"]))
    else:
        kind = OpenAIChatModel if run["surface"] == "chat" else OpenAIResponsesModel
        model = kind(MODEL, provider=OpenAIProvider(base_url=run["url"] + "/v1", api_key=KEY))

    async def go() -> str:
        agent = Agent(model, instructions="You write files.", tools=[write_file], retries=3)
        async with agent.iter(PROMPT) as nodes:
            async for node in nodes:
                if Agent.is_model_request_node(node):
                    async with node.stream(nodes.ctx) as stream:
                        async for _ in stream:
                            pass
        return str(nodes.result.output) if nodes.result else ""

    return asyncio.run(go())


CLIENT = Library("pydantic_ai", ("chat", "responses", "messages"), ask)
