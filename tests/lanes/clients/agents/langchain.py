"""LangChain's agent with langchain-openai, streamed, over chat completions or responses."""

from __future__ import annotations

from typing import Any

from clients.client import KEY, MODEL, PROMPT, Library, write_file


def ask(run: dict[str, Any]) -> str:
    """One run."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=run["url"] + "/v1", api_key=KEY, streaming=True,
                       use_responses_api=run["surface"] == "responses")  # fmt: skip
    agent = create_agent(model, [write_file], system_prompt="You write files.")
    question = {"messages": [{"role": "user", "content": PROMPT}]}
    last = None
    for state in agent.stream(question, {"recursion_limit": 100}, stream_mode="values"):
        last = state["messages"][-1]
    return str(last.text) if last is not None else ""


CLIENT = Library("langchain", ("chat", "responses"), ask)
