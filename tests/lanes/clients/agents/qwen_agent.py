"""Qwen-Agent's Assistant with the server's own tool calls (``use_raw_api``), streamed, over chat completions."""

from __future__ import annotations

import json
import os
from typing import Any, ClassVar

from clients.client import KEY, MODEL, PROMPT, Library, write_file


def ask(run: dict[str, Any]) -> str:
    """One run."""
    os.environ["QWEN_AGENT_MAX_LLM_CALL_PER_RUN"] = "40"
    from qwen_agent.agents import Assistant
    from qwen_agent.tools.base import BaseTool

    class WriteFile(BaseTool):  # type: ignore[misc]
        name = "write_file"
        description = "Write a file."
        parameters: ClassVar[dict[str, Any]] = {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        }

        def call(self, params: Any, **_: Any) -> str:
            return write_file(**(json.loads(params) if isinstance(params, str) else params))

    llm = {"model": MODEL, "model_type": "oai", "model_server": run["url"] + "/v1", "api_key": KEY,
           "generate_cfg": {"use_raw_api": True, "max_retries": 0}}  # fmt: skip
    agent = Assistant(llm=llm, function_list=[WriteFile()], system_message="You write files.")
    last: list[Any] = []
    for messages in agent.run([{"role": "user", "content": PROMPT}]):
        last = messages
    return str(last[-1]["content"]) if last else ""


CLIENT = Library("qwen_agent", ("chat",), ask)
