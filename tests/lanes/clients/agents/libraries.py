# SPDX-License-Identifier: Apache-2.0
"""The clients that are Python libraries, each used as its documentation shows.

All stream where they can, and are given the three tools of ``clients.client``.
"""

import asyncio
import inspect
import json
from typing import Any

from clients.client import (
    CLOSES,
    INSTRUCTIONS,
    KEY,
    MODEL,
    PROMPT,
    STEPS,
    TOOLS,
    Client,
    Run,
)

NAMED = {tool.__name__: tool for tool in TOOLS}


def schema(tool: Any) -> dict[str, Any]:
    """Return the JSON schema of a tool, whose parameters are all required strings."""
    names = list(inspect.signature(tool).parameters)
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": names}


def openai_agents(run: Run) -> str:
    """Ask by the OpenAI Agents SDK."""
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    chat = run.surface == "chat"
    kind = agents.OpenAIChatCompletionsModel if chat else agents.OpenAIResponsesModel

    async def go() -> str:
        async with AsyncOpenAI(base_url=run.url + "/v1", api_key=KEY) as client:
            agent = agents.Agent(
                name="writer",
                instructions=INSTRUCTIONS,
                tools=[agents.function_tool(tool) for tool in TOOLS],
                model=kind(model=MODEL, openai_client=client),
            )
            result = agents.Runner.run_streamed(agent, PROMPT, max_turns=STEPS)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

    return asyncio.run(go())


def langchain(run: Run) -> str:
    """Ask by LangChain's agent with langchain-openai."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model=MODEL,
        base_url=run.url + "/v1",
        api_key=KEY,
        streaming=True,
        use_responses_api=run.surface == "responses",
    )
    agent = create_agent(model, list(TOOLS), system_prompt=INSTRUCTIONS)
    question = {"messages": [{"role": "user", "content": PROMPT}]}
    last = None
    for state in agent.stream(question, {"recursion_limit": 100}, stream_mode="values"):
        last = state["messages"][-1]
    return str(last.text) if last is not None else ""


def pydantic_ai(run: Run) -> str:
    """Ask by Pydantic AI."""
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    if run.surface == "messages":
        there = AnthropicProvider(api_key=KEY, base_url=run.url)
        model: Any = AnthropicModel(MODEL, provider=there)
    else:
        kind = OpenAIChatModel if run.surface == "chat" else OpenAIResponsesModel
        provider = OpenAIProvider(base_url=run.url + "/v1", api_key=KEY)
        model = kind(MODEL, provider=provider)

    async def go() -> str:
        agent = Agent(model, instructions=INSTRUCTIONS, tools=list(TOOLS), retries=3)
        async with agent.iter(PROMPT) as nodes:
            async for node in nodes:
                if Agent.is_model_request_node(node):
                    async with node.stream(nodes.ctx) as stream:
                        async for _ in stream:
                            pass
        return str(nodes.result.output) if nodes.result else ""

    return asyncio.run(go())


def litellm(run: Run) -> str:
    """Ask by LiteLLM's completion call, in the loop that its documentation shows."""
    import litellm

    litellm.telemetry = False
    litellm.drop_params = True
    chat = run.surface == "chat"
    declared = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": tool.__doc__,
                "parameters": schema(tool),
            },
        }
        for name, tool in NAMED.items()
    ]
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for _ in range(STEPS):
        stream = litellm.completion(
            model=f"hosted_vllm/{MODEL}" if chat else f"anthropic/{MODEL}",
            api_base=run.url + ("/v1" if chat else ""),
            api_key=KEY,
            messages=messages,
            tools=declared,
            stream=True,
            num_retries=0,
        )
        whole = litellm.stream_chunk_builder(list(stream), messages=messages)
        message = whole.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            try:
                tool = NAMED[call.function.name]
                told = tool(**json.loads(call.function.arguments))
            except (KeyError, TypeError, ValueError) as error:
                told = f"error: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
    raise RuntimeError(f"{STEPS} turns, and no end")


OPENAI, ALL = ("chat", "responses"), ("chat", "responses", "messages")

CLIENTS = (
    Client(
        "openai_agents",
        OPENAI,
        openai_agents,
        faults={
            "undeclared": "it raises ModelBehaviorError for a call of an unknown tool"
        },
    ),
    Client("langchain", OPENAI, langchain, faults=CLOSES),
    Client("pydantic_ai", ALL, pydantic_ai),
    Client(
        "litellm",
        ("chat", "messages"),
        litellm,
        faults={
            "unicode": "it ends a line of the stream at U+2028, U+2029 and U+0085 too"
        },
    ),
)
