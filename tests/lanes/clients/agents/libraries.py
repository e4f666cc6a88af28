# SPDX-License-Identifier: Apache-2.0
"""The clients that are Python libraries, each used as its documentation shows.

All stream where they can, and are given the three tools of ``clients.client``.
"""

import inspect
import json
import os
from typing import Any

from clients.client import (
    CLOSES,
    DROPS,
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
    parameters = inspect.signature(tool).parameters.values()
    properties = {parameter.name: {"type": "string"} for parameter in parameters}
    required = [p.name for p in parameters if p.default is p.empty]
    return {"type": "object", "properties": properties, "required": required}


async def openai_agents(run: Run) -> str:
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    chat = run.surface == "chat"
    kind = agents.OpenAIChatCompletionsModel if chat else agents.OpenAIResponsesModel
    async with AsyncOpenAI(base_url=run.url + "/v1", api_key=KEY) as client:
        agent = agents.Agent(
            name="writer",
            instructions=INSTRUCTIONS,
            tools=[agents.function_tool(tool) for tool in TOOLS],
            model=kind(model=MODEL, openai_client=client),
        )
        if not run.stream:
            whole = await agents.Runner.run(agent, PROMPT, max_turns=STEPS)
            return str(whole.final_output)
        result = agents.Runner.run_streamed(agent, PROMPT, max_turns=STEPS)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)


def langchain(run: Run) -> str:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model=MODEL,
        base_url=run.url + "/v1",
        api_key=KEY,
        streaming=run.stream,
        use_responses_api=run.surface == "responses",
    )
    agent = create_agent(model, list(TOOLS), system_prompt=INSTRUCTIONS)
    question = {"messages": [{"role": "user", "content": PROMPT}]}
    config = {"recursion_limit": 100}
    *_, state = agent.stream(question, config, stream_mode="values")
    return str(state["messages"][-1].text)


async def pydantic_ai(run: Run) -> str:
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
    agent = Agent(model, instructions=INSTRUCTIONS, tools=list(TOOLS), retries=3)
    async with agent.iter(PROMPT) as nodes:
        async for node in nodes:
            if run.stream and Agent.is_model_request_node(node):
                async with node.stream(nodes.ctx) as stream:
                    async for _ in stream:
                        pass
    return str(nodes.result.output) if nodes.result else ""


def litellm(run: Run) -> str:
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
        answer = litellm.completion(
            model=f"hosted_vllm/{MODEL}" if chat else f"anthropic/{MODEL}",
            api_base=run.url + ("/v1" if chat else ""),
            api_key=KEY,
            messages=messages,
            tools=declared,
            stream=run.stream,
            num_retries=0,
        )
        if run.stream:
            answer = litellm.stream_chunk_builder(list(answer), messages=messages)
        message = answer.choices[0].message
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


async def llama_index(run: Run) -> str:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(
        model=MODEL,
        api_base=run.url + "/v1",
        api_key=KEY,
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=200000,
        max_retries=0,
    )
    agent = FunctionAgent(
        tools=list(TOOLS),
        llm=model,
        system_prompt=INSTRUCTIONS,
        streaming=run.stream,
    )
    return str(await agent.run(PROMPT, max_iterations=STEPS))


async def livekit(run: Run) -> str:
    from livekit.agents import Agent, AgentSession, function_tool
    from livekit.plugins import openai

    model = openai.LLM(model=MODEL, base_url=run.url + "/v1", api_key=KEY)
    agent = Agent(
        instructions=INSTRUCTIONS, tools=[function_tool(tool) for tool in TOOLS]
    )
    async with AgentSession(llm=model, max_tool_steps=STEPS) as session:
        await session.start(agent)
        await session.run(user_input=PROMPT)
        last = session.history.items[-1]
    return str(getattr(last, "text_content", None) or "")


def qwen_agent(run: Run) -> str:
    """Ask by Qwen-Agent, which leaves the reading of calls to the server."""
    os.environ["QWEN_AGENT_MAX_LLM_CALL_PER_RUN"] = str(STEPS)
    from qwen_agent.agents import FnCallAgent
    from qwen_agent.tools.base import BaseTool

    def call(self: Any, params: Any, **_: Any) -> str:
        return str(NAMED[self.name](**self._verify_json_format_args(params)))

    def tool(name: str, function: Any) -> Any:
        declared = {"description": function.__doc__, "parameters": schema(function)}
        return type(name, (BaseTool,), {"name": name, "call": call, **declared})()

    agent = FnCallAgent(
        function_list=[tool(*each) for each in NAMED.items()],
        llm={
            "model": MODEL,
            "model_type": "oai",
            "model_server": run.url + "/v1",
            "api_key": KEY,
            "generate_cfg": {"use_raw_api": True, "max_retries": 0},
        },
        system_message=INSTRUCTIONS,
    )
    *_, messages = agent.run([{"role": "user", "content": PROMPT}])
    return str(messages[-1]["content"])


OPENAI, ALL = ("chat", "responses"), ("chat", "responses", "messages")

CLIENTS = (
    Client(
        "openai_agents",
        OPENAI,
        openai_agents,
        faults={
            "undeclared": "it raises ModelBehaviorError for a call of an unknown tool"
        },
        full=True,
    ),
    Client("langchain", OPENAI, langchain, faults=CLOSES, full=True),
    Client("pydantic_ai", ALL, pydantic_ai, full=True),
    Client(
        "litellm",
        ("chat", "messages"),
        litellm,
        faults={
            "unicode": "it ends a line of the stream at U+2028, U+2029 and U+0085 too"
        },
        full=True,
    ),
    Client(
        "llama_index",
        ("chat",),
        llama_index,
        ("python_openai2",),
        faults={
            **DROPS,
            **dict.fromkeys(("cut-write", "stop-write"), "it runs a cut call's part"),
        },
        full=True,
    ),
    Client(
        "livekit",
        ("chat",),
        livekit,
        faults=dict.fromkeys(
            ("eos-remove", "stop-write"),
            "it closes the open JSON of a cut call, unless the end is `length`",
        ),
    ),
    Client("qwen_agent", ("chat",), qwen_agent, ("python_openai2",)),
)
