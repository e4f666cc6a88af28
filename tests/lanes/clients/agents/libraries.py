# SPDX-License-Identifier: Apache-2.0
"""The clients that are Python libraries, each used as its documentation shows.

All stream where they can, and are given the three tools of ``clients.client``.
"""

import asyncio
import inspect
import json
import os
from dataclasses import replace
from pathlib import Path
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
    Tools,
)
from clients.scenarios import Call, Say, Scenario, Turn, Write, content

NAMED = {tool.__name__: tool for tool in TOOLS}


def schema(tool: Any) -> dict[str, Any]:
    """The JSON schema of a tool, whose parameters are all required strings."""
    names = list(inspect.signature(tool).parameters)
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": names}


def openai_agents(run: Run) -> str:
    """The OpenAI Agents SDK."""
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
    """LangChain's agent with langchain-openai."""
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
    """Pydantic AI."""
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
    """LiteLLM's own completion call, in the loop that its documentation shows."""
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


def qwen_agent(run: Run) -> str:
    """Qwen-Agent's Assistant with the server's own tool calls."""
    os.environ["QWEN_AGENT_MAX_LLM_CALL_PER_RUN"] = str(STEPS)
    from qwen_agent.agents import Assistant
    from qwen_agent.tools.base import BaseTool

    def declared(name: str) -> Any:
        def call(self: Any, params: Any, **_: Any) -> str:
            return NAMED[name](
                **(json.loads(params) if isinstance(params, str) else params)
            )

        about: dict[str, Any] = {"name": name, "description": NAMED[name].__doc__}
        about["parameters"] = schema(NAMED[name])
        return type(name, (BaseTool,), {**about, "call": call})()

    llm = {
        "model": MODEL,
        "model_type": "oai",
        "model_server": run.url + "/v1",
        "api_key": KEY,
        "generate_cfg": {"use_raw_api": True, "max_retries": 0},
    }
    agent = Assistant(
        llm=llm,
        function_list=[declared(name) for name in NAMED],
        system_message=INSTRUCTIONS,
    )
    last: list[Any] = []
    for messages in agent.run([{"role": "user", "content": PROMPT}]):
        last = messages
    return str(last[-1]["content"]) if last else ""


def smolagents(run: Run) -> str:
    """smolagents' ToolCallingAgent."""
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool
    from smolagents.monitoring import LogLevel

    model = OpenAIServerModel(
        MODEL,
        api_base=run.url + "/v1",
        api_key=KEY,
        client_kwargs={"max_retries": 0},
    )
    agent = ToolCallingAgent(
        [tool(each) for each in TOOLS],
        model,
        max_steps=STEPS,
        stream_outputs=True,
        verbosity_level=LogLevel.OFF,
    )
    return str(agent.run(PROMPT))


class Smolagents(Client):
    """It requires a call in every turn, the answer too, and sends its history as text.

    A required call is made by a grammar that permits calls of declared tools and
    nothing else: a real model could not say an undeclared name here, or text beside a
    call.
    """

    def plays(self, scenario: str) -> bool:
        """No undeclared name."""
        return scenario != "undeclared" and super().plays(scenario)

    def scenario(self, scenario: Scenario, folder: Path) -> Scenario:
        """At each delta it adds up all that it has got: 500 lines would take
        minutes.
        """
        filled = super().scenario(scenario, folder)
        if filled.name != "long":
            return filled
        (name, text), *_ = filled.files.items()
        short = "".join(text.splitlines(keepends=True)[:100])
        turns = (Turn((Write(name, short),)), *filled.turns[1:])
        return replace(filled, turns=turns, files={name: short})

    def turn(self, scenario: Scenario, number: int) -> Turn:
        """Calls without text; the answer is the argument of ``final_answer``."""
        turn = scenario.turns[number]
        if number < len(scenario.turns) - 1:
            calls = tuple(part for part in turn.parts if not isinstance(part, Say))
            return replace(turn, parts=calls)
        final = Call("final_answer", {"answer": content(turn)})
        return replace(turn, parts=(final,))


def autogen(run: Run) -> str:
    """AutoGen's AssistantAgent."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    async def go() -> str:
        client = OpenAIChatCompletionClient(
            model=MODEL,
            base_url=run.url + "/v1",
            api_key=KEY,
            model_info={
                "vision": False,
                "function_calling": True,
                "json_output": False,
                "structured_output": False,
                "family": "unknown",
            },
        )
        agent = AssistantAgent(
            "writer",
            client,
            tools=list(TOOLS),
            system_message=INSTRUCTIONS,
            model_client_stream=True,
            max_tool_iterations=STEPS,
        )
        last: Any = None
        async for event in agent.run_stream(task=PROMPT):
            last = event
        await client.close()
        return str(last.messages[-1].content)

    return asyncio.run(go())


def agno(run: Run) -> str:
    """Agno's Agent."""
    from agno.agent import Agent
    from agno.models.openai.like import OpenAILike

    model = OpenAILike(id=MODEL, base_url=run.url + "/v1", api_key=KEY)
    agent = Agent(
        model=model, tools=list(TOOLS), instructions=INSTRUCTIONS, telemetry=False
    )
    last: Any = None
    for event in agent.run(PROMPT, stream=True, yield_run_output=True):
        last = event
    if str(last.status.value).lower() == "error":
        raise RuntimeError(str(last.content))
    return str(last.messages[-1].content or "")


