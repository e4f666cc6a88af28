# SPDX-License-Identifier: Apache-2.0
"""A tree's own server application with Qwen3.5's chat template.

Requests go in by path, and the prompt can be read.
"""

import functools
import json
import os
from pathlib import Path
from typing import Any

import harness
from conformance import tokens
from conformance.host.engine import MODEL, Script

#: Qwen3.5's template, which the application has; Qwen3-Coder's is an example of every
#: release.
QWEN35 = Path(__file__).parent / "templates" / "qwen35.jinja"
EXAMPLES = Path(os.environ["VLLM_TREE"]) / "examples"
QWEN3_CODER = EXAMPLES / "tool_chat_template_qwen3coder.jinja"


class Application:
    """The tree's application, its prompts with a template."""

    def __init__(self, reasoning: str = "qwen3", template: Path = QWEN35) -> None:
        options = ("--chat-template", str(template), "--trust-request-chat-template")
        self.app = harness.application(reasoning, "qwen3_coder", *options)

    def post(self, path: str, body: dict[str, Any], *steps: str) -> tuple[int, str]:
        """Status and body of the answer; the model says ``steps``."""
        said = [(text, tuple(harness.ids(text))) for text in steps or ("yes",)]
        end = ("", (tokens.load().token_to_id(tokens.EOS),))
        status, answer = harness.post(
            self.app, path, {"model": MODEL, **body}, Script((*said, end), "stop")
        )
        return status, answer.decode()

    def json(self, path: str, body: dict[str, Any], *steps: str) -> dict[str, Any]:
        """The document of an answer that must be one."""
        status, answer = self.post(path, body, *steps)
        assert status == 200, f"{status}: {answer}"
        return harness.parsed(answer)

    def events(
        self, path: str, body: dict[str, Any], *steps: str
    ) -> list[dict[str, Any]]:
        """The events of a stream."""
        status, answer = self.post(path, {**body, "stream": True}, *steps)
        assert status == 200, answer
        lines = answer.splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]

    def rendered(self, messages: list[dict[str, Any]], **fields: Any) -> str:
        """The prompt of a chat request, up to the answer's turn."""
        self.json("/v1/chat/completions", {"messages": messages, **fields})
        return self.history

    @property
    def prompt(self) -> str:
        """The last prompt, as the engine got it; empty if it was not asked."""
        asked = self.app.state.script.prompt or []
        prompt: str = tokens.load().decode(asked, skip_special_tokens=False)
        return prompt

    @property
    def history(self) -> str:
        """The last prompt, up to the answer's turn."""
        return self.prompt.rpartition("<|im_start|>assistant\n")[0]


#: The application, made once for a reasoning parser and a template.
application = functools.cache(Application)