def haystack(run: Run) -> str:
    """Haystack's Agent."""
    from haystack.components.agents import Agent
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function
    from haystack.utils import Secret

    generator = OpenAIChatGenerator(
        api_key=Secret.from_token(KEY),
        model=MODEL,
        api_base_url=run.url + "/v1",
        streaming_callback=lambda _: None,
    )
    agent = Agent(
        chat_generator=generator,
        tools=[create_tool_from_function(tool) for tool in TOOLS],
        system_prompt=INSTRUCTIONS,
        max_agent_steps=STEPS,
    )
    told = agent.run(messages=[ChatMessage.from_user(PROMPT)])
    return str(told["last_message"].text or "")


def llama_index(run: Run) -> str:
    """LlamaIndex's FunctionAgent with its OpenAI-like model."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    async def go() -> str:
        model = OpenAILike(
            model=MODEL,
            api_base=run.url + "/v1",
            api_key=KEY,
            is_chat_model=True,
            is_function_calling_model=True,
            context_window=200000,
        )
        agent = FunctionAgent(
            tools=[FunctionTool.from_defaults(tool) for tool in TOOLS],
            llm=model,
            system_prompt=INSTRUCTIONS,
        )
        handler = agent.run(user_msg=PROMPT, max_iterations=STEPS)
        async for _ in handler.stream_events():
            pass
        return str((await handler).response.content or "")

    return asyncio.run(go())


def semantic_kernel(run: Run) -> str:
    """Semantic Kernel's ChatCompletionAgent."""
    from openai import AsyncOpenAI
    from semantic_kernel import Kernel
    from semantic_kernel.agents import ChatCompletionAgent
    from semantic_kernel.connectors.ai import FunctionChoiceBehavior
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
    from semantic_kernel.functions import KernelPlugin, kernel_function

    async def go() -> str:
        async with AsyncOpenAI(base_url=run.url + "/v1", api_key=KEY) as client:
            kernel = Kernel()
            functions = [kernel_function(tool) for tool in TOOLS]
            kernel.add_plugin(KernelPlugin(name="lane", functions=functions))
            agent = ChatCompletionAgent(
                kernel=kernel,
                service=OpenAIChatCompletion(MODEL, async_client=client),
                instructions=INSTRUCTIONS,
                function_choice_behavior=FunctionChoiceBehavior.Auto(
                    maximum_auto_invoke_attempts=STEPS
                ),
            )
            said: list[str] = []

            async def begin_again(_: Any) -> None:
                said.clear()

            async for item in agent.invoke_stream(
                PROMPT, on_intermediate_message=begin_again
            ):
                said.append(str(item.message.content or ""))
            return "".join(said)

    return asyncio.run(go())


def aider(run: Run) -> str:
    """aider's command line, called in the process; it shows the edit and is done."""
    os.environ |= {"OPENAI_API_BASE": run.url + "/v1", "OPENAI_API_KEY": KEY}
    from aider.main import main

    home = os.environ["HOME"]  # its histories would go into a repository around it
    options = [
        "--edit-format",
        "whole",
        "--yes-always",
        "--no-git",
        "--no-check-update",
        "--no-pretty",
        "--analytics-disable",
        "--no-show-model-warnings",
        "--no-auto-lint",
        "--no-show-release-notes",
        "--no-detect-urls",
        "--map-tokens",
        "0",
    ]
    files = [
        "--chat-history-file",
        f"{home}/chat",
        "--input-history-file",
        f"{home}/in",
    ]
    model = ["--model", f"openai/{MODEL}", "--message", PROMPT]
    if status := main([*options, *files, *model]):
        raise RuntimeError(f"it ended with status {status}")
    return ""


class Aider(Client):
    """It declares no tools: it asks for whole files, each in a fence below its name."""

    def turn(self, scenario: Scenario, number: int) -> Turn:
        """A file is its name and its text between fences."""
        turn = scenario.turns[number]
        texts = [
            f"{part.path}\n```\n{part.content}```"
            if isinstance(part, Write)
            else part.text
            for part in turn.parts
            if isinstance(part, (Write, Say))
        ]
        text = "I write what is asked for.\n\n" + "\n\n".join(texts)
        return replace(turn, parts=(Say(text),))


OPENAI, ALL = ("chat", "responses"), ("chat", "responses", "messages")
MORE = ("more",)

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
    Smolagents("smolagents", ("chat",), smolagents, echoes=False),
    Client("qwen_agent", ("chat",), qwen_agent),
    Aider(
        "aider",
        ("chat",),
        aider,
        ("aider",),
        uses_tools=False,
        echoes=False,
        answers=False,
        scenarios=(
            *("plain", "tags", "yaml", "markdown", "unicode", "two", "long"),
            *("cut-write", "rest"),
        ),
    ),
    Client("autogen", ("chat",), autogen, MORE),
    Client("agno", ("chat",), agno, MORE),
    Client("haystack", ("chat",), haystack, MORE),
    Client("llama_index", ("chat",), llama_index, MORE, faults=CLOSES),
    Client(
        "semantic_kernel",
        ("chat",),
        semantic_kernel,
        MORE,
        Tools(
            ("lane-write_file", "path", "content"),
            ("lane-edit_file", "path", "old_string", "new_string"),
            ("lane-run_shell", "command"),
        ),
    ),
)
